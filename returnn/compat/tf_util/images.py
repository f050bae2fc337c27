"""Smooth random distortions, as for images and spectrograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from returnn.tf.frontend_low_level import raw_random


def interpolate_bilinear(
    grid: tf.Tensor, query_points: tf.Tensor, name: str = "interpolate_bilinear", indexing: str = "ij"
) -> tf.Tensor:
    """
    :param grid: (B, H, W, C)
    :param query_points: (B, N, 2), positions in the grid, cut at its borders
    :param name: of the operation
    :param indexing: "ij": row, column; "xy": column, row
    :return: (B, N, C)
    """
    assert indexing in ("ij", "xy"), indexing
    with tf.name_scope(name):
        points = query_points if indexing == "ij" else tf.reverse(query_points, axis=[-1])
        last = tf.cast(tf.shape(grid)[1:3] - 1, points.dtype)
        points = tf.clip_by_value(points, 0.0, last)
        low = tf.minimum(tf.floor(points), tf.maximum(last - 1, 0.0))
        weight = tf.cast(points - low, grid.dtype)
        row, column = tf.unstack(tf.cast(low, tf.int32), axis=-1)
        row_after, column_after = (tf.minimum(x + 1, tf.shape(grid)[1 + i] - 1) for i, x in enumerate((row, column)))

        def at(row: tf.Tensor, column: tf.Tensor) -> tf.Tensor:
            return tf.gather_nd(grid, tf.stack([row, column], axis=-1), batch_dims=1)

        down, right = weight[..., :1], weight[..., 1:]
        top = at(row, column) * (1 - right) + at(row, column_after) * right
        bottom = at(row_after, column) * (1 - right) + at(row_after, column_after) * right
        return top * (1 - down) + bottom * down


def dense_image_warp(image: tf.Tensor, flow: tf.Tensor, name: str = "dense_image_warp") -> tf.Tensor:
    """
    :param image: (B, H, W, C)
    :param flow: (B, H, W, 2), in pixels
    :param name: of the operation
    :return: (B, H, W, C): the image at each position minus the flow there
    """
    with tf.name_scope(name):
        batch, height, width = tf.unstack(tf.shape(image)[:3])
        grid = tf.stack(tf.meshgrid(tf.range(height), tf.range(width), indexing="ij"), axis=-1)
        points = tf.reshape(tf.cast(grid, flow.dtype)[None] - flow, [batch, height * width, 2])
        warped = tf.reshape(interpolate_bilinear(image, points), tf.shape(image))
        warped.set_shape(image.shape)
        return warped


def gaussian_kernel_2d(size: int | Sequence[int], std: float | Sequence[float]) -> tf.Tensor:
    """:return: (height, width): density of a normal distribution around the middle, of sum 1"""
    sizes, deviations = _pair(size), _pair(std)
    densities = []
    for length, deviation in zip(sizes, deviations, strict=True):
        position = tf.cast(tf.range(length), tf.float32) - (length - 1) / 2
        density = tf.exp(-0.5 * tf.square(position / max(deviation, 1e-10)))
        densities.append(density / tf.reduce_sum(density))
    return densities[0][:, None] * densities[1][None, :]


def gaussian_blur_2d(image: tf.Tensor, kernel_size: Any = None, kernel_std: Any = None) -> tf.Tensor:
    """
    :param image: (B, H, W, C)
    :param kernel_size: in pixels, one number or two. Default: three deviations on both sides
    :param kernel_std: standard deviation, in pixels, one number or two. Default: a quarter of the size
    :return: (B, H, W, C), blurred
    """
    if kernel_size is None:
        assert kernel_std is not None, "give the size or the standard deviation"
        kernel_size = tuple(round(deviation * 3) * 2 + 1 for deviation in _pair(kernel_std))
    if kernel_std is None:
        kernel_std = tuple(length / 4 for length in _pair(kernel_size))
    kernel = gaussian_kernel_2d(kernel_size, kernel_std)
    per_channel = tf.tile(kernel[:, :, None, None], [1, 1, tf.shape(image)[-1], 1])
    per_channel.set_shape([None, None, image.shape[-1], 1])
    return tf.nn.depthwise_conv2d(image, per_channel, strides=[1, 1, 1, 1], padding="SAME")


def create_random_warp_flow_2d(
    shape: Any, std: Any = None, scale: float | Sequence[float] = 10.0, blur_std: float | Sequence[float] = 2.0
) -> tf.Tensor:
    """
    :param shape: (B, H, W)
    :param std: standard deviation of the noise, one number, or one per axis. Default: 1
    :param scale: factor for the smoothed noise, one number, or one per axis
    :param blur_std: standard deviation of the kernel that smooths it, in pixels, one number, or one per axis
    :return: (B, H, W, 2): a smooth random flow, for `dense_image_warp`
    """
    batch, height, width = shape if isinstance(shape, (list, tuple)) else tf.unstack(shape)
    noise = raw_random.normal([batch, height, width, 2]) * tf.constant(_pair(1.0 if std is None else std), tf.float32)
    noise.set_shape([None, None, None, 2])
    return gaussian_blur_2d(noise, kernel_std=blur_std) * tf.constant(_pair(scale), tf.float32)


def _pair(value: Any) -> tuple[Any, Any]:
    return (value[0], value[1]) if isinstance(value, (list, tuple)) else (value, value)
