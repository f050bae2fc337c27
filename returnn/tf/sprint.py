"""Questions to RASR from a graph: see `returnn.sprint.error_signals`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
import tensorflow as tf

from returnn.sprint.error_signals import SprintInstancePool


def py_get_sprint_automata_for_batch(
    sprint_opts: Mapping[str, Any], tags: Sequence[Any]
) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """See `SprintInstancePool.get_automata_for_batch`."""
    return SprintInstancePool.get_global_instance(sprint_opts).get_automata_for_batch(tags)


def get_sprint_automata_for_batch_op(
    sprint_opts: Mapping[str, Any], tags: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """
    :param sprint_opts: options of `SprintInstancePool`
    :param tags: (B,), names of the segments
    :return: edges (4, num), weights (num,), first and last state of each sequence (2, B)
    """
    SprintInstancePool.get_global_instance(sprint_opts)  # wrong options are an error now, not in the first step
    edges, weights, start_end_states = tf.numpy_function(
        lambda tags: py_get_sprint_automata_for_batch(sprint_opts, tags), [tags], [tf.int32, tf.float32, tf.int32]
    )
    edges.set_shape((4, None))
    weights.set_shape((None,))
    start_end_states.set_shape((2, None))
    return edges, weights, start_end_states


def py_get_sprint_loss_and_error_signal(
    sprint_opts: Mapping[str, Any], log_posteriors: numpy.ndarray, seq_lengths: numpy.ndarray, seq_tags: Sequence[Any]
) -> tuple[numpy.ndarray, numpy.ndarray]:
    """See `SprintInstancePool.get_batch_loss_and_error_signal`."""
    pool = SprintInstancePool.get_global_instance(sprint_opts)
    return pool.get_batch_loss_and_error_signal(log_posteriors, seq_lengths, seq_tags)


def get_sprint_loss_and_error_signal(
    sprint_opts: Mapping[str, Any], log_posteriors: tf.Tensor, seq_lengths: tf.Tensor, seq_tags: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """
    :param sprint_opts: options of `SprintInstancePool`
    :param log_posteriors: (T, B, F)
    :param seq_lengths: (B,)
    :param seq_tags: (B,), names of the segments
    :return: loss (B,); (T, B, F), its gradient of the log posteriors before normalization
    """
    SprintInstancePool.get_global_instance(sprint_opts)
    loss, error_signal = tf.numpy_function(
        lambda *args: py_get_sprint_loss_and_error_signal(sprint_opts, *args),
        [log_posteriors, seq_lengths, seq_tags],
        [tf.float32, tf.float32],
    )
    loss.set_shape((None,))
    error_signal.set_shape(log_posteriors.shape)
    return loss, error_signal
