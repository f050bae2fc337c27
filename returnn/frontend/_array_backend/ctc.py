"""
CTC (Graves et al. 2006), in log space, for all sequences and states at once, frame by frame.

The states of a sequence are blank, label, blank, label, ..., blank. In each frame, a path stays in its state, goes to
the next one, or from label to label over the blank in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from returnn.frontend._array_backend.select import SelectArrayOps
from returnn.frontend._array_backend.shape import ShapeArrayOps
from returnn.frontend._ops.layout import with_at_least
from returnn.frontend._template_backend import TemplateBackend
from returnn.frontend._template_backend.ctc import ctc_batch_dims
from returnn.tensor import Dim, Tensor

Scan = Callable[[Any, Sequence[Any]], Any]


class CtcArrayOps(ShapeArrayOps, SelectArrayOps):
    """CTC and edit distance, on the raw operations below, which TensorFlow and PyTorch define."""

    @staticmethod
    def scan_raw(step: Scan, initial: Any, frames: Sequence[Any], *, reverse: bool = False) -> Any:
        """
        :param step: (state, (frame of each of `frames`)) -> state
        :param initial: state
        :param frames: (T, ...) each
        :param reverse: begin with the last frame
        :return: (T, ...): the state after each frame
        """
        raise NotImplementedError

    @staticmethod
    def with_gradient_raw(
        x: Any, compute: Callable[[Any], tuple[Any, Any]], gradient: Callable[[Any, Any], Any]
    ) -> Any:
        """
        :param x: raw tensor
        :param compute: x -> value, what the gradient needs
        :param gradient: gradient with respect to the value, what it needs -> gradient with respect to x
        :return: value
        """
        raise NotImplementedError

    @staticmethod
    def ctc_loss_raw(logits: Any, targets: Any, num_frames: Any, num_labels: Any, *, blank_index: int) -> Any:
        """
        :param logits: (B, T, C), not normalized
        :param targets: (B, S)
        :param num_frames: (B,)
        :param num_labels: (B,)
        :param blank_index: the class
        :return: (B,), if the library has an own operation for it; or else None
        """
        return None

    @staticmethod
    def edit_distance_raw(a: Any, b: Any, a_lengths: Any, b_lengths: Any) -> Any:
        """:return: (B,), int32, from (B, S), (B, S2), (B,), (B,)"""
        raise NotImplementedError

    @classmethod
    def ctc_loss(
        cls,
        *,
        logits: Tensor,
        logits_normalized: bool = False,
        targets: Tensor,
        input_spatial_dim: Dim,
        targets_spatial_dim: Dim,
        blank_index: int,
        max_approx: bool = False,
        use_native_op: bool | None = None,
        label_loop: bool = True,
    ) -> Tensor:
        """:return: negative log probability"""
        inputs: dict[str, Any] = {
            "logits": logits, "targets": cls.as_tensor(targets), "input_spatial_dim": input_spatial_dim,
            "targets_spatial_dim": targets_spatial_dim, "blank_index": blank_index,
        }  # fmt: skip
        out = TemplateBackend.ctc_loss(**inputs, use_native_op=use_native_op)
        raw = None
        if not max_approx and label_loop and not logits_normalized:
            rows = cls._rows_of_ctc(logits, inputs["targets"], input_spatial_dim, targets_spatial_dim)
            raw = cls.ctc_loss_raw(*rows, blank_index=blank_index)
        if raw is None:
            lattice, scores = cls._ctc_lattice(**inputs, logits_normalized=logits_normalized, label_loop=label_loop)
            raw = lattice.loss(scores, max_approx=max_approx)
        out._raw_tensor = cls._from_rows(raw, out.dims, [])
        return out

    @classmethod
    def ctc_best_path(cls, *, targets: Tensor, **inputs: Any) -> Tensor:
        """:return: labels"""
        targets = cls.as_tensor(targets)
        out = TemplateBackend.ctc_best_path(targets=targets, **inputs)
        lattice, scores = cls._ctc_lattice(targets=targets, **inputs)
        state = lattice.best_path(scores, lattice.forward(scores, "max"))
        path = cls.gather_raw(lattice.labels, cls.transpose_raw(state, [1, 0]), 1, 1)
        path = path[:, : inputs["input_spatial_dim"].get_dim_value()]  # there was at least one frame
        out._raw_tensor = cls._from_rows(cls.cast_raw(path, out.dtype), out.dims[:-1], out.dims[-1:])
        return out

    @classmethod
    def have_edit_distance(cls) -> bool:
        """:return: True"""
        return True

    @classmethod
    def edit_distance(cls, a: Tensor, a_spatial_dim: Dim, b: Tensor, b_spatial_dim: Dim) -> Tensor:
        """:return: distance"""
        a, b = cls.as_tensor(a), cls.as_tensor(b)
        out = TemplateBackend.edit_distance(a, a_spatial_dim, b, b_spatial_dim)
        rows = [cls._rows(x, out.dims, [dim]) for x, dim in ((a, a_spatial_dim), (b, b_spatial_dim))]
        lengths = [cls._lengths(dim, out.dims, a) for dim in (a_spatial_dim, b_spatial_dim)]
        out._raw_tensor = cls._from_rows(cls.edit_distance_raw(*rows, *lengths), out.dims, [])
        return out

    @classmethod
    def _ctc_lattice(
        cls,
        *,
        logits: Tensor,
        logits_normalized: bool = False,
        targets: Tensor,
        input_spatial_dim: Dim,
        targets_spatial_dim: Dim,
        blank_index: int,
        label_loop: bool = True,
    ) -> tuple[_Lattice, Any]:
        """:return: lattice; (T, B, states), log probability of each state in each frame"""
        assert logits.feature_dim is not None
        if not logits_normalized:
            logits = cls.log_softmax(logits.copy_masked(0, dims=[input_spatial_dim]), axis=logits.feature_dim)
        log_probs, labels, num_frames, num_labels = cls._rows_of_ctc(
            logits, targets, input_spatial_dim, targets_spatial_dim
        )
        num_states = cls.get_shape_tuple_raw(labels)[1] * 2 + 1
        state = cls.range_raw(num_states, "int32", logits.device)
        is_label = cls.compare_raw(state % 2, "equal", 1)
        padded = cls.pad_raw(labels, [(0, 0), (0, 1)], blank_index)
        labels = cls.where_raw(is_label, cls.gather_raw(padded, state // 2, 1, 0), cls._like(labels, blank_index))
        before = cls.pad_raw(labels, [(0, 0), (2, 0)], blank_index)[:, :-2]
        can_skip = cls.combine_raw(is_label, "logical_and", cls.compare_raw(state, "greater", 1))
        if label_loop:
            can_skip = cls.combine_raw(can_skip, "logical_and", cls.compare_raw(labels, "not_equal", before))
        last = (num_labels * 2)[:, None]
        is_end = cls.combine_raw(
            cls.compare_raw(state, "equal", last), "logical_or", cls.compare_raw(state, "equal", last - 1)
        )
        frame = cls.range_raw(cls.get_shape_tuple_raw(log_probs)[1], "int32", logits.device)
        is_valid = cls.compare_raw(frame[:, None], "less", num_frames)[:, :, None]
        can_stay = None if label_loop else cls.compare_raw(state % 2, "equal", 0)
        scores = cls.transpose_raw(cls.gather_raw(log_probs, labels, 2, 1), [1, 0, 2])
        start = cls.where_raw(
            cls.compare_raw(state, "equal", 0), cls._like(log_probs, 0.0), cls._like(log_probs, -numpy.inf)
        )
        start = cls.where_raw(is_end, start, start)  # the same for all sequences
        return _Lattice(cls, labels, start, is_end, is_valid, can_stay, can_skip), scores

    @classmethod
    def _rows_of_ctc(
        cls, logits: Tensor, targets: Tensor, input_spatial_dim: Dim, targets_spatial_dim: Dim
    ) -> tuple[Any, Any, Any, Any]:
        """:return: (B, T, classes), T at least 1; (B, S); (B,), number of frames; (B,), number of labels"""
        batch = ctc_batch_dims(logits, targets, input_spatial_dim, targets_spatial_dim)
        assert logits.feature_dim is not None
        masked = logits.copy_masked(0, dims=[input_spatial_dim])
        frames = cls._rows(masked, batch, [input_spatial_dim, logits.feature_dim])
        return (
            with_at_least(logits, frames, 1, 1, 0.0, size=input_spatial_dim.get_dim_value()),
            cls._rows(
                cls.cast(targets.copy_masked(0, dims=[targets_spatial_dim]), "int32"), batch, [targets_spatial_dim]
            ),
            cls._lengths(input_spatial_dim, batch, logits),
            cls._lengths(targets_spatial_dim, batch, logits),
        )

    @classmethod
    def _rows(cls, x: Tensor, batch: Sequence[Dim], rest: Sequence[Dim]) -> Any:
        """:return: raw tensor with one axis for all batch dims, and those of `rest`"""
        raw = x.copy_compatible_to_dims_raw([*batch, *rest], unbroadcast=True)
        if len(batch) == 1:
            return raw
        return cls.reshape_raw(raw, [_product(batch), *(dim.get_dim_value() for dim in rest)])

    @classmethod
    def _lengths(cls, dim: Dim, batch: Sequence[Dim], like: Tensor) -> Any:
        """:return: (B,), int32"""
        lengths = cls.as_tensor(cls.copy_to_device(cls.as_tensor(dim.get_size_tensor()), cls.get_device(like)))
        return cls._rows(cls.cast(lengths, "int32"), batch, [])

    @classmethod
    def _from_rows(cls, raw: Any, batch: Sequence[Dim], rest: Sequence[Dim]) -> Any:
        if len(batch) == 1:
            return raw
        return cls.reshape_raw(raw, [dim.get_dim_value() for dim in (*batch, *rest)])

    @classmethod
    def _like(cls, raw: Any, value: float) -> Any:
        """:return: scalar of the same dtype"""
        return cls.cast_raw(cls.constant_raw(value, cls.get_dtype_name_raw(raw), None), cls.get_dtype_name_raw(raw))


@dataclass(frozen=True)
class _Lattice:
    """The states of all sequences."""

    backend: type[CtcArrayOps]
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
            return self.backend.where_raw(counts, share * -of_value[:, None], self.backend._like(scores, 0.0))

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
        steps = backend.where_raw(self.is_valid, steps, backend._like(steps, 0))
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
        end = backend.where_raw(self.is_end, backend._like(scores, 0.0), self._impossible())

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
        return self.backend._like(self.start, -numpy.inf)


def _product(dims: Sequence[Dim]) -> Any:
    size: Any = 1
    for dim in dims:
        size = size * dim.get_dim_value()
    return size
