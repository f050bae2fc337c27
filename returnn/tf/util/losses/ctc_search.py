"""The labels that CTC finds: by the best path, or by prefix beam search."""

from __future__ import annotations

import math

import numpy
import tensorflow as tf

from returnn.tf.frontend_low_level.kernels import alignments
from returnn.util.numbers.ctc_search import CtcSearch

_NEVER = -1e29  # what the kernel says of no path is below


def best_path(logits: tf.Tensor, num_frames: tf.Tensor, *, blank: int) -> tuple[tf.Tensor, tf.Tensor]:
    """
    :param logits: (B, T, C)
    :param num_frames: (B,)
    :param blank: its class
    :return: (B, S), int32: labels, 0 behind the ends; (B,), how many
    """
    (decoded,), _ = tf.nn.ctc_greedy_decoder(tf.transpose(logits, [1, 0, 2]), num_frames, blank_index=blank)
    return _dense(decoded, num_frames)


def best_prefixes(
    logits: tf.Tensor, num_frames: tf.Tensor, *, beam_size: int, blank: int, num_best: int = 1
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """
    :param logits: (B, T, C)
    :param num_frames: (B,)
    :param beam_size: number of prefixes that stay in each frame
    :param blank: its class
    :param num_best: how many of them are wanted at the end, the best one first
    :return: (B, num_best, S), int32: labels, 0 behind the ends; (B, num_best), how many; (B, num_best), log
        probabilities, -inf for hypotheses that do not exist, as there are fewer
    """
    found = alignments.ctc_beam_search(logits, num_frames, blank=blank, beam_size=beam_size, num_best=num_best)
    if found is not None:
        labels, num_labels, scores = found
        longest = tf.reduce_max(tf.concat([tf.reshape(num_labels, [-1]), [0]], axis=0))
        return labels[:, :, :longest], num_labels, tf.where(scores > _NEVER, scores, -math.inf)
    if num_best > 1:  # of which the operation wants as many as it was asked for
        search = CtcSearch(beam_size, blank)
        return best_of_search(search, tf.nn.log_softmax(logits), num_frames, num_best=num_best)
    order = [label for label in range(logits.shape[-1]) if label != blank]  # before blank, which has to be the last one
    frames = tf.transpose(tf.gather(logits, [*order, blank], axis=-1), [1, 0, 2])
    (decoded,), scores = tf.nn.ctc_beam_search_decoder(frames, num_frames, beam_width=beam_size, top_paths=1)
    labels, num_labels = _dense(decoded, num_frames)
    is_label = tf.sequence_mask(num_labels, tf.shape(labels)[1])
    labels = tf.where(is_label, tf.gather(tf.constant(order, tf.int32), labels), 0)
    return labels[:, None], num_labels[:, None], scores


def best_of_search(
    search: CtcSearch, log_probs: tf.Tensor, num_frames: tf.Tensor, *, num_best: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """
    :param search: in Python, which the graph asks
    :param log_probs: (B, T, C)
    :param num_frames: (B,)
    :param num_best: how many hypotheses are wanted
    :return: see `best_prefixes`
    """

    def run(frames: numpy.ndarray, num_frames: numpy.ndarray) -> tuple[numpy.ndarray, ...]:
        found = [search.best(seq[:length])[:num_best] for seq, length in zip(frames, num_frames, strict=True)]
        shape = (len(found), num_best)
        lengths, scores = numpy.zeros(shape, "int32"), numpy.full(shape, -math.inf, frames.dtype)
        longest = max((len(labels) for best in found for labels, _ in best), default=0)
        out = numpy.zeros((*shape, longest), "int32")
        for n, best in enumerate(found):
            for k, (labels, score) in enumerate(best):
                out[n, k, : len(labels)] = labels
                lengths[n, k], scores[n, k] = len(labels), score
        return out, lengths, scores

    out, lengths, scores = tf.numpy_function(run, [log_probs, num_frames], (tf.int32, tf.int32, log_probs.dtype))
    out.set_shape((None, num_best, None))
    lengths.set_shape((None, num_best))
    scores.set_shape((None, num_best))
    return out, lengths, scores


def _dense(labels: tf.SparseTensor, num_frames: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    seq = labels.indices[:, 0]
    num_labels = tf.math.unsorted_segment_sum(tf.ones_like(seq, tf.int32), seq, tf.shape(num_frames)[0])
    return tf.cast(tf.sparse.to_dense(labels), tf.int32), num_labels
