"""What help texts refer to, beyond what a config can name: "see `ReuseParams`", "see `seq_order`"."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from pathlib import Path

import returnn
from returnn.help.class_outline import outline_of
from returnn.help.class_text import class_text

_PACKAGE = Path(returnn.__file__).parent


def mentioned_text(name: str, width: int) -> str | None:
    """
    :param name: of a class, a function or a module of the toolkit; a class may stand before it
    :param width: of the text, in characters
    :return: its documentation; None if there is nothing of that name
    """
    last = name.rpartition(".")[2]
    declares = re.compile(rf"^(?:class|def) {re.escape(last)}\b", re.MULTILINE)
    for file, code in _code_by_file().items():
        module = ".".join(file.relative_to(_PACKAGE.parent).with_suffix("").parts)
        if file.stem == last or module == name:
            return _with_title(f"module {module}", ast.get_docstring(ast.parse(code)))
        if last in code and declares.search(code):
            return _declared_text(ast.parse(code), module, last, width)
    return None


@functools.cache
def _code_by_file() -> dict[Path, str]:
    files = sorted(
        _PACKAGE.rglob("*.py"), key=lambda file: ("compat" in file.parts, file)
    )  # names of the past come last
    return {file: file.read_text(encoding="utf8") for file in files}


def _declared_text(tree: ast.Module, module: str, name: str, width: int) -> str | None:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return class_text(f"class {name!r} of {module}", outline_of(module, name), width)
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return _with_title(f"function {name!r} of {module}", ast.get_docstring(node))
    return None


def _with_title(title: str, docstring: str | None) -> str:
    return f"{title}\n\n{inspect.cleandoc(docstring or '')}"
