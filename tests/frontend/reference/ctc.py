"""Scores and alignments of label sequences: dynamic programming, one sequence and one frame after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy
from numpy import ndarray

from returnn.frontend._backends.template import TemplateBackend
from returnn.tensor import Dim, Tensor
from tests.frontend.reference.labeled import broadcast
from tests.frontend.reference.softmax import SoftmaxReferenceOps


class CtcReferenceOps:
    """For the meaning of the operations see `returnn.frontend._ops`."""

    @staticmethod
    def ctc_loss(
        *, max_approx: bool = False, use_native_op: bool | None = None, label_loop: bool = True, **inputs: Any
    ) -> Tensor:
        """:return: negative log probability"""
        out = TemplateBackend.ctc_loss(
            max_approx=max_approx, use_native_op=use_native_op, label_loop=label_loop, **inputs
        )
        values = []
        for scores, labels in _sequences(out.dims, **inputs):
            states = _states(labels, inputs["blank_index"])
            combine = numpy.maximum if max_approx else numpy.logaddexp
            alpha = numpy.full(len(states), -numpy.inf)
            alpha[0] = 0
            for frame in scores:
                before = [_before(alpha, states, label_loop, step) for step in range(3)]
                alpha = combine(combine(before[0], before[1]), before[2]) + frame[states]
            values.append(-combine.reduce(alpha[-2:]))
        out.raw_tensor = numpy.array(values, out.dtype).reshape(_sizes(out.dims))
        return out

    @staticmethod
    def ctc_best_path(*, label_loop: bool = True, **inputs: Any) -> Tensor:
        """:return: labels"""
        out = TemplateBackend.ctc_best_path(label_loop=label_loop, **inputs)
        *batch, time = out.dims
        paths = numpy.zeros([int(numpy.prod(_sizes(batch))), *_sizes([time])], out.dtype)
        for path, (scores, labels) in zip(paths, _sequences(batch, **inputs), strict=True):
            states = _states(labels, inputs["blank_index"])
            alpha = numpy.full(len(states), -numpy.inf)
            alpha[0] = 0
            steps = []
            for frame in scores:
                before = numpy.array([_before(alpha, states, label_loop, step) for step in range(3)])
                steps.append(before.argmax(axis=0))
                alpha = before.max(axis=0) + frame[states]
            state = len(states) - 1 - int(alpha[:-3:-1].argmax())
            for t in reversed(range(len(scores))):
                path[t] = states[state]
                state -= steps[t][state]
        out.raw_tensor = paths.reshape(_sizes(out.dims))
        return out

    @staticmethod
    def have_edit_distance() -> bool:
        """:return: True"""
        return True

    @staticmethod
    def edit_distance(a: Tensor, a_spatial_dim: Dim, b: Tensor, b_spatial_dim: Dim) -> Tensor:
        """:return: distance"""
        out = TemplateBackend.edit_distance(a, a_spatial_dim, b, b_spatial_dim)
        pairs = zip(_rows(a, a_spatial_dim, out.dims), _rows(b, b_spatial_dim, out.dims), strict=True)
        out.raw_tensor = numpy.array([_edit_distance(*pair) for pair in pairs], out.dtype).reshape(_sizes(out.dims))
        return out


def _sequences(
    batch: Sequence[Dim],
    *,
    logits: Tensor,
    targets: Tensor,
    input_spatial_dim: Dim,
    targets_spatial_dim: Dim,
    blank_index: int,
    logits_normalized: bool = False,
) -> Iterator[tuple[ndarray, ndarray]]:
    """:return: for each sequence: (T, classes), log probabilities; (S,), labels"""
    classes = logits.feature_dim
    assert classes is not None
    if not logits_normalized:
        logits = SoftmaxReferenceOps.log_softmax(logits, axis=classes)
    yield from zip(
        _rows(logits, input_spatial_dim, batch, classes),
        _rows(targets, targets_spatial_dim, batch),
        strict=True,
    )


def _rows(x: Tensor, spatial_dim: Dim, batch: Sequence[Dim], *rest: Dim) -> Iterator[ndarray]:
    """:return: for each sequence, its frames"""
    lengths = broadcast(spatial_dim.get_size_tensor(), batch).reshape(-1)
    array = broadcast(x, [*batch, spatial_dim, *rest])
    array = array.reshape(len(lengths), *array.shape[len(batch) :])
    for row, length in zip(array, lengths, strict=True):
        yield row[:length]


def _states(labels: ndarray, blank: int) -> ndarray:
    """:return: blank, label, blank, ..., label, blank"""
    states = numpy.full(2 * len(labels) + 1, blank)
    states[1::2] = labels
    return states


def _before(alpha: ndarray, states: ndarray, label_loop: bool, step: int) -> ndarray:
    """:return: for each state, the score of the state from which it is reached in this step"""
    index = numpy.arange(len(states))
    is_label = index % 2 == 1
    if step == 0:
        return numpy.where(is_label & (not label_loop), -numpy.inf, alpha)
    if step == 2:
        differs = states != numpy.roll(states, 2)
        is_possible = is_label & (differs if label_loop else True)
    else:
        is_possible = numpy.ones(len(states), bool)
    return numpy.where(is_possible & (index >= step), numpy.roll(alpha, step), -numpy.inf)


def _edit_distance(a: ndarray, b: ndarray) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + int(x != y))
    return row[-1]


def _sizes(dims: Sequence[Dim]) -> list[int]:
    return [int(dim.get_dim_value()) for dim in dims]
