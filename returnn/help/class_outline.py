"""
Classes as far as help needs them, read from source code.

Modules of layers import TensorFlow, which takes seconds. An outline is a class, too. It has of the original the name,
the docstring, the base classes, the attributes which are plain values, signature and docstring of `__init__`, and the
fields of a dataclass.
A test holds that the help is the same as from the classes themselves.
"""

from __future__ import annotations
import __future__

import ast
import functools
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import returnn

_WITH_TENSORFLOW = "returnn.tf."
_ROOT = Path(returnn.__file__).parent.parent


def outlines_with(attribute: str, package: str) -> dict[str, type]:
    """
    :param attribute: of classes, which has a name, or several
    :param package: in which they are, such as "returnn.tf.layers"
    :return: the outlines of all classes that set it, by these names
    """
    found = {}
    for file in sorted((_ROOT / package.replace(".", "/")).rglob("*.py")):
        if f"    {attribute} = " not in file.read_text(encoding="utf8"):
            continue
        module = _Source.of(".".join(file.relative_to(_ROOT).with_suffix("").parts))
        for name in module.classes:
            outline = outline_of(module.name, name)
            names = vars(outline).get(attribute) or ()
            found.update(dict.fromkeys([names] if isinstance(names, str) else names, outline))
    return found


@functools.cache
def outline_of(module: str, name: str) -> Any:
    """
    :param module: full name
    :param name: of a class that it declares or imports
    :return: the outline; None if it is not of the toolkit
    """
    source = _Source.of(module)
    if name not in source.classes:
        return outline_of(*source.imports[name]) if name in source.imports else None
    node = source.classes[name]
    bases = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
    outlines = (outline_of(module, base.id) for base in bases if isinstance(base, ast.Name))
    members = {"__module__": module, "__doc__": ast.get_docstring(node, clean=False), **source.values_in(node.body)}
    for function in node.body:
        if isinstance(function, ast.FunctionDef) and function.name == "__init__":
            members["__init__"] = _signature_of(function, source)
    decorators = " ".join(map(ast.unparse, node.decorator_list))
    if "dataclass" in decorators:
        members.update(source.fields_in(node.body))
    outline = type(name, tuple(base for base in outlines if base is not None), members)
    if "dataclass" not in decorators:
        return outline
    made: Any = dataclass(frozen="frozen=True" in decorators)(outline)
    made.__init__.__doc__ = source.meanings_of_fields(node.body)
    return made


class _Source:
    """What a module declares."""

    def __init__(self, name: str):
        self.name = name
        self.classes: dict[str, ast.ClassDef] = {}
        self.imports: dict[str, tuple[str, str]] = {}
        path = _ROOT / name.replace(".", "/")
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        text = file.read_text(encoding="utf8") if file.exists() else ""
        body = ast.parse(text).body
        self._lines = text.splitlines()
        for node in body:
            if isinstance(node, ast.ClassDef):
                self.classes[node.name] = node
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    self.imports[alias.asname or alias.name] = (node.module or "", alias.name)
        self.values = self.values_in(body)

    @classmethod
    @functools.cache
    def of(cls, name: str) -> _Source:
        """:return: of the module of that name; empty if it is not of the toolkit"""
        return cls(name)

    def values_in(self, body: list[ast.stmt]) -> dict[str, Any]:
        """:return: what is set there to a plain value"""
        return {name: ast.literal_eval(value) for name, value in _assigned(body) if _is_plain(value)}

    def fields_in(self, body: list[ast.stmt]) -> dict[str, Any]:
        """:return: the members that make them the fields of a dataclass"""
        declared = (node for node in body if isinstance(node, ast.AnnAssign))
        fields = {node.target.id: node for node in declared if isinstance(node.target, ast.Name)}
        defaults = {name: self.value(field.value) for name, field in fields.items() if field.value is not None}
        annotations = {name: ast.unparse(field.annotation) for name, field in fields.items()}
        return {**defaults, "__annotations__": annotations, "__module__": __name__}  # `dataclass` looks into the module

    def meanings_of_fields(self, body: list[ast.stmt]) -> str:
        """:return: the comments behind the fields of a dataclass, as the documentation of its arguments"""
        found = []
        for node in body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                behind = self._lines[(node.end_lineno or 1) - 1].encode()[node.end_col_offset :].decode()
                meaning = behind.partition("#")[2].strip()
                found += [f":param {node.target.id}: {meaning}"] if meaning else []
        return "\n".join(found)

    def value(self, expression: ast.expr) -> Any:
        """:return: of a default of an argument; if it needs TensorFlow, something which is shown as the code"""
        if _is_plain(expression):
            return ast.literal_eval(expression)
        if isinstance(expression, ast.Name):
            if expression.id in self.values:
                return self.values[expression.id]
            module, name = self.imports.get(expression.id, (_WITH_TENSORFLOW, ""))
            if not f"{module}.".startswith(_WITH_TENSORFLOW):
                return getattr(importlib.import_module(module), name)
        if isinstance(expression, ast.Call) and expression.keywords and expression.keywords[0].arg == "default_factory":
            return _Code(f"{ast.unparse(expression.keywords[0].value)}()")
        return _Code(expression.attr if isinstance(expression, ast.Attribute) else ast.unparse(expression))


class _Code:
    """A value of which only the code is known."""

    def __init__(self, code: str):
        self.code = code

    def __repr__(self) -> str:
        return self.code


def _assigned(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        if len(targets) == 1 and isinstance(targets[0], ast.Name) and value is not None:
            yield targets[0].id, value


def _is_plain(expression: ast.expr) -> bool:
    try:
        ast.literal_eval(expression)
    except ValueError:
        return False
    return True


def _signature_of(function: ast.FunctionDef, source: _Source) -> Callable[..., None]:
    """:return: does nothing, with the same arguments and documentation"""
    args = function.args
    defaults = tuple(map(source.value, args.defaults))
    keywords = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    keyword_defaults = {arg.arg: source.value(value) for arg, value in keywords if value is not None}
    docstring = ast.Expr(ast.Constant(ast.get_docstring(function, clean=False)))
    none = ast.Constant(None)
    args = ast.arguments(
        args.posonlyargs, args.args, args.vararg, args.kwonlyargs, [value and none for value in args.kw_defaults],
        args.kwarg, [none] * len(args.defaults),
    )  # fmt: skip
    outline = ast.FunctionDef(name=function.name, args=args, body=[docstring], decorator_list=[], returns=None)
    tree = ast.fix_missing_locations(ast.Module([outline], []))
    namespace: dict[str, Any] = {}
    flags = __future__.annotations.compiler_flag  # they stay texts
    exec(compile(tree, source.name, "exec", flags, dont_inherit=True), namespace)
    made = namespace[function.name]
    made.__defaults__, made.__kwdefaults__ = defaults, keyword_defaults
    return made
