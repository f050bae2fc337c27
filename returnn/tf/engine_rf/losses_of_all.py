"""Losses of a worker as parts of the losses of all workers."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Tensor
from returnn.tf.util.collectives import norm_factor_of_all


def factors_of_all(losses: Mapping[str, rf.Loss]) -> dict[str, float | Tensor]:
    """
    :param losses: of this worker, by name
    :return: scalars to multiply means over frames by, such that their sum over all workers is the mean over the frames
        of all, if their batches count as one
    """
    return {name: _share_of_frames(loss) for name, loss in losses.items() if loss.use_normalized_loss}


def _share_of_frames(loss: rf.Loss) -> float | Tensor:
    own = loss.get_inv_norm_factor()
    count = tf.cast(own.raw_tensor if isinstance(own, Tensor) else own, tf.float64)
    per_frame = tf.math.reciprocal_no_nan(count)
    of_all = norm_factor_of_all(per_frame)
    if of_all is per_frame:
        return 1.0
    share = tf.cast(tf.stop_gradient(count) * of_all, loss.loss.dtype)
    return Tensor("share_of_frames", dims=(), dtype=loss.loss.dtype, raw_tensor=share)
