"""Conditions that have to hold."""

from __future__ import annotations

from typing import Any

from returnn.frontend._backends.raw import RawOps
from returnn.tensor import Tensor


class AssertionOps(RawOps[Any]):
    """Conditions that have to hold."""

    @classmethod
    def assert_(cls, condition: Tensor, message: str, *, stop: bool = True) -> None:
        """
        :param condition: scalar, bool
        :param message: for people
        :param stop: end with an error; otherwise, the message is only printed
        """
        if bool(cls.raw_to_numpy(condition.raw_tensor)):
            return
        if stop:
            raise AssertionError(message)
        print(f"Assertion failed: {message}")
