"""Terms that are added to the loss."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from returnn.tensor import Tensor


def spatial_smoothing_energy(x: Tensor) -> Any:
    """
    :param x: {..., F}
    :return: raw scalar: how much neighbours in the feature dim differ, over all valid frames
    """
    flat = x.copy_with_feature_last().get_placeholder_flattened()
    return tf.reduce_sum(tf.square(flat[..., 1:] - flat[..., :-1]))
