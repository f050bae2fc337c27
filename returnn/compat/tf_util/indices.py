"""Indices into raw tensors, and parts of these at each index."""

from __future__ import annotations

import tensorflow as tf

from returnn.tf.util.shapes import Size, pad_zeros_in_axis


def nd_indices(indices: tf.Tensor, batch_axis: int = 0, indices_batch_major: bool | None = None) -> tf.Tensor:
    """
    :param indices: (B, ...), or (T, B) if not `indices_batch_major`
    :param batch_axis: of what `tf.gather_nd` is applied to: 0 or 1
    :param indices_batch_major: whether the batch is the first axis of the indices, otherwise the second. Default: it is
    :return: (..., 2), for `tf.gather_nd`: index in the batch (at position `batch_axis`), and the given index
    """
    assert batch_axis in (0, 1), batch_axis
    indices = tf.convert_to_tensor(indices)
    axis = 0 if indices_batch_major in (None, True) else 1
    shape = [1] * indices.shape.ndims
    shape[axis] = -1
    batch = tf.reshape(tf.range(tf.shape(indices)[axis], dtype=indices.dtype), shape)
    batch = tf.broadcast_to(batch, tf.shape(indices))
    return tf.stack([batch, indices] if batch_axis == 0 else [indices, batch], axis=-1)


def batch_gather(x: tf.Tensor, indices: tf.Tensor, keepdims: bool = False) -> tf.Tensor:
    """
    :param x: (B, T, ...)
    :param indices: (B,) -> T
    :param keepdims: (B, 1, ...) instead of (B, ...)
    :return: x[b, indices[b]]
    """
    result = tf.gather(x, indices, batch_dims=1)
    return result[:, None] if keepdims else result


def slice_nd(x: tf.Tensor, start: tf.Tensor, size: Size) -> tf.Tensor:
    """
    :param x: (B, T, ...)
    :param start: (B,)
    :param size: number of frames
    :return: (B, size, ...): x[b, start[b] : start[b] + size], zeros where that is behind the end
    """
    padded = pad_zeros_in_axis(x, after=size, axis=1)
    position = tf.minimum(start[:, None] + tf.range(size)[None], tf.shape(padded)[1] - 1)
    return tf.gather(padded, position, batch_dims=1)


def select_src_beams(x: tf.Tensor, src_beams: tf.Tensor, name: str = "select_src_beams") -> tf.Tensor:
    """
    :param x: (B * beam before, ...)
    :param src_beams: (B, beam) -> beam before
    :param name: of the operation
    :return: (B * beam, ...)
    """
    with tf.name_scope(name):
        shape = tf.shape(x)
        batch = tf.shape(src_beams)[0]
        split = tf.reshape(x, tf.concat([[batch, shape[0] // tf.maximum(batch, 1)], shape[1:]], axis=0))
        chosen = tf.gather(split, src_beams, batch_dims=1)
        return tf.reshape(chosen, tf.concat([[tf.size(src_beams)], shape[1:]], axis=0))


def unflatten_nd(x: tf.Tensor, nd_sizes: tf.Tensor, num_axes: int | None = None) -> tf.Tensor:
    """
    :param x: (B, T, ...), where the frames of each sequence are a flattened array, row by row
    :param nd_sizes: (B, N), shape of each array
    :param num_axes: N, if it is not known
    :return: (B, size 1, ..., size N, ...), zeros outside of the arrays
    """
    num_axes = nd_sizes.shape[-1] if num_axes is None else num_axes
    largest = [tf.reduce_max(nd_sizes[:, i]) for i in range(num_axes)]
    grid = tf.meshgrid(*[tf.range(size) for size in largest], indexing="ij")
    position, inside = tf.zeros((), nd_sizes.dtype), tf.constant(True)
    for i in range(num_axes):
        size = tf.reshape(nd_sizes[:, i], [-1, *[1] * num_axes])
        position = position * size + grid[i][None]
        inside = inside & (grid[i][None] < size)
    position = tf.where(inside, position, tf.shape(x)[1])  # one frame of zeros stands there
    flat = tf.reshape(position, [tf.shape(x)[0], -1])
    taken = tf.gather(pad_zeros_in_axis(x, after=1, axis=1), flat, batch_dims=1)
    return tf.reshape(taken, tf.concat([tf.shape(position), tf.shape(x)[2:]], axis=0))


def windowed_nd(
    source: tf.Tensor,
    window_size: int,
    window_left: int | None = None,
    window_right: int | None = None,
    padding: str = "same",
    time_axis: int = 1,
    new_window_axis: int = 2,
    stride: int = 1,
) -> tf.Tensor:
    """
    :param source: (..., T, ...)
    :param window_size: number of frames in a window
    :param window_left: frames before the current one; default: as many as behind it, or one less
    :param window_right: frames behind the current one
    :param padding: "same": zeros before and behind; "valid": only whole windows
    :param time_axis: of the source
    :param new_window_axis: of the result
    :param stride: distance of the windows
    :return: (..., T', ..., window size, ...)
    """
    source = tf.convert_to_tensor(source)
    if window_left is None:
        window_left = (window_size - 1) // 2 if window_right is None else window_size - 1 - window_right
    if padding == "same":
        source = pad_zeros_in_axis(source, window_left, window_size - 1 - window_left, axis=time_axis)
    num_windows = tf.maximum((tf.shape(source)[time_axis] - window_size) // stride + 1, 0)
    frames = tf.range(num_windows)[:, None] * stride + tf.range(window_size)[None]
    windows = tf.gather(source, frames, axis=time_axis)  # the window axis is right behind the time axis
    order = [axis for axis in range(windows.shape.ndims) if axis != time_axis + 1]
    order.insert(new_window_axis, time_axis + 1)
    return tf.transpose(windows, order)
