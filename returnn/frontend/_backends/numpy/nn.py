"""What libraries for neural networks have beside arrays: softmax, convolution, recurrence, scans, gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy
from numpy import ndarray

from returnn.frontend._backends.numpy.raw import ACTIVATION
from returnn.frontend._ops.nn.conv_windows import TransposedWindow, Window
from returnn.frontend._ops.operands import fail
from returnn.tensor import Tensor


class NeuralNumpyOps:
    """For the meaning of the operations see `returnn.frontend._backends.required`."""

    @classmethod
    def softmax_raw(cls, raw_tensor: ndarray, axis: int) -> ndarray:
        """:return: softmax"""
        return numpy.asarray(numpy.exp(cls.log_softmax_raw(raw_tensor, axis)))

    @staticmethod
    @numpy.errstate(all="ignore")
    def log_softmax_raw(raw_tensor: ndarray, axis: int) -> ndarray:
        """:return: logarithm of the softmax"""
        return numpy.asarray(raw_tensor - numpy.logaddexp.reduce(raw_tensor, axis=axis, keepdims=True))

    @classmethod
    def sparse_cross_entropy_raw(cls, logits: ndarray, targets: ndarray) -> ndarray:
        """:return: cross entropy"""
        log_prob = cls.log_softmax_raw(logits, -1)
        return -numpy.take_along_axis(log_prob, targets.astype("int64")[..., None], axis=-1)[..., 0]

    @classmethod
    def sdpa_varlen_raw(
        cls,
        *,
        query: ndarray,
        key: ndarray,
        value: ndarray,
        seq_starts_q: ndarray,
        seq_lens_q: ndarray,
        seq_starts_kv: ndarray,
        seq_lens_kv: ndarray,
        max_len_q: int,
        max_len_kv: int,
        is_causal: bool,
        dropout_p: float,
        scale: float | None,
    ) -> ndarray:
        """:return: attention, one sequence after the other"""
        if dropout_p:
            raise fail("attention: the backend 'numpy' does not train, so there is no dropout in packed attention.")
        out = numpy.zeros([*query.shape[:-1], value.shape[-1]], query.dtype)
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        for start, length, kv_start, kv_length in zip(
            seq_starts_q, seq_lens_q, seq_starts_kv, seq_lens_kv, strict=True
        ):
            q, k, v = (
                numpy.moveaxis(x[begin : begin + size], 0, -2)
                for x, begin, size in ((query, start, length), (key, kv_start, kv_length), (value, kv_start, kv_length))
            )
            if kv_length:
                energy = q @ numpy.swapaxes(k, -1, -2) * numpy.asarray(scale, query.dtype)
                if is_causal:
                    sees = numpy.arange(length)[:, None] >= numpy.arange(kv_length)
                    energy = numpy.where(sees, energy, numpy.asarray(-numpy.inf, query.dtype))
                out[start : start + length] = numpy.moveaxis(cls.softmax_raw(energy, -1) @ v, -2, 0)
        return out

    @staticmethod
    @numpy.errstate(all="ignore")
    def conv_raw(raw_tensor: ndarray, filter: ndarray, moved: Sequence[Window], groups: int) -> ndarray:
        """:return: convolution: one product for each position within the window"""
        total: Any = 0
        for offset, part in _positions(raw_tensor, moved, 0):
            part = part.reshape(*part.shape[:-1], groups, part.shape[-1] // groups)
            weights = filter[offset].reshape(filter.shape[-2], groups, -1)
            total = total + numpy.einsum("...gi,igo->...go", part, weights)
        return numpy.asarray(total.reshape(*total.shape[:-2], filter.shape[-1]))

    @staticmethod
    @numpy.errstate(all="ignore")
    def transposed_conv_raw(
        raw_tensor: ndarray, filter: ndarray, laid: Sequence[TransposedWindow], sizes: Sequence[Any]
    ) -> ndarray:
        """:return: transposed convolution"""
        in_sizes, out_sizes = raw_tensor.shape[1:-1], [int(size) for size in sizes]
        ends = [max(w.full_length(n), w.cut_left + size) for w, n, size in zip(laid, in_sizes, out_sizes, strict=True)]
        full = numpy.zeros([len(raw_tensor), *ends, filter.shape[-2]], raw_tensor.dtype)
        for offset in numpy.ndindex(*filter.shape[: len(laid)]):
            place = [slice(o, o + n * w.stride, w.stride) for o, n, w in zip(offset, in_sizes, laid, strict=True)]
            full[(slice(None), *place)] += raw_tensor @ filter[offset].T
        cut = [slice(w.cut_left, w.cut_left + size) for w, size in zip(laid, out_sizes, strict=True)]
        return full[(slice(None), *cut)]

    @staticmethod
    @numpy.errstate(all="ignore")
    def pool_raw(raw_tensor: ndarray, mode: str, moved: Sequence[Window]) -> ndarray:
        """:return: maximum or average"""
        if mode == "max":
            return numpy.max([part for _, part in _positions(raw_tensor, moved, -numpy.inf)], axis=0)  # type: ignore[no-any-return]
        total = sum(part for _, part in _positions(raw_tensor, moved, 0))
        inside = numpy.ones([1, *raw_tensor.shape[1:-1], 1], raw_tensor.dtype)
        count = sum(part for _, part in _positions(inside, moved, 0))
        return numpy.asarray(total / numpy.maximum(count, 1), raw_tensor.dtype)

    @staticmethod
    @numpy.errstate(all="ignore")
    def lstm_raw(
        raw_tensor: ndarray,
        h: ndarray,
        c: ndarray,
        ff_weight: ndarray,
        rec_weight: ndarray,
        bias: ndarray | None,
        lengths: ndarray | None,
    ) -> tuple[ndarray, ndarray, ndarray]:
        """:return: output, last state"""
        sigmoid = ACTIVATION["sigmoid"]
        projected = raw_tensor @ ff_weight.T + (0 if bias is None else bias)
        outputs = numpy.zeros((*raw_tensor.shape[:2], h.shape[-1]), raw_tensor.dtype)
        for t, frame in enumerate(projected):
            gate_in, forget, new, gate_out = numpy.split(frame + h @ rec_weight.T, 4, axis=-1)
            new_c = sigmoid(forget) * c + sigmoid(gate_in) * numpy.tanh(new)
            new_h = sigmoid(gate_out) * numpy.tanh(new_c)
            is_valid = True if lengths is None else (t < lengths)[:, None]
            h, c = numpy.where(is_valid, new_h, h), numpy.where(is_valid, new_c, c)
            outputs[t] = h
        return outputs, h, c

    @staticmethod
    def scan_raw(
        step: Callable[[Any, Sequence[Any]], Any], initial: Any, frames: Sequence[Any], *, reverse: bool = False
    ) -> ndarray:
        """:return: states"""
        state, states = initial, []
        order = range(len(frames[0]))
        for t in reversed(order) if reverse else order:
            state = step(state, [x[t] for x in frames])
            states.append(state)
        return numpy.stack(states[::-1] if reverse else states)

    @staticmethod
    def with_gradient_raw(
        x: ndarray, compute: Callable[[Any], tuple[Any, Any]], gradient: Callable[[Any, Any], Any]
    ) -> Any:
        """:return: value"""
        return compute(x)[0]

    @staticmethod
    def edit_distance_raw(a: ndarray, b: ndarray, a_lengths: ndarray, b_lengths: ndarray) -> ndarray:
        """:return: distances. A row of the table at once: insertions along it are a cumulative minimum."""
        position = numpy.arange(b.shape[1] + 1)
        row = numpy.broadcast_to(position, (len(b), b.shape[1] + 1))
        for i in range(a.shape[1]):
            best = numpy.minimum(row[:, 1:] + 1, row[:, :-1] + (a[:, i, None] != b))
            best = numpy.concatenate([row[:, :1] + 1, best], axis=1)
            new = numpy.minimum.accumulate(best - position, axis=1) + position
            row = numpy.where((i < a_lengths)[:, None], new, row)
        return numpy.take_along_axis(row, b_lengths.astype("int64")[:, None], axis=1)[:, 0].astype("int32")

    @staticmethod
    def set_requires_gradient(tensor: Tensor) -> None:
        """:raises DimError: always"""
        raise fail("set_requires_gradient: numpy has no gradients.", "Select the backend 'torch' or 'tf'.")

    @staticmethod
    def gradient_raw(y: ndarray, x: ndarray) -> ndarray:
        """:raises DimError: always"""
        raise fail("gradient: numpy has no gradients.", "Select the backend 'torch' or 'tf'.")

    @staticmethod
    def stop_gradient_raw(x: ndarray) -> ndarray:
        """:return: the same value"""
        return x

    @staticmethod
    def map_gradient_raw(x: ndarray, function: Callable[[Any], Any]) -> ndarray:
        """:return: the same value"""
        return x

    @staticmethod
    def stop_gradient_scope() -> Any:
        """:return: context without effect"""
        return contextlib.nullcontext()


def _positions(x: ndarray, moved: Sequence[Window], pad_value: float) -> Iterator[tuple[tuple[int, ...], ndarray]]:
    """
    :param x: (B, spatial..., F)
    :param moved: for each spatial axis
    :param pad_value: of the frames of padding
    :return: position in the window -> the frames that it goes over
    """
    out_sizes = []
    for axis, window in enumerate(moved, start=1):
        left, right = window.padding_for(x.shape[axis])
        padding = [(left, right) if i == axis else (0, 0) for i in range(x.ndim)]
        x = numpy.pad(x, padding, constant_values=pad_value)
        out_sizes.append(max((x.shape[axis] - window.extent - 1) // window.stride + 1, 0))
    for position in numpy.ndindex(*(window.size for window in moved)):
        slices = [
            slice(p * w.dilation, p * w.dilation + size * w.stride, w.stride)
            for p, w, size in zip(position, moved, out_sizes, strict=True)
        ]
        yield position, x[(slice(None), *slices)]
