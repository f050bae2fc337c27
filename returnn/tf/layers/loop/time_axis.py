"""From all frames to single frames of a loop, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor


def unstacked(x: Tensor, time_dim: Dim) -> Callable[[Any], Tensor]:
    """
    :param x: [..., time_dim]; without this dim, each frame is all of it
    :return: function from number of the frame to the frame: [...]
    """
    if any(_has_lengths_by_frame(dim, time_dim) for dim in x.dims):
        return _unstacked_by_lengths(x, time_dim)
    if time_dim not in x.dims:
        return lambda i: x
    axis = x.get_axis_from_description(time_dim)
    template = x.copy_template_excluding_axis(axis)
    raw = x.copy_move_axis(axis, 0).raw_tensor
    array = tf.TensorArray(x.dtype, size=tf.shape(raw)[0], element_shape=raw.shape[1:]).unstack(raw)
    if hasattr(array, "mark_used"):
        array.mark_used()  # or else TensorFlow complains, if there is an error before the loop

    def read(i: Any) -> Tensor:
        frame = template.copy_template()
        frame.raw_tensor = array.read(i)
        return frame

    return read


def _has_lengths_by_frame(dim: Dim, time_dim: Dim) -> bool:
    return dim.dyn_size_ext is not None and time_dim in dim.dyn_size_ext.dims


def _unstacked_by_lengths(x: Tensor, time_dim: Dim) -> Callable[[Any], Tensor]:
    """
    :param x: [..., D], or [..., time_dim, D], where D has other lengths in each frame, such as all frames so far
    :return: like `unstacked`. The frame [..., D] is as long as D is there
    """
    growing = [dim for dim in x.dims if _has_lengths_by_frame(dim, time_dim)]
    read_lengths = [unstacked(dim.dyn_size_ext, time_dim) for dim in growing]
    template = x.copy_template()
    if time_dim in x.dims:
        template = x.copy_template_excluding_axis(x.get_axis_from_description(time_dim))

    def read(i: Any) -> Tensor:
        raw = x.raw_tensor
        if time_dim in x.dims:
            raw = tf.gather(raw, i, axis=x.get_axis_from_description(time_dim))
        sizes: list[Any] = [slice(None)] * len(template.dims)
        for dim, lengths in zip(growing, read_lengths, strict=True):
            dim.dyn_size_ext = lengths(i)  # valid in this step alone
            sizes[template.get_axis_from_description(dim)] = slice(0, dim.get_dim_value())
        frame = template.copy_template()
        frame.raw_tensor = raw[tuple(sizes)]
        return frame

    return read


def new_array(template: Tensor, length: Any) -> tf.TensorArray:
    """
    :param template: of a frame
    :param length: number of frames, as number or raw scalar; None if it is not known
    """
    return tf.TensorArray(
        template.dtype,
        size=0 if length is None else length,
        dynamic_size=length is None,
        element_shape=template.batch_shape,
    )


def stacked(array: tf.TensorArray, template: Tensor, time_dim: Dim, *, length: Any = None) -> Tensor:
    """
    :param array: of frames
    :param template: of a frame
    :param time_dim: the dim that the frames become
    :param length: only so many frames
    :return: [time_dim, ...]
    """
    raw = stacked_raw(array, template)
    if length is not None:
        raw = raw[:length]
    out = template._insert_dim(time_dim, 0)
    raw.set_shape(out.batch_shape)
    out.raw_tensor = raw
    return out


def stacked_raw(array: tf.TensorArray, template: Tensor) -> tf.Tensor:
    """
    :param array: of frames
    :param template: of a frame
    :return: raw, (number of frames, ...). If there are none, the shape of a frame is that which its dims have outside
    """
    if array.flow.dtype != tf.variant or not all(dim.size is not None or dim.is_batch_dim() for dim in template.dims):
        return array.stack()
    if any(dim.size is None and dim.dyn_size is None for dim in template.dims):
        return array.stack()
    return _stack_list(array, tf.convert_to_tensor([dim.get_dim_value() for dim in template.dims], tf.int32))


def _stack_list(array: tf.TensorArray, shape: tf.Tensor) -> tf.Tensor:
    """:return: raw, (number of frames, ...), where a frame has this shape, also if there are none"""
    return tf.raw_ops.TensorListStack(input_handle=array.flow, element_shape=shape, element_dtype=array.dtype)


def shifted(x: Tensor, time_dim: Dim, initial: Tensor) -> Tensor:
    """
    :param x: [..., time_dim]
    :param time_dim: a dim
    :param initial: [...]
    :return: the same dims: the frame before, which is `initial` for the first frame
    """
    x = rf.expand_to(x, [time_dim])
    axis = x.get_axis_from_description(time_dim)
    template = x.copy_template_excluding_axis(axis)
    first = rf.expand_to(initial, template.dims)
    time_major = x.copy_move_axis(axis, 0)
    out = time_major.copy_template()
    raw_first = first.copy_compatible_to_dims_raw(template.dims)[None]
    raw = tf.concat([raw_first, time_major.raw_tensor], axis=0)[:-1]  # there may be no frame at all
    raw.set_shape(out.batch_shape)
    out.raw_tensor = raw
    return out


def traced_back(src_beams: Any) -> Any:
    """
    :param src_beams: raw (T, B, K): for each hypothesis after a step, which one of the step before it continues
    :return: raw (T, B, K): for each hypothesis at the end, which one it was after each step
    """
    steps, batch, beam = (tf.shape(src_beams)[i] for i in range(3))
    last = tf.tile(tf.range(beam)[None], [batch, 1])
    array = tf.TensorArray(tf.int32, size=steps, element_shape=src_beams.shape[1:])

    def body(t: Any, index: Any, result: Any) -> Any:
        result = result.write(t, index)
        return t - 1, tf.gather(src_beams[t], index, axis=1, batch_dims=1), result

    last.set_shape(src_beams.shape[1:])
    shapes = [tf.TensorShape([]), src_beams.shape[1:], tf.TensorShape([])]
    _, _, result = tf.compat.v1.while_loop(
        lambda t, *_: t >= 0, body, [steps - 1, last, array], shape_invariants=shapes, back_prop=False
    )
    return result.stack() if array.flow.dtype != tf.variant else _stack_list(result, tf.shape(src_beams)[1:])
