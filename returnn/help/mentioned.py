"""What texts refer to, beyond what a config can name: `ReuseParams`, `rf.get_run_ctx`, `mark_as_loss`."""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import re
import textwrap
from pathlib import Path

import returnn
from returnn.help.class_outline import outline_of
from returnn.help.class_text import class_text, public_options
from returnn.help.module_methods import calls_text, full_name_in_frontend, module_class, module_method_text
from returnn.tf.layers.options.layer_options import options_of

_PACKAGE = Path(returnn.__file__).parent
_INNER = {"tf", "torch", "engine", "compat"}


def mentioned_text(name: str, width: int, *, may_be_module: bool = True) -> str | None:
    """
    :param name: of a class, a function or a module of the toolkit; a module may stand before it
    :param width: of the text, in characters
    :param may_be_module: whether the name alone, without those around it, can be that of a module
    :return: its documentation; None if there is nothing of that name
    """
    name = full_name_in_frontend(name) or re.sub(r"^rf\.(?=.*\.)", "returnn.frontend.", name)
    owner, _, last = name.rpartition(".")
    declares = re.compile(rf"^(?:class|def) {re.escape(last)}\b", re.MULTILINE)
    of_module = None
    in_order = sorted(
        _code_by_file().items(),
        key=lambda item: not item[0].with_suffix("").as_posix().endswith(owner.replace(".", "/")),
    )
    for file, code in in_order:
        module = ".".join(file.relative_to(_PACKAGE.parent).with_suffix("").parts)
        if module == name:
            return _module_text(module, code)
        if last in code and declares.search(code):
            return _declared_text(ast.parse(code), module, last, width)
        if may_be_module and file.stem == last and of_module is None:
            of_module = _module_text(module, code)
    return of_module


def _module_text(module: str, code: str) -> str:
    return _with_title(f"module {module}", ast.get_docstring(ast.parse(code)))


def method_text(name: str) -> str | None:
    """
    :param name: of a method of a class of the toolkit; the class may stand before it
    :return: its documentation; None if there is nothing of that name. If several classes have one, it is that of the
        first, and what users derive from comes before engines and layers
    """
    of_module = module_method_text(name)
    if of_module is not None:
        return of_module
    owner, _, last = name.rpartition(".")
    declares = re.compile(rf"^    def {re.escape(last)}\b", re.MULTILINE)
    for file in sorted(_code_by_file(), key=lambda file: not _INNER.isdisjoint(file.parts)):
        if not declares.search(_code_by_file()[file]):
            continue
        module = ".".join(file.relative_to(_PACKAGE.parent).with_suffix("").parts)
        for node in ast.parse(_code_by_file()[file]).body:
            if isinstance(node, ast.ClassDef) and owner.rpartition(".")[2] in ("", node.name):
                for method in _methods_of(node):
                    if method.name == last:
                        return _function_text(f"method {last!r} of the class {node.name!r} of {module}", method)
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
            return _class_text(node, module, width)
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return _function_text(f"function {name!r} of {module}", node)
    return None


def _class_text(node: ast.ClassDef, module: str, width: int) -> str:
    """:return: with its options, or with its methods where it has none, as what is there to be derived from"""
    title, outline = f"class {node.name!r} of {module}", outline_of(module, node.name)
    methods = _methods_of(node)
    called = module_class(module, node.name)
    if called is not None:
        return f"{class_text(title, outline, width)}\n\n{calls_text(called, width)}".rstrip()
    if public_options(options_of(outline)) or not methods:
        return class_text(title, outline, width)
    texts = [_with_title(f"{method.name}({_arguments_of(method)})", ast.get_docstring(method)) for method in methods]
    indented = [textwrap.indent(text.replace("\n\n", "\n", 1), "  ").strip() for text in texts]
    return "\n\n".join([_with_title(title, ast.get_docstring(node)), *indented])


def _methods_of(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [item for item in node.body if isinstance(item, ast.FunctionDef) and not item.name.startswith("_")]


def _function_text(title: str, node: ast.FunctionDef) -> str:
    return _with_title(title, f"{node.name}({_arguments_of(node)})\n\n{ast.get_docstring(node) or ''}")


def _arguments_of(node: ast.FunctionDef) -> str:
    """:return: as one writes them, without `self` and types"""
    bare = copy.deepcopy(node.args)
    for argument in [*bare.posonlyargs, *bare.args, *bare.kwonlyargs, bare.vararg, bare.kwarg]:
        if argument is not None:
            argument.annotation = None
    return re.sub(r"^(self|cls)(, |$)", "", ast.unparse(bare))


def _with_title(title: str, docstring: str | None) -> str:
    return f"{title}\n\n{inspect.cleandoc(docstring or '')}".rstrip()
