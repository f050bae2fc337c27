"""Dropout on raw tensors."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from returnn.compat.tf_util.train_flag import cond_on_train_flag
from returnn.tf.frontend_low_level.raw_random import operation_seed


def dropout(
    x: tf.Tensor,
    keep_prob: float | tf.Tensor,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
    cond_on_train: bool = False,
    apply_correction_factor: bool = True,
    grad_checkpointing: bool = False,
) -> tf.Tensor:
    """
    :param x: (...)
    :param keep_prob: probability that an entry is kept
    :param noise_shape: shape of the mask: 1 for axes along which entries are dropped together; None as size: that of x
    :param seed: of the mask
    :param name: of the operation
    :param cond_on_train: only in training
    :param apply_correction_factor: what is kept is divided by `keep_prob`
    :param grad_checkpointing: compute the mask again for the gradient, instead of keeping what was multiplied by it
    :return: (...)
    """
    if isinstance(keep_prob, (int, float)) and keep_prob == 1:
        return x
    if cond_on_train:
        return cond_on_train_flag(
            lambda: dropout(
                x,
                keep_prob,
                noise_shape=noise_shape,
                seed=seed,
                name=name,
                apply_correction_factor=apply_correction_factor,
                grad_checkpointing=grad_checkpointing,
            ),
            lambda: x,
        )
    with tf.name_scope(name or "dropout"):
        shape = tf.shape(x)
        if noise_shape is not None and not tf.is_tensor(noise_shape):
            noise_shape = [shape[i] if size is None else size for i, size in enumerate(noise_shape)]
        state = operation_seed(seed)

        def masked(value: tf.Tensor) -> tf.Tensor:
            size = shape if noise_shape is None else noise_shape
            keep = tf.random.stateless_uniform(size, seed=state, dtype=tf.float32) < keep_prob
            scaled = value / tf.cast(keep_prob, value.dtype) if apply_correction_factor else value
            return tf.where(keep, scaled, tf.zeros_like(scaled))

        return _with_mask_computed_again(x, masked) if grad_checkpointing else masked(x)


def _with_mask_computed_again(x: tf.Tensor, masked: Any) -> tf.Tensor:
    @tf.custom_gradient
    def apply(value: tf.Tensor) -> Any:
        return masked(value), masked  # it is linear, so the gradient goes through the same mask

    return apply(x)
