"""
Attention weights, watched while a step runs on templates: a softmax over some frames, which is summed over other ones.

The template backend notes each softmax over frames, and each sum of products. Dropout leaves weights what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from returnn.tensor import Dim, Tensor

OnOtherSum = Callable[[Dim, Sequence[Dim]], None]


class _Watch:
    def __init__(self, on_other_sum: OnOtherSum) -> None:
        self.on_other_sum = on_other_sum
        self.weights: list[tuple[Tensor, Dim]] = []  # with the dim of their softmax

    def dim_of(self, x: Tensor) -> Dim | None:
        return next((dim for weights, dim in self.weights if weights is x), None)


_watches: list[_Watch] = []


@contextmanager
def watched_weights(on_other_sum: OnOtherSum) -> Iterator[None]:
    """
    :param on_other_sum: is called where weights are summed over other dims than that of their softmax, which stays:
        with the dim of the softmax, and those of the sum
    :return: context in which this is so, for operations on templates
    """
    watch = _Watch(on_other_sum)
    _watches.append(watch)
    try:
        yield
    finally:
        _watches.remove(watch)


def note_softmax(out: Tensor, axis: Dim) -> None:
    """
    :param out: of a softmax
    :param axis: its dim. If it has a fixed size, it may be classes, whose probabilities are summed over anything
    """
    if axis.size is None:
        for watch in _watches:
            watch.weights.append((out, axis))


def note_dropout(out: Tensor, source: Tensor) -> None:
    """
    :param out: source with some entries left out
    :param source: maybe weights
    """
    for watch in _watches:
        dim = watch.dim_of(source)
        if dim is not None:
            watch.weights.append((out, dim))


def note_sum_of_products(a: Tensor, b: Tensor, reduce: Sequence[Dim]) -> None:
    """
    :param a: factor
    :param b: factor
    :param reduce: dims of both which are summed over
    """
    for watch in _watches:
        for x in (a, b):
            dim = watch.dim_of(x)
            if dim is not None and dim not in reduce:
                watch.on_other_sum(dim, reduce)
