"""Expressions of users that are known to be elementwise."""

from __future__ import annotations

import ast
from collections.abc import Collection

_ELEMENTWISE = frozenset({
    "abs", "add", "cast", "clip_by_value", "cos", "divide", "elu", "equal", "erf", "exp", "expm1", "floor", "gelu",
    "greater", "greater_equal", "identity", "less", "less_equal", "log", "log1p", "log_sigmoid", "logical_and",
    "logical_not", "logical_or", "maximum", "minimum", "multiply", "negative", "not_equal", "ones_like", "pow", "relu",
    "relu6", "round", "rsqrt", "safe_log", "sigmoid", "sign", "sin", "softplus", "source", "sqrt", "square",
    "stop_gradient", "subtract", "swish", "tanh", "to_float", "to_int32", "where", "zeros_like",
})  # fmt: skip
_FORBIDDEN = (ast.Subscript, ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp, ast.MatMult)
_WITH_SHAPES = (ast.Attribute, ast.Dict, ast.List, ast.Set, ast.Tuple)  # may bring axes of their own


def is_elementwise(expression: str) -> bool:
    """:return: whether all that an expression of the class "eval" does is known to be elementwise"""
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except SyntaxError:
        return False
    for node in ast.walk(tree):
        if isinstance(node, _FORBIDDEN):
            return False
        if isinstance(node, ast.Call):
            function = node.func
            name = getattr(function, "attr", None) or getattr(function, "id", None)
            given = {keyword.arg for keyword in node.keywords}
            if name not in _ELEMENTWISE or given & {"as_layer", "as_data", None}:
                return False
    return True


def is_of_sources_alone(expression: str, scalars: Collection[str] = ()) -> bool:
    """
    :param expression: of the class "eval"
    :param scalars: further names which it can use, of numbers
    :return: whether it is elementwise, and computed of the sources and of numbers, so that axes can stand anywhere
    """
    if not is_elementwise(expression):
        return False
    tree = ast.parse(expression.strip(), mode="eval")
    functions = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node not in functions]
    of_functions = [name for function in functions for name in ast.walk(function)]
    for node in ast.walk(tree):
        if isinstance(node, _WITH_SHAPES) and node not in of_functions:
            return False
        is_source = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "source"
        if is_source and (node.keywords or len(node.args) != 1):  # type: ignore[attr-defined]
            return False
    return all(node in of_functions or node.id in scalars for node in names)
