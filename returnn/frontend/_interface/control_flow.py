"""Conditions and loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from returnn.tensor import Tensor


class ControlFlowOps:
    """Conditions and loops. Eager backends need none of it: there, Python's own serve."""

    @staticmethod
    def cond(pred: Tensor, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
        """See `returnn.frontend.cond`."""
        raise NotImplementedError
