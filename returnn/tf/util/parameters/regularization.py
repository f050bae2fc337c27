"""Terms that are added to the loss."""

from __future__ import annotations

import math

import tensorflow as tf

from returnn.tensor import Tensor


def spatial_smoothing_energy(x: tf.Tensor, dim: int, use_circular_conv: bool = True) -> tf.Tensor:
    """
    The units are laid out on a grid and a high-pass filter is applied: a unit minus the mean of its eight neighbours
    (Xiong et al. 2016, "Achieving Human Parity in Conversational Speech Recognition").

    :param x: (..., dim)
    :param dim: number of units
    :param use_circular_conv: the borders of the grid are joined; otherwise there are zeros around it
    :return: scalar: energy of what the filter lets through
    """
    return tf.reduce_sum(spatial_smoothing_per_frame(tf.reshape(x, [-1, dim]), use_circular_conv))


def spatial_smoothing_per_frame(x: tf.Tensor, use_circular_conv: bool = True) -> tf.Tensor:
    """
    :param x: (..., dim), where the last size is known
    :param use_circular_conv: see `spatial_smoothing_energy`
    :return: (...): its terms
    """
    dim = x.shape[-1]
    width = next(w for w in range(math.isqrt(dim), 0, -1) if dim % w == 0)
    grid = tf.reshape(x, [-1, dim // width, width])
    padded = grid if use_circular_conv else tf.pad(grid, [[0, 0], [1, 1], [1, 1]])
    shifts = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
    neighbours = tf.add_n([tf.roll(padded, shift, axis=[1, 2]) for shift in shifts]) / len(shifts)
    neighbours = neighbours if use_circular_conv else neighbours[:, 1:-1, 1:-1]
    return tf.reshape(tf.reduce_sum(tf.square(grid - neighbours), axis=[1, 2]), tf.shape(x)[:-1])


def spatial_smoothing_of_output(x: Tensor) -> tf.Tensor:
    """:return: raw scalar: this energy over all valid frames of x {..., F}"""
    assert x.dim is not None
    return spatial_smoothing_energy(x.copy_with_feature_last().get_placeholder_flattened(), x.dim)
