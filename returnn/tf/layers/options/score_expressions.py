"""What numbers an expression of the class "eval" computes from scores: probabilities, or their logarithms."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

LOG_FUNCTIONS = ("safe_log", "log")
_SOFTMAX_FUNCTIONS = {"softmax": "prob", "log_softmax": "log_prob"}
_KEEPING_FUNCTIONS = ("maximum", "clip_by_value", "identity", "stop_gradient")  # what their first argument is


def kind_of_expression(
    expression: str, kind_of_source: Callable[[int], str | None], *, num_sources: int, names: Mapping[str, Any]
) -> str | None:
    """
    :param expression: such as "safe_log(source(0)) + 0.3 * source(1)"
    :param kind_of_source: "prob", "log_prob", "logits" or None, by its index
    :param num_sources: how many there are
    :param names: further values in the expression
    :return: the kind of the result; None if it cannot be told. A sum in which there are log probabilities has such
    """

    def kind_of(node: ast.expr) -> str | None:
        if isinstance(node, ast.Call):
            return kind_of_call(node)
        if not isinstance(node, ast.BinOp):
            return None
        left, right = kind_of(node.left), kind_of(node.right)
        if isinstance(node.op, ast.Add):
            if "log_prob" in (left, right):
                return "log_prob"
            return left if _number(node.right, names) is not None else None  # such as 1e-10, before a logarithm
        if isinstance(node.op, ast.Sub):
            return "log_prob" if left == "log_prob" else None
        if isinstance(node.op, ast.Mult | ast.Div) and left == "log_prob" and _is_scale(node.right, names):
            return left
        is_scaled = isinstance(node.op, ast.Mult) and right == "log_prob" and _is_scale(node.left, names)
        return right if is_scaled else None

    def kind_of_call(node: ast.Call) -> str | None:
        name = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
        if name in _SOFTMAX_FUNCTIONS:
            return _SOFTMAX_FUNCTIONS[name]
        if not node.args:
            return None
        first = node.args[0]
        if name == "source":
            index = first.value if isinstance(first, ast.Constant) else None
            return kind_of_source(index) if isinstance(index, int) and 0 <= index < num_sources else None
        if name in LOG_FUNCTIONS:
            return "log_prob" if kind_of(first) == "prob" else None
        return kind_of(first) if name in _KEEPING_FUNCTIONS else None

    try:
        return kind_of(ast.parse(expression.strip(), mode="eval").body)
    except SyntaxError:
        return None


def _number(node: ast.expr, names: Mapping[str, Any]) -> float | None:
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(node, ast.Name):
        value = names.get(node.id)
    return value if isinstance(value, int | float) else None


def _is_scale(node: ast.expr, names: Mapping[str, Any]) -> bool:
    return (_number(node, names) or 0) > 0
