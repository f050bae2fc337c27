"""Rules of conditions and loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from returnn.tensor import Tensor


class ControlFlowRules:
    """Rules of conditions and loops. For their meaning see `returnn.frontend._interface.control_flow`."""

    @classmethod
    def assert_(cls, condition: Tensor, message: str, *, stop: bool = True) -> None:
        """Nothing to do: there is no value."""

    @staticmethod
    def cond(pred: Tensor, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
        """:return: templates of what the first function returns; the second one is called, so that it is checked too"""
        result = true_fn()
        false_fn()
        return result
