"""Convolution and pooling on raw TensorFlow tensors, with the features behind the spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from returnn.frontend._ops.layout import product
from returnn.frontend._ops.nn.conv_windows import TransposedWindow, Window
from returnn.tf.frontend_low_level.raw import RawTFOps


class ConvTFOps:
    """For the meaning of the operations see `returnn.frontend._backends.required`."""

    @staticmethod
    def conv_raw(raw_tensor: tf.Tensor, filter: tf.Tensor, moved: Sequence[Window], groups: int) -> tf.Tensor:
        """:return: convolution. TensorFlow has no stride with dilation: then all positions, and every n-th of them."""
        strides, dilations, skip = _strides(moved)
        sizes = _spatial_sizes(raw_tensor)
        raw_tensor, padding = _padded(raw_tensor, moved, 0.0, explicit=skip is not None)
        options = {"strides": strides, "padding": padding, "dilations": dilations}
        num_in = filter.shape[-2] * groups
        if groups == num_in and len(moved) <= 2 and len(set(strides)) == 1:
            out = _depthwise(raw_tensor, filter, **options)
        elif groups > 1 and (len(moved) == 3 or not tf.config.list_physical_devices("GPU")):
            # On the CPU, TensorFlow has no gradient of grouped convolutions, and in 3D no grouped ones at all.
            parts = zip(tf.split(raw_tensor, groups, axis=-1), tf.split(filter, groups, axis=-1), strict=True)
            out = tf.concat([tf.nn.convolution(x, w, **options) for x, w in parts], axis=-1)
        else:
            out = tf.nn.convolution(raw_tensor, filter, **options)
        return _without_overhang(out[skip] if skip else out, moved, sizes)

    @staticmethod
    def transposed_conv_raw(
        raw_tensor: tf.Tensor, filter: tf.Tensor, laid: Sequence[TransposedWindow], sizes: Sequence[Any]
    ) -> tf.Tensor:
        """:return: transposed convolution"""
        strides = [w.stride for w in laid]
        shape = tf.shape(raw_tensor)
        num_out = filter.shape[-2]
        if all(w.padding != "valid" and not w.remove and w.output_padding is None for w in laid):
            return tf.nn.conv_transpose(raw_tensor, filter, tf.stack([shape[0], *sizes, num_out]), strides, "SAME")
        raw_tensor, in_sizes = _with_some_frame(raw_tensor)
        full_sizes = [w.full_length(n) for w, n in zip(laid, in_sizes, strict=True)]
        full = tf.nn.conv_transpose(raw_tensor, filter, tf.stack([shape[0], *full_sizes, num_out]), strides, "VALID")
        if any(w.output_padding or w.size < w.stride for w in laid):
            missing = [
                [0, tf.maximum(w.cut_left + size - n, 0)] for w, size, n in zip(laid, sizes, full_sizes, strict=True)
            ]
            full = _with_frames(full, missing)
        cut = [slice(w.cut_left, w.cut_left + size) for w, size in zip(laid, sizes, strict=True)]
        return full[(slice(None), *cut)]

    @staticmethod
    def pool_raw(raw_tensor: tf.Tensor, mode: str, moved: Sequence[Window]) -> tf.Tensor:
        """:return: maximum or average"""
        if len(moved) == 3 and raw_tensor.dtype == tf.float64:
            return _pool_by_axes(raw_tensor, mode, moved)
        strides, dilations, skip = _strides(moved, limited=True)
        # With dilation, TensorFlow does no padding.
        is_explicit = skip is not None or any(w.dilation > 1 for w in moved)
        window = [w.size for w in moved]
        sizes = _spatial_sizes(raw_tensor)

        def pool(x: tf.Tensor, padding: str) -> tf.Tensor:
            out = tf.nn.pool(x, window, mode.upper(), strides=strides, padding=padding, dilations=dilations)
            return _without_overhang(out[skip] if skip else out, moved, sizes)

        pad_value = -float("inf") if mode == "max" else 0.0
        padded, padding = _padded(raw_tensor, moved, pad_value, explicit=is_explicit)
        out = pool(padded, padding)
        if mode == "max" or padding == "SAME" or padded is raw_tensor:
            return out
        inside = tf.ones(tf.concat([[1], tf.shape(raw_tensor)[1:-1], [1]], axis=0), raw_tensor.dtype)
        return tf.math.divide_no_nan(out, pool(_padded(inside, moved, 0.0, explicit=True)[0], padding))


def _pool_by_axes(x: tf.Tensor, mode: str, moved: Sequence[Window]) -> tf.Tensor:
    """:return: as `pool_raw` in 3D, over two axes, then over the third. TensorFlow's own has no float64"""
    *before, last, channels = RawTFOps.get_shape_tuple_raw(x)
    out = ConvTFOps.pool_raw(tf.reshape(x, [*before, last * channels]), mode, moved[:2])
    before = RawTFOps.get_shape_tuple_raw(out)[:-1]
    out = ConvTFOps.pool_raw(tf.reshape(out, [product(before), last, channels]), mode, moved[2:])
    return tf.reshape(out, [*before, RawTFOps.get_shape_tuple_raw(out)[1], channels])


def _depthwise(x: tf.Tensor, filter: tf.Tensor, *, strides: list[int], padding: str, dilations: list[int]) -> tf.Tensor:
    """
    :param filter: (spatial..., 1, O)
    :return: convolution where each feature is a group of its own
    """
    num_in = x.shape[-1]
    size = filter.shape.as_list()[:-2]
    weights = tf.reshape(filter, [*[1] * (2 - len(size)), *size, num_in, filter.shape[-1] // num_in])
    if len(size) == 1:
        x = x[:, None]
    dilations = [1] * (2 - len(size)) + dilations
    out = tf.nn.depthwise_conv2d(x, weights, [1, strides[0], strides[0], 1], padding, dilations=dilations)
    return out[:, 0] if len(size) == 1 else out


def _strides(moved: Sequence[Window], *, limited: bool = False) -> tuple[list[int], list[int], Any]:
    """
    TensorFlow has either strides or dilations, and none of its paddings moves with the positions which are left out.

    :param limited: a stride can be at most the size of the window
    :return: strides; dilations; None, or which of the positions to take
    """
    strides, dilations = [w.stride for w in moved], [w.dilation for w in moved]
    has_both = max(dilations) > 1 and max(strides) > 1
    if not has_both and not (limited and any(w.stride > w.size for w in moved)):
        return strides, dilations, None
    return [1] * len(moved), dilations, (slice(None), *(slice(None, None, stride) for stride in strides))


def _padded(x: tf.Tensor, moved: Sequence[Window], value: float, *, explicit: bool = False) -> tuple[tf.Tensor, str]:
    """
    :param explicit: leave no padding to TensorFlow
    :return: raw tensor, with padding if needed; "SAME" or "VALID" for what is left to do. An axis which is shorter than
        the window becomes as long as it: TensorFlow's kernels for the CPU end the process if nothing comes out.
    """
    is_same = all(w.padding == "same_dynamic" or (w.padding == "same_static" and w.stride == 1) for w in moved)
    if is_same and not explicit:
        return _with_some_frame(x)[0], "SAME"
    pads = [_sides(w, size) for w, size in zip(moved, _spatial_sizes(x), strict=True)]
    if all(isinstance(side, int) and side == 0 for sides in pads for side in sides):
        return x, "VALID"
    return _with_frames(x, pads, value), "VALID"


def _with_frames(x: tf.Tensor, pads: Sequence[Sequence[Any]], value: float = 0.0) -> tf.Tensor:
    """
    :param pads: numbers of frames before and behind each spatial axis, some of them known only when it runs. These are
        not added by `tf.pad`, behind which converters forget the sizes of all axes
    :param value: of the new frames
    """
    known = [[side if isinstance(side, int) else 0 for side in sides] for sides in pads]
    if any(side for sides in known for side in sides):
        x = tf.pad(x, [[0, 0], *known, [0, 0]], constant_values=tf.constant(value, x.dtype))
    for axis, sides in enumerate(pads, start=1):
        shape = RawTFOps.get_shape_tuple_raw(x)
        before, behind = (
            [] if isinstance(n, int) else [tf.fill([*shape[:axis], n, *shape[axis + 1 :]], tf.constant(value, x.dtype))]
            for n in sides
        )
        x = tf.concat([*before, x, *behind], axis=axis) if before or behind else x
    return x


def _sides(window: Window, size: Any) -> list[Any]:
    """:return: frames before and behind"""
    static = window.static_padding()
    if static is None:
        total = _at_least_0((-(-size // window.stride) - 1) * window.stride + window.extent + 1 - size)
        left, right = total // 2, total - total // 2
    else:
        left, right = static
        if _overhang(window) < 0:
            return [left, right]
    return [left, right + _at_least_0(window.extent + 1 - size - left - right)]


def _at_least_0(size: Any) -> Any:
    return max(size, 0) if isinstance(size, int) else tf.maximum(size, 0)


def _overhang(window: Window) -> int:
    """:return: an axis of at most so many frames is shorter than the window"""
    static = window.static_padding()
    return 0 if static is None else window.extent - sum(static)


def _without_overhang(out: tf.Tensor, moved: Sequence[Window], sizes: Sequence[Any]) -> tf.Tensor:
    """
    :param out: (B, spatial..., O)
    :param sizes: of the axes before `_padded`
    :return: without the position which is there only because the axis is too short
    """
    cut = [slice(None)] * len(out.shape)
    for axis, (window, size) in enumerate(zip(moved, sizes, strict=True), start=1):
        too_long = _overhang(window)
        if too_long < 0 or (isinstance(size, int) and size > too_long):
            continue
        rest = _at_least_0(size - too_long)
        cut[axis] = slice(-(-rest // window.stride) if window.stride > 1 else rest)
    return out[tuple(cut)] if any(part != slice(None) for part in cut) else out


def _with_some_frame(x: tf.Tensor) -> tuple[tf.Tensor, list[Any]]:
    """:return: x, with a frame of zeros in each empty axis, as TensorFlow has no gradients otherwise; the sizes"""
    sizes = _spatial_sizes(x)
    missing = [_at_least_0(1 - n) for n in sizes]
    return _with_frames(x, [[0, n] for n in missing]), [n + more for n, more in zip(sizes, missing, strict=True)]


def _spatial_sizes(x: tf.Tensor) -> list[Any]:
    return [tf.shape(x)[i] if n is None else n for i, n in enumerate(x.shape[1:-1], start=1)]
