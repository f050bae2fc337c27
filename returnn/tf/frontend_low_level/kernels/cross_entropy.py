"""Cross entropy of logits and labels by the native kernel, which makes no distribution over the classes."""

from __future__ import annotations

import numpy
import tensorflow as tf

from returnn.frontend.run_ctx import get_run_ctx
from returnn.tf.frontend_low_level.kernels.native import get_operations, has_operations


def native_cross_entropy(
    logits: tf.Tensor, labels: tf.Tensor, *, label_prob: float = 1.0, other_prob: float = 0.0
) -> tf.Tensor | None:
    """
    :param logits: (..., C)
    :param labels: (...), integers below C
    :param label_prob: probability of the label
    :param other_prob: probability of each other class
    :return: (...), in nats: cross entropy to these probabilities, by one operation; None where it is not for this, as
        in graphs without training, which run everywhere
    """
    num_classes = logits.shape[-1]
    if logits.dtype == tf.float64 and any(float(numpy.float32(p)) != p for p in (label_prob, other_prob)):
        return None  # attributes of operations are float32, which would be seen in the 8th digit
    is_trained = get_run_ctx().is_train_flag_enabled(func=None) is not False
    if not num_classes or not is_trained or not has_operations(logits.dtype):
        return None
    operations = get_operations()
    assert operations is not None
    inputs = {"logits": tf.reshape(logits, [-1, num_classes]), "labels": tf.reshape(tf.cast(labels, tf.int32), [-1])}
    losses = operations.call("cross_entropy", inputs, label_prob=label_prob, other_prob=other_prob)["losses"]
    return tf.ensure_shape(tf.reshape(losses, tf.shape(labels)), labels.shape)
