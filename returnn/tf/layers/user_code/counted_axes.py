"""
Whether an expression of a user counts axes from the front: `source(0)[:, 0]`, `tf.reduce_sum(source(0), axis=1)`.

In a loop, it is written for one frame. All frames at once have one axis more in front, so it would mean another one.
Axes counted from the end are the same: `source(0)[..., 0]`, `axis=-1`.
"""

from __future__ import annotations

import ast

_NAMES_OF_AXES = {"axis", "axes", "dim", "perm", "batch_dim", "batch_dims", "batch_axis", "seq_axis", "seq_dim"}


def counts_axes(expression: str) -> bool:
    """
    :param expression: Python
    :return: whether it has positions of axes, as far as can be seen
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except SyntaxError:
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and _is_tensor(node.value) and not _begins_with_ellipsis(node.slice):
            return True
        if isinstance(node, ast.Call) and any(_counts(x.value) for x in node.keywords if x.arg in _NAMES_OF_AXES):
            return True
    return False


def _is_tensor(node: ast.expr) -> bool:
    """:return: whether it computes with a source, and is not its shape or something else about it"""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id == "source" and not node.keywords
    if isinstance(node, ast.BinOp):
        return _is_tensor(node.left) or _is_tensor(node.right)
    return False


def _begins_with_ellipsis(index: ast.expr) -> bool:
    first = index.elts[0] if isinstance(index, ast.Tuple) and index.elts else index
    return isinstance(first, ast.Constant) and first.value is Ellipsis


def _counts(value: ast.expr) -> bool:
    values = value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value]
    return any(isinstance(x, ast.Constant) and isinstance(x.value, int) and x.value >= 0 for x in values)
