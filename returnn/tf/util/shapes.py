"""Shapes and axes of raw tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from returnn.util.not_specified import NotSpecified

Size = Any  # int, or raw scalar


def get_shape(x: tf.Tensor) -> list[Size]:
    """:return: size of each axis: number where it is known, otherwise raw scalar"""
    static = x.shape.as_list()
    if None not in static:
        return static
    dynamic = tf.shape(x)
    return [dynamic[i] if size is None else size for i, size in enumerate(static)]


def get_shape_dim(x: tf.Tensor, axis: int, name: str = "shape_dim") -> Size:
    """:return: size of an axis: number if it is known, otherwise raw scalar"""
    size = x.shape[axis]
    return tf.shape(x, name=name)[axis] if size is None else size


def get_ndim(x: tf.Tensor) -> Size:
    """:return: number of axes"""
    return tf.rank(x) if x.shape.ndims is None else x.shape.ndims


def nested_get_shapes(x: Any) -> Any:
    """:return: static shape of each tensor in a nested structure"""
    return tf.nest.map_structure(lambda value: value.shape, x)


def get_range(start: Any, stop: Any = NotSpecified) -> Any:
    """:return: start, start + 1, ... below stop; or 0, 1, ... below start"""
    start, stop = (0, start) if stop is NotSpecified else (start, stop)
    return range(start, stop) if isinstance(start, int) and isinstance(stop, int) else tf.range(start, stop)


def dimshuffle(x: tf.Tensor, axes: Sequence[Any], name: str = "dimshuffle") -> tf.Tensor:
    """
    :param x: raw tensor
    :param axes: for each axis of the result the one of x; "x" for a new one of size 1
    :param name: of the operation
    """
    x = tf.convert_to_tensor(x)
    old = [axis for axis in axes if axis != "x"]
    missing = [axis for axis in range(x.shape.ndims) if axis not in old]  # have size 1
    x = tf.transpose(x, [*old, *missing], name=name)
    x = tf.squeeze(x, axis=list(range(len(old), x.shape.ndims))) if missing else x
    return expand_multiple_dims(x, [i for i, axis in enumerate(axes) if axis == "x"])


def expand_multiple_dims(x: tf.Tensor, axes: Sequence[int], name: str = "expand_multiple_dims") -> tf.Tensor:
    """:return: x with new axes of size 1, at these positions in the result"""
    with tf.name_scope(name):
        x = tf.convert_to_tensor(x)
        ndim = x.shape.ndims + len(axes)
        places: list[int] = []
        for place in sorted((axis % ndim for axis in axes), reverse=True):  # the same one twice: side by side
            places.append(min([place, *(other - 1 for other in places[-1:])]))
        for place in places[::-1]:
            x = tf.expand_dims(x, place)
        return x


def expand_dims_unbroadcast(x: tf.Tensor, axis: int, dim: Size, name: str = "expand_dims_unbroadcast") -> tf.Tensor:
    """:return: x with a new axis of size `dim`, along which it is repeated"""
    with tf.name_scope(name):
        x = tf.expand_dims(tf.convert_to_tensor(x), axis)
        multiples = [1] * x.shape.ndims
        multiples[axis] = dim
        return tf.tile(x, multiples)


def move_axis(x: tf.Tensor, old_axis: int, new_axis: int, name: str = "move_axis") -> tf.Tensor:
    """:return: x with one axis at another position"""
    x = tf.convert_to_tensor(x)
    ndim = x.shape.ndims
    axes = [axis for axis in range(ndim) if axis != old_axis % ndim]
    axes.insert(new_axis % ndim, old_axis % ndim)
    return x if axes == list(range(ndim)) else tf.transpose(x, axes, name=name)


def swapaxes(x: tf.Tensor, axis1: int, axis2: int) -> tf.Tensor:
    """:return: x with two axes exchanged"""
    x = tf.convert_to_tensor(x)
    axes = list(range(x.shape.ndims))
    axes[axis1], axes[axis2] = axes[axis2], axes[axis1]
    return tf.transpose(x, axes)


def tile_transposed(x: tf.Tensor, axis: int, multiples: Size) -> tf.Tensor:
    """:return: x with each entry of an axis repeated: a, b, c -> a, a, b, b, c, c"""
    return tf.repeat(x, multiples, axis=axis)


def get_common_shape(
    values: Sequence[tf.Tensor | float],
    ignore_axes: Sequence[int] = (),
    allow_broadcast_all_sources: Any = NotSpecified,
) -> list[Size]:
    """
    :param values: raw tensors with the same number of axes, and numbers
    :param ignore_axes: axes which get size 1
    :param allow_broadcast_all_sources: whether it is fine that none of them has this shape
    :return: size of each axis, after broadcasting
    """
    tensors = [x for x in map(tf.convert_to_tensor, values) if x.shape.ndims]
    shapes = [get_shape(x) for x in tensors]
    common: list[Size] = [_common_size(sizes) for sizes in zip(*shapes, strict=True)]
    if allow_broadcast_all_sources is False and tensors:
        static = [[s if isinstance(s, int) else -1 for s in shape] for shape in (*shapes, common)]
        assert static[-1] in static[:-1], f"no tensor has all axes: {static[:-1]}"
    return [1 if axis in ignore_axes else size for axis, size in enumerate(common)]


def _common_size(sizes: Sequence[Size]) -> Size:
    known = [size for size in sizes if isinstance(size, int) and size != 1]
    dynamic = [size for size in sizes if not isinstance(size, int)]
    if known or not dynamic:
        return known[0] if known else 1
    return dynamic[0] if len(dynamic) == 1 else tf.reduce_max(tf.stack(dynamic))


def unbroadcast_to_common_shape(
    value: tf.Tensor, common_shape: Sequence[Size], ignore_axes: Sequence[int] = (), allow_only_noop: bool = False
) -> tf.Tensor:
    """
    :param value: raw tensor
    :param common_shape: see `get_common_shape`
    :param ignore_axes: axes which stay as they are
    :param allow_only_noop: it is an error if anything has to be repeated
    :return: value, repeated along the axes where it has size 1
    """
    value = tf.convert_to_tensor(value)
    if not value.shape.ndims:
        value = tf.reshape(value, [1] * len(common_shape))
    own = get_shape(value)
    target = [own[i] if i in ignore_axes else size for i, size in enumerate(common_shape)]
    if all(isinstance(a, int) and isinstance(b, int) and a == b for a, b in zip(own, target, strict=True)):
        return value
    assert not allow_only_noop, f"{value} has to be repeated to {target}"
    return tf.broadcast_to(value, target)


def where_bc(
    condition: tf.Tensor,
    x: tf.Tensor | float,
    y: tf.Tensor | float,
    allow_broadcast_all_sources: Any = NotSpecified,
    name: str = "where_bc",
) -> tf.Tensor:
    """:return: x where the condition is true, y where it is not; all three are broadcast"""
    return tf.where(condition, x, y, name=name)


def constant_with_shape(x: Any, shape: Any, dtype: Any = None, name: str = "constant_with_shape") -> tf.Tensor:
    """:return: x everywhere"""
    return tf.fill(shape, tf.convert_to_tensor(x, dtype=dtype), name=name)


def zeros_dyn_shape(shape: Sequence[int | None], dtype: Any = tf.float32, name: str = "zeros_dyn_shape") -> tf.Tensor:
    """:return: zeros, with size 0 where the size is None, so that this is only known when it is computed"""
    return tf.compat.v1.placeholder_with_default(
        tf.zeros([0 if size is None else size for size in shape], dtype), shape=shape, name=name
    )


def matrix_triangular(
    shape: Sequence[Size], dtype: Any = tf.float32, lower: bool = False, upper: bool = False
) -> tf.Tensor:
    """:return: (..., n, m): 1 below and on the diagonal (`lower`), or above and on it (`upper`); 0 elsewhere"""
    assert lower != upper, "either lower or upper"
    return tf.linalg.band_part(tf.ones(shape, dtype=dtype), -1 if lower else 0, 0 if lower else -1)


def reversed(x: tf.Tensor) -> tf.Tensor:
    """:return: x, backwards in its first axis"""
    return tf.reverse(x, axis=[0])


def directed(x: tf.Tensor, direction: int) -> tf.Tensor:
    """:return: x; backwards in its first axis if the direction is -1"""
    assert direction in (1, -1), direction
    return x if direction == 1 else reversed(x)


def pad_zeros_in_axis(x: tf.Tensor, before: Size = 0, after: Size = 0, axis: int = 0) -> tf.Tensor:
    """:return: x with zeros in front of it and behind it, in an axis"""
    x = tf.convert_to_tensor(x)
    paddings: list[list[Size]] = [[0, 0] for _ in range(x.shape.ndims)]
    paddings[axis] = [before, after]
    return tf.pad(x, paddings)


def pad_replicate(x: tf.Tensor, axes: Sequence[int], padding: int) -> tf.Tensor:
    """:return: x with its first and last entry repeated `padding` times, in each of the axes"""
    for axis in axes:
        first = tf.gather(x, [0] * padding, axis=axis)
        last = tf.gather(x, tf.fill([padding], tf.shape(x)[axis] - 1), axis=axis)
        x = tf.concat([first, x, last], axis=axis)
    return x


def circular_pad(x: tf.Tensor, paddings: Any, axes: Sequence[int] | None = None) -> tf.Tensor:
    """
    :param x: raw tensor
    :param paddings: how many entries on each side; one number, or one per axis, or pairs
    :param axes: default: all
    :return: x, as if it went on from its beginning
    """
    x = tf.convert_to_tensor(x)
    axes = list(range(x.shape.ndims)) if axes is None else axes
    paddings = [paddings] * len(axes) if isinstance(paddings, int) else paddings
    for axis, padding in zip(axes, paddings, strict=True):
        before, after = (padding, padding) if isinstance(padding, int) else padding
        size = tf.shape(x)[axis]
        x = tf.gather(x, tf.range(-before, size + after) % size, axis=axis)
    return x


def slice_pad_zeros(x: tf.Tensor, begin: Size, end: Size, axis: int = 0) -> tf.Tensor:
    """:return: x[begin:end] in an axis; zeros where that is outside of x"""
    size = tf.shape(x)[axis]
    before, after = tf.maximum(0, -begin), tf.maximum(0, end - size)
    padded = pad_zeros_in_axis(x, before, after, axis=axis)
    return single_strided_slice(padded, axis, begin + before, end + before)


def single_strided_slice(
    x: tf.Tensor, axis: int | tf.Tensor, begin: Any = None, end: Any = None, step: Any = None
) -> tf.Tensor:
    """:return: x[begin:end:step] in an axis, which may be a scalar tensor"""
    if isinstance(axis, tf.Tensor):
        return tf.gather(x, tf.range(tf.shape(x)[axis])[begin:end:step], axis=axis)
    x = tf.convert_to_tensor(x)
    key = [slice(None)] * (axis % x.shape.ndims) + [slice(begin, end, step)]
    return x[tuple(key)]


def concat_with_opt_broadcast(
    values: Sequence[tf.Tensor], allow_broadcast: Sequence[bool], axis: int, name: str = "concat_with_opt_broadcast"
) -> tf.Tensor:
    """
    :param values: raw tensors
    :param allow_broadcast: for each, whether axes of size 1 may be repeated
    :param axis: to put them one behind the other in
    :param name: of the operation
    """
    values = [tf.convert_to_tensor(x) for x in values]
    axis %= values[0].shape.ndims
    common = get_common_shape(values, ignore_axes=[axis])
    parts = [
        unbroadcast_to_common_shape(x, common, ignore_axes=[axis], allow_only_noop=False) if allow else x
        for x, allow in zip(values, allow_broadcast, strict=True)
    ]
    return tf.concat(parts, axis=axis, name=name)


def to_int32_64(x: tf.Tensor) -> tf.Tensor:
    """:return: x if it is int32 or int64; otherwise as int32"""
    return x if x.dtype in (tf.int32, tf.int64) else tf.cast(x, tf.int32)


def to_float32(x: tf.Tensor) -> tf.Tensor:
    """:return: x as float32"""
    return tf.cast(x, tf.float32)


def view_as(x: tf.Tensor, dtype: Any) -> tf.Tensor:
    """:return: the same bytes as another dtype"""
    return tf.bitcast(x, dtype)


def check_input_ndim(x: tf.Tensor, ndim: int) -> tf.Tensor:
    """:return: x; it fails if it has another number of axes"""
    if x.shape.ndims is not None:
        assert x.shape.ndims == ndim, f"{x} should have {ndim} axes"
        return x
    with tf.control_dependencies([tf.debugging.assert_rank(x, ndim)]):
        return tf.identity(x)


def check_input_ndim_equal_offset(x: tf.Tensor, y: tf.Tensor, y_ndim_offset: int = 0) -> tf.Tensor:
    """:return: x; it fails if y does not have `y_ndim_offset` axes more"""
    assert x.shape.ndims + y_ndim_offset == y.shape.ndims, f"{x}, {y}: should differ by {y_ndim_offset} axes"
    return x


def check_input_dim(x: tf.Tensor, axis: int, dim: Size) -> tf.Tensor:
    """:return: x; it fails if an axis has another size"""
    if isinstance(dim, int) and x.shape[axis] is not None:
        assert x.shape[axis] == dim, f"{x}: axis {axis} should have size {dim}"
        return x
    with tf.control_dependencies([tf.debugging.assert_equal(tf.shape(x)[axis], dim)]):
        return tf.identity(x)


def check_dim_equal(x: tf.Tensor, x_axis: int, y: tf.Tensor, y_axis: int, extra_msg: Sequence[Any] = ()) -> tf.Tensor:
    """:return: x; it fails if the axes have different sizes"""
    with tf.control_dependencies(
        [tf.debugging.assert_equal(tf.shape(x)[x_axis], tf.shape(y)[y_axis], message=" ".join(map(str, extra_msg)))]
    ):
        return tf.identity(x)


def check_shape_equal(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """:return: x; it fails if y has another shape"""
    with tf.control_dependencies([tf.debugging.assert_equal(tf.shape(x), tf.shape(y))]):
        return tf.identity(x)
