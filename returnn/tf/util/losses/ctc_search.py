"""The labels that CTC finds: by the best path, or by prefix beam search."""

from __future__ import annotations

import tensorflow as tf

from returnn.tf.frontend_low_level.kernels import alignments


def best_path(logits: tf.Tensor, num_frames: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """
    :param logits: (B, T, C), the last class is blank
    :param num_frames: (B,)
    :return: (B, S), int32: labels, 0 behind the ends; (B,), how many
    """
    (decoded,), _ = tf.nn.ctc_greedy_decoder(tf.transpose(logits, [1, 0, 2]), num_frames)
    return _dense(decoded, num_frames)


def best_prefix(logits: tf.Tensor, num_frames: tf.Tensor, *, beam_size: int, blank: int) -> tuple[tf.Tensor, tf.Tensor]:
    """
    :param logits: (B, T, C)
    :param num_frames: (B,)
    :param beam_size: number of prefixes that stay in each frame
    :param blank: its class
    :return: (B, S), int32: labels, 0 behind the ends; (B,), how many
    """
    found = alignments.ctc_beam_search(logits, num_frames, blank=blank, beam_size=beam_size)
    if found is not None:
        labels, num_labels = found
        return labels[:, : tf.reduce_max(tf.concat([num_labels, [0]], axis=0))], num_labels
    order = [label for label in range(logits.shape[-1]) if label != blank]  # before blank, which has to be the last one
    frames = tf.transpose(tf.gather(logits, [*order, blank], axis=-1), [1, 0, 2])
    (decoded,), _ = tf.nn.ctc_beam_search_decoder(frames, num_frames, beam_width=beam_size, top_paths=1)
    labels, num_labels = _dense(decoded, num_frames)
    is_label = tf.sequence_mask(num_labels, tf.shape(labels)[1])
    return tf.where(is_label, tf.gather(tf.constant(order, tf.int32), labels), 0), num_labels


def _dense(labels: tf.SparseTensor, num_frames: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    seq = labels.indices[:, 0]
    num_labels = tf.math.unsorted_segment_sum(tf.ones_like(seq, tf.int32), seq, tf.shape(num_frames)[0])
    return tf.cast(tf.sparse.to_dense(labels), tf.int32), num_labels
