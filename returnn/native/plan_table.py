"""The table of plans in C++, see `returnn.tensor.plans`: compiled once, for this version of Python."""

from __future__ import annotations

import functools
from typing import Any

from returnn.native.build import SOURCES
from returnn.util.errors import UserError
from returnn.util.py_ext_mod_compiler import PyExtModCompiler
from returnn.util.system.warn_once import warn_once

_NAME = "plan_table"


@functools.cache
def load_plan_table() -> Any:
    """
    :return: the class, which takes the base class of tensors, and the one of results; None, after a warning with the
        reason, if it cannot be compiled
    """
    code = (SOURCES / "python" / f"{_NAME}.cpp").read_text("utf8")
    try:
        return PyExtModCompiler(base_name=_NAME, code=code, use_cxx11_abi=True).load_py_module().PlanTable
    except (UserError, OSError, ImportError) as exc:
        warn_once(f"Operations on small tensors of PyTorch are slower, as a part of them cannot be compiled: {exc}")
        return None
