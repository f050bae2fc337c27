"""
From tensors with named dims to the matrices that units work on, and back.

A unit sees frames (T, N, F): all dims beside time and feature are one axis. For the backward direction, the frames of
each sequence are put into reverse order, within its own length; frames behind its end stay where they are. A kernel
knows lengths and directions itself: for it, frames stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from returnn.tensor import Dim, Tensor


def as_matrix(x: Tensor, dims: Sequence[Dim], feature: Dim) -> tf.Tensor:
    """
    :param x: {dims..., feature}, or some of them; it is repeated along the others
    :param dims: in this order
    :param feature: last axis of the result
    :return: (product of dims, feature)
    """
    raw = x.copy_compatible_to_dims_raw([*dims, feature], unbroadcast=True)
    return raw if len(dims) == 1 else tf.reshape(raw, [-1, feature.dimension])


def from_matrix(raw: tf.Tensor, dims: Sequence[Dim], feature: Dim) -> Tensor:
    """
    :param raw: (product of dims, feature)
    :param dims: in this order
    :param feature: last axis
    :return: [dims..., feature]
    """
    if len(dims) != 1:
        raw = tf.reshape(raw, [*(dim.get_dim_value() for dim in dims), feature.dimension])
    return Tensor("frame", dims=[*dims, feature], dtype=raw.dtype.name, feature_dim=feature, raw_tensor=raw)


class SequenceFrames:
    """How the frames of sequences lie: time, what else there is, and lengths."""

    def __init__(self, time_dim: Dim, others: Sequence[Dim], *, backward: bool, by_kernel: bool = False) -> None:
        """
        :param time_dim: to go over
        :param others: all dims beside time and feature, in the order in which they make up N
        :param backward: from the last frame of each sequence to the first
        :param by_kernel: a kernel goes over them
        """
        self.time_dim = time_dim
        self.others = list(others)
        self.by_kernel = by_kernel
        self.is_reversed = backward and not by_kernel

    def lengths(self) -> tf.Tensor | None:
        """:return: (N,), int32; None if all sequences are equally long"""
        if not self.time_dim.is_dynamic_seq_length():
            return None
        lengths = self.time_dim.get_size_tensor()
        raw = tf.cast(lengths.copy_compatible_to_dims_raw(self.others, unbroadcast=True), tf.int32)
        return raw if len(self.others) == 1 else tf.reshape(raw, [-1])

    def in_order(self, x: Tensor) -> Tensor:
        """
        :param x: {time, others..., ...}
        :return: [time, others..., ...], the frames in the order of the computation; padded ones are 0, so that no NaN
            gets from there into gradients
        """
        rest = [dim for dim in x.dims if dim != self.time_dim and dim not in self.others]
        if self.time_dim.need_masking():
            x = x.copy_masked(0, dims=[self.time_dim])
        x = x.copy_compatible_to_dims([self.time_dim, *self.others, *rest], unbroadcast=True)
        if self.is_reversed:
            x.raw_tensor = self._reversed(x.raw_tensor)
        return x

    def flat(self, x: Tensor) -> tf.Tensor:
        """:return: (T, N, F)"""
        if len(self.others) == 1:
            return x.raw_tensor
        num_frames = self.time_dim.get_dim_value()
        return tf.reshape(x.raw_tensor, [num_frames, -1, x.dims[-1].dimension])

    def unflat(self, raw: tf.Tensor, feature: Dim) -> Tensor:
        """
        :param raw: (T, N, feature), in the order of the computation
        :param feature: dim of its last axis
        :return: [time, others..., feature]; padded frames are 0: convolution and pooling without a mask see them
        """
        dims = [self.time_dim, *self.others, feature]
        if len(self.others) != 1:
            raw = tf.reshape(raw, [dim.get_dim_value() for dim in dims])
        if self.is_reversed:
            raw = self._reversed(raw)
        out = Tensor("frames", dims=dims, dtype=raw.dtype.name, feature_dim=feature, raw_tensor=raw)
        out = out.copy_with_roles(time_dim=self.time_dim)
        is_masked = self.by_kernel or not self.time_dim.need_masking()
        return out if is_masked else out.copy_masked(0, dims=[self.time_dim])

    def last(self, frames: tf.Tensor, initial: tf.Tensor) -> tf.Tensor:
        """
        :param frames: (T, N, F), in the order of the computation
        :param initial: (N, F), for sequences without frames
        :return: (N, F): the last frame of each sequence
        """
        lengths = self.lengths()
        if lengths is None:
            return frames[-1]
        entries = tf.range(tf.shape(lengths)[0])
        frames = tf.concat([initial[None], frames], axis=0)
        return tf.gather_nd(frames, tf.stack([lengths, entries], axis=-1))

    def _reversed(self, raw: tf.Tensor) -> tf.Tensor:
        lengths = self.lengths()
        if lengths is None:
            return tf.reverse(raw, axis=[0])
        shape = tf.shape(raw)
        num_frames, num_entries = shape[0], tf.shape(lengths)[0]
        t = tf.range(num_frames)[:, None]
        source = tf.where(t < lengths[None], lengths[None] - 1 - t, t)
        rows = tf.reshape(source * num_entries + tf.range(num_entries)[None], [-1])
        num_inner = 1 + len(self.others)
        flat = tf.reshape(raw, tf.concat([[num_frames * num_entries], shape[num_inner:]], axis=0))
        flat.set_shape([None, *raw.shape[num_inner:]])
        result = tf.reshape(permuted_rows(flat, rows), shape)
        result.set_shape(raw.shape)
        return result


def permuted_rows(x: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """
    :param x: (N, ...)
    :param rows: (N,), a permutation which is its own inverse. So it is its own gradient, too
    :return: (N, ...)
    """

    @tf.custom_gradient
    def permuted(x: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
        return tf.gather(x, rows), lambda grad: permuted_rows(grad, rows)

    return permuted(x) if x.dtype.is_floating else tf.gather(x, rows)  # type: ignore[no-any-return]


def common_dims(tensors: Sequence[Tensor], without: Sequence[Dim]) -> list[Dim]:
    """:return: dims of all tensors, but for those in `without`, in the order of the first one which has them"""
    dims: list[Dim] = []
    for x in tensors:
        dims += [dim for dim in x.dims if dim not in dims and dim not in without]
    return dims
