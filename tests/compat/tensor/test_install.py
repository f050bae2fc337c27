"""What `returnn.compat` gives to the classes of tensors, and that the core does well without it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import returnn
import returnn.frontend as rf
from returnn.compat.tensor.install import OLD_MEMBERS
from returnn.compat.tensor.members import give_members, names_of_members
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.util.errors import DimError
from returnn.util.python.completion import when_complete

PACKAGE = Path(returnn.__file__).parent
OLD_NAMES = {name for groups in OLD_MEMBERS.values() for members in groups for name in names_of_members(members)}
NAMES_OF_OTHER_THINGS_TOO = {"batch", "control_flow_ctx", "copy_from", "description", "get_full_name", "ndim", "shape"}
TENSORFLOW = {"tf1.placeholder", "tf.compat.v1.placeholder"}


def test_core_uses_no_old_name() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}: {ast.unparse(node)}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if PACKAGE / "compat" not in path.parents
        for node in ast.walk(ast.parse(path.read_text("utf8")))
        if isinstance(node, ast.Attribute)
        and node.attr in OLD_NAMES - NAMES_OF_OTHER_THINGS_TOO
        and ast.unparse(node) not in TENSORFLOW
    ]
    assert not wrong


def test_who_imports_a_part_gets_complete_classes() -> None:
    code = "from returnn.tensor.tensor import Tensor; print(Tensor('x', shape=(None, 3)).batch_ndim)"
    shown = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True)
    assert shown.stdout == "3\n"


def test_import_of_the_root_imports_no_tensors() -> None:
    code = "import sys, returnn; print('returnn.tensor' in sys.modules, 'numpy' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True)
    assert shown.stdout == "False False\n"


def test_what_comes_late_is_completed_at_once() -> None:
    called: list[str] = []
    when_complete("returnn.tensor", lambda: called.append("now"))
    assert called == ["now"]


def test_members_are_not_replaced() -> None:
    class Names(Tensor):
        def copy(self) -> None:
            pass

    with pytest.raises(TypeError, match="Tensor has a member 'copy' already"):
        give_members(Tensor, Names)


def test_dyn_size_gives_raw_lengths() -> None:
    lengths = numpy.array([3, 1], "int32")
    assert Dim(None, name="time", dyn_size=lengths).dyn_size_ext.dims == (batch_dim,)
    with pytest.raises(DimError, match="has the size 3, so it cannot have lengths too"):
        Dim(3, name="time", dyn_size=lengths)


def test_placeholder_is_the_raw_tensor() -> None:
    x = rf.convert_to_tensor(numpy.zeros((2,), "float32"), dims=[Dim(2, name="feature")])
    assert Tensor("x", x.dims, placeholder=x.raw_tensor).placeholder is x.raw_tensor
