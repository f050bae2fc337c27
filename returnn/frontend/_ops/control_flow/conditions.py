"""What the condition of a loop looks like."""

from __future__ import annotations

from typing import Any

from returnn.frontend._ops.operands import fail
from returnn.tensor import Tensor
from returnn.util.errors import DtypeError


def check_condition(condition: Any) -> None:
    """:raises DimError: if the condition of a loop is no scalar"""
    if not isinstance(condition, Tensor):
        return
    if condition.dims:
        raise fail(
            f"while_loop: the condition {condition} is not a scalar.", "Use rf.reduce_any or rf.reduce_all on it."
        )
    if condition.dtype != "bool":
        raise DtypeError(
            f"while_loop: the condition {condition} is not bool. Compare with something first, such as `x > 0`."
        )
