"""Conditions and loops."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from returnn.tensor import Tensor


class ControlFlowOps:
    """Conditions and loops. Eager backends need none of it: there, Python's own serve."""

    @classmethod
    def assert_(cls, condition: Tensor, message: str, *, stop: bool = True) -> None:
        """
        :param condition: scalar, bool
        :param message: for people
        :param stop: end with an error; otherwise, the message is only printed
        """
        if bool(cls.raw_to_numpy(condition.raw_tensor)):  # type: ignore[attr-defined]
            return
        if stop:
            raise AssertionError(message)
        print(f"Assertion failed: {message}")

    @staticmethod
    def cond(pred: Tensor, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
        """See `returnn.frontend.cond`."""
        raise NotImplementedError

    @staticmethod
    def while_loop(cond: Callable[[Any], bool | Tensor], body: Callable[[Any], Any], initial: Any) -> Any:
        """See `returnn.frontend.while_loop`."""
        raise NotImplementedError

    @staticmethod
    def dry_run_scope() -> Any:
        """:return: context manager; operations made inside are thrown away afterwards"""
        return contextlib.nullcontext()
