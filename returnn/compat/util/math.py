"""Functions of one number, e.g. of the training step, and integer arithmetic."""

from __future__ import annotations

import bisect
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any


def ceil_div(a: int, b: int) -> int:
    """:return: a / b, rounded up"""
    return -(-a // b)


def next_power_of_two(n: int) -> int:
    """:return: the smallest power of two that is not below"""
    return 1 << max(n - 1, 0).bit_length()


def simplify_and_format_number(n: int | float) -> str:
    """:return: without a fraction if it has none, e.g. "2" for 2.0"""
    return str(int(n)) if int(n) == n else str(n)


def merge_random_seeds(data_sources: Sequence[int], *, num_bytes: int = 4, signed: bool = False) -> int:
    """
    :param data_sources: numbers, e.g. the epoch and an index
    :param num_bytes: of the result
    :param signed: whether it can be negative
    :return: a seed that depends on all of them
    """
    text = ",".join(map(str, data_sources))
    digest = hashlib.sha256(text.encode("utf8")).digest()
    return int.from_bytes(digest[:num_bytes], "big", signed=signed)


class _PointwiseFunction:
    """A function given by points. It can be called with the number as an argument or as a keyword argument."""

    def __init__(self, values: Mapping[float, float], *, kw_name: str | None = None, ignore_other_kwargs: bool = False):
        """
        :param values: from x to y
        :param kw_name: of the argument, if it comes by name
        :param ignore_other_kwargs: whether there may be others
        """
        self._points = sorted(values.items())
        self._xs = [x for x, _ in self._points]
        self._kw_name = kw_name
        self._ignore_other_kwargs = ignore_other_kwargs

    def __getstate__(self) -> dict[str, Any]:
        opts = {"kw_name": self._kw_name, "ignore_other_kwargs": self._ignore_other_kwargs}
        return {"values": dict(self._points), **opts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self._points)!r})"

    def __call__(self, *args: float, **kwargs: Any) -> float:
        if self._kw_name in kwargs:
            args = (*args, kwargs.pop(self._kw_name))
        if len(args) != 1 or (kwargs and not self._ignore_other_kwargs):
            raise TypeError(f"{self!r} takes one number, got {args!r} and {kwargs!r}")
        return self._value(args[0])

    def _value(self, x: float) -> float:
        raise TypeError(f"{type(self).__name__} has to define _value")


class PiecewiseLinear(_PointwiseFunction):
    """Linear between the points, constant before the first and after the last one."""

    def _value(self, x: float) -> float:
        index = bisect.bisect_right(self._xs, x)
        if index in (0, len(self._points)):
            return self._points[min(index, len(self._points) - 1)][1]
        (x0, y0), (x1, y1) = self._points[index - 1 : index + 1]
        return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


class StepFunction(_PointwiseFunction):
    """At and after each point its value, until the next one; before the first point, the value of that."""

    def _value(self, x: float) -> float:
        return self._points[max(bisect.bisect_right(self._xs, x) - 1, 0)][1]
