"""Reads Python expressions out of files, without running any code."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

_CONSTANTS = {"nan": float("nan"), "inf": float("inf")}


def literal_eval(s: str, constructors: Mapping[str, Callable[..., Any]] | None = None) -> Any:
    """
    Like `ast.literal_eval`, with `nan` and `inf`, scalars of numpy, and named constructors.

    :param s: Python expression of literals
    :param constructors: functions that may be called in it, e.g. `{"set": set}`
    :raises ValueError: if there is something else
    """
    try:
        tree = ast.parse(s.strip(), mode="eval")
    except SyntaxError as exc:
        raise ValueError(f"line {exc.lineno}: {exc.msg}") from exc
    return _Evaluator({"set": set, "frozenset": frozenset, "float": float, **(constructors or {})}).visit(tree.body)


class _Evaluator(ast.NodeVisitor):
    """Yields the value of each node."""

    def __init__(self, constructors: Mapping[str, Callable[..., Any]]):
        self.constructors = constructors

    def generic_visit(self, node: ast.AST) -> Any:
        line = getattr(node, "lineno", "?")
        raise ValueError(f"line {line}: {ast.unparse(node)!r} is no literal")

    def visit_Constant(self, node: ast.Constant) -> Any:
        return node.value

    def visit_Name(self, node: ast.Name) -> Any:
        return _CONSTANTS[node.id] if node.id in _CONSTANTS else self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> Any:
        if None in node.keys:
            return self.generic_visit(node)
        return {self.visit(key): self.visit(value) for key, value in zip(node.keys, node.values, strict=True) if key}

    def visit_List(self, node: ast.List) -> Any:
        return [self.visit(entry) for entry in node.elts]

    def visit_Tuple(self, node: ast.Tuple) -> Any:
        return tuple(self.visit(entry) for entry in node.elts)

    def visit_Set(self, node: ast.Set) -> Any:
        return {self.visit(entry) for entry in node.elts}

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = self.visit(node.operand)
        if isinstance(node.op, ast.USub):
            return -value
        return +value if isinstance(node.op, ast.UAdd) else self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        """A complex number, e.g. `1+2j`."""
        left, right = self.visit(node.left), self.visit(node.right)
        if isinstance(right, complex) and isinstance(node.op, (ast.Add, ast.Sub)):
            return left + right if isinstance(node.op, ast.Add) else left - right
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> Any:
        """A call of a constructor; also of numpy's scalars, e.g. `np.float64(0.5)`, as numpy prints them."""
        args = [self.visit(arg) for arg in node.args]
        keywords = {keyword.arg: self.visit(keyword.value) for keyword in node.keywords if keyword.arg}
        if isinstance(node.func, ast.Name) and node.func.id in self.constructors:
            return self.constructors[node.func.id](*args, **keywords)
        is_numpy = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) in ("np", "numpy")
        if is_numpy and len(args) == 1 and not keywords:
            return args[0]
        return self.generic_visit(node)
