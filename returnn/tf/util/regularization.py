"""Terms that are added to the loss."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from returnn.tensor import Tensor


def spatial_smoothing_energy(x: Tensor) -> Any:
    """
    The units are laid out on a grid, whose borders are joined, and a high-pass filter is applied: a unit minus the mean
    of its eight neighbours (Xiong et al. 2016, "Achieving Human Parity in Conversational Speech Recognition").

    :param x: {..., F}
    :return: raw scalar: energy of what the filter lets through, over all valid frames
    """
    flat = x.copy_with_feature_last().get_placeholder_flattened()
    size = x.dim
    assert size is not None
    width = next(w for w in range(math.isqrt(size), 0, -1) if size % w == 0)
    grid = tf.reshape(flat, [-1, size // width, width])
    shifts = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
    neighbours = tf.add_n([tf.roll(grid, shift, axis=[1, 2]) for shift in shifts]) / len(shifts)
    return tf.reduce_sum(tf.square(grid - neighbours))
