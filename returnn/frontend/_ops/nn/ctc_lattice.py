"""
CTC (Graves et al. 2006), in log space, for all sequences and states at once, frame by frame.

The states of a sequence are blank, label, blank, label, ..., blank. In each frame, a path stays in its state, goes to
the next one, or from label to label over the blank in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy


@dataclass(frozen=True)
class Lattice:
    """The states of all sequences."""

    backend: Any
    labels: Any  # (B, states)
    start: Any  # (B, states), log probability before the first frame
    is_end: Any  # (B, states)
    is_valid: Any  # (T, B, 1), whether the frame is part of the sequence
    can_stay: Any  # (states,); None: all can
    can_skip: Any  # (states,) or (B, states): whether it can be reached over the one before it

    def loss(self, scores: Any, *, max_approx: bool) -> Any:
        """
        :param scores: (T, B, states)
        :param max_approx: only the best path counts
        :return: (B,), negative log probability
        """

        def compute(scores: Any) -> tuple[Any, Any]:
            forward = self.forward(scores, "max" if max_approx else "logsumexp")
            total = self._total(forward, "max" if max_approx else "logsumexp")
            return -total, (scores, forward, total)

        def gradient(of_value: Any, saved: Any) -> Any:
            scores, forward, total = saved
            share = self._share_of_best_path(scores, forward) if max_approx else self._share(scores, forward, total)
            is_possible = self.backend.compare_raw(total, "greater", self._impossible())[:, None]
            counts = self.backend.combine_raw(self.is_valid, "logical_and", is_possible)
            return self.backend.where_raw(counts, share * -of_value[:, None], scalar_like(self.backend, scores, 0.0))

        return self.backend.with_gradient_raw(scores, compute, gradient)

    def forward(self, scores: Any, mode: str) -> Any:
        """:return: (T, B, states): log probability of all paths, or the best one, up to each state after each frame"""

        def step(before: Any, frame: Sequence[Any]) -> Any:
            score, is_valid = frame
            reached = self.backend.reduce_raw(self._arriving(before), mode, [0])
            return self.backend.where_raw(is_valid, reached + score, before)

        return self.backend.scan_raw(step, self.start, [scores, self.is_valid])

    def best_path(self, scores: Any, forward: Any) -> Any:
        """:return: (T, B): state in each frame, of the path with the highest probability"""
        backend = self.backend
        before = backend.concat_raw([self.start[None], forward[:-1]], 0)
        steps = backend.reduce_raw(self._arriving(before), "argmax", [0])
        steps = backend.where_raw(self.is_valid, steps, scalar_like(backend, steps, 0))
        at_end = backend.where_raw(self.is_end, forward[-1], self._impossible())
        last = backend.reduce_raw(at_end, "argmax", [1])

        def step_back(state: Any, frame: Sequence[Any]) -> Any:
            return state - backend.gather_raw(frame[0], state, 1, 1)

        states_before = backend.scan_raw(step_back, last, [steps], reverse=True)
        return backend.concat_raw([states_before[1:], last[None]], 0)

    def _share_of_best_path(self, scores: Any, forward: Any) -> Any:
        """:return: (T, B, states): 1 for the state on the best path"""
        state = self.backend.range_raw(self.backend.get_shape_tuple_raw(scores)[2], "int32", None)
        is_on_path = self.backend.compare_raw(self.best_path(scores, forward)[:, :, None], "equal", state)
        return self.backend.cast_raw(is_on_path, self.backend.get_dtype_name_raw(scores))

    def _share(self, scores: Any, forward: Any, total: Any) -> Any:
        """:return: (T, B, states): probability of the state in the frame, over all paths"""
        backend = self.backend
        end = backend.where_raw(self.is_end, scalar_like(backend, scores, 0.0), self._impossible())

        def step(behind: Any, frame: Sequence[Any]) -> Any:
            score, is_valid = frame
            leaving = backend.reduce_raw(self._leaving(score + behind), "logsumexp", [0])
            return backend.where_raw(is_valid, leaving, behind)

        before_frame = backend.scan_raw(step, end, [scores, self.is_valid], reverse=True)
        backward = backend.concat_raw([before_frame[1:], end[None]], 0)
        return backend.activation_raw(forward + backward - total[:, None], "exp")

    def _total(self, forward: Any, mode: str) -> Any:
        """:return: (B,)"""
        at_end = self.backend.where_raw(self.is_end, forward[-1], self._impossible())
        return self.backend.reduce_raw(at_end, mode, [1])

    def _arriving(self, before: Any) -> Any:
        """:return: (3, ..., states): scores of the state itself, the one before it, and the one before that"""
        shifted = [self._shifted(before, step) for step in (1, 2)]
        stay = before if self.can_stay is None else self._where(self.can_stay, before)
        return self.backend.stack_raw([stay, shifted[0], self._where(self.can_skip, shifted[1])])

    def _leaving(self, behind: Any) -> Any:
        """:return: (3, ..., states): scores of the state itself, the one behind it, and the one behind that"""
        stay = behind if self.can_stay is None else self._where(self.can_stay, behind)
        shifted = [self._shifted(behind, -1), self._shifted(self._where(self.can_skip, behind), -2)]
        return self.backend.stack_raw([stay, *shifted])

    def _shifted(self, x: Any, step: int) -> Any:
        """:return: x moved to the right; negative: to the left"""
        padding = [(0, 0)] * (self.backend.get_ndim_raw(x) - 1)
        padded = self.backend.pad_raw(x, [*padding, (max(step, 0), max(-step, 0))], -numpy.inf)
        return padded[..., :-step] if step > 0 else padded[..., -step:]

    def _where(self, cond: Any, x: Any) -> Any:
        return self.backend.where_raw(cond, x, self._impossible())

    def _impossible(self) -> Any:
        return scalar_like(self.backend, self.start, -numpy.inf)


def scalar_like(backend: Any, raw: Any, value: float) -> Any:
    """:return: scalar of the same dtype as `raw`"""
    dtype = backend.get_dtype_name_raw(raw)
    return backend.cast_raw(backend.constant_raw(value, dtype, None), dtype)
