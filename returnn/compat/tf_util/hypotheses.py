"""Hypotheses as raw tensors: the best ones of a step of a search, and how good they are."""

from __future__ import annotations

import tensorflow as tf

from returnn.tf.util.labels import bleu_scores


def beam_search(
    scores: tf.Tensor,
    beam_size: int | tf.Tensor,
    keep_beams: bool = False,
    cheating_gold_targets: tf.Tensor | None = None,
    cheating_src_beam_idx: tf.Tensor | None = None,
    cheating_exclusive: bool = True,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """
    :param scores: (B, beam before, labels), log space
    :param beam_size: number of hypotheses to choose
    :param keep_beams: each hypothesis is continued by equally many
    :param cheating_gold_targets: (B,), labels: the last hypothesis gets this label ...
    :param cheating_src_beam_idx: (B,): ... and continues this hypothesis. Default: the last one
    :param cheating_exclusive: the others are not the same as the last one
    :return: (B, beam) -> beam before; (B, beam): labels; (B, beam): scores
    """
    shape = tf.shape(scores)
    batch, beam_in, labels = shape[0], shape[1], shape[2]
    if cheating_gold_targets is not None:
        return _with_gold_targets(
            scores, beam_size, keep_beams, cheating_gold_targets, cheating_src_beam_idx, cheating_exclusive
        )
    if keep_beams:
        number = beam_size // beam_in
        best, chosen = tf.nn.top_k(scores, k=number)  # (B, beam before, number)
        sources = tf.broadcast_to(tf.range(beam_in)[None, :, None], tf.shape(chosen))
        flat = [batch, beam_in * number]
        return tf.reshape(sources, flat), tf.reshape(chosen, flat), tf.reshape(best, flat)
    best, chosen = tf.nn.top_k(tf.reshape(scores, [batch, beam_in * labels]), k=beam_size)
    return chosen // labels, chosen % labels, best


def _with_gold_targets(
    scores: tf.Tensor,
    beam_size: int | tf.Tensor,
    keep_beams: bool,
    targets: tf.Tensor,
    src_beam: tf.Tensor | None,
    exclusive: bool,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    batch, beam_in = tf.shape(scores)[0], tf.shape(scores)[1]
    targets = tf.cast(targets, tf.int32)
    src_beam = tf.fill([batch], beam_in - 1) if src_beam is None else tf.cast(src_beam, tf.int32)
    position = tf.stack([tf.range(batch), src_beam, targets], axis=-1)
    gold_score = tf.gather_nd(scores, position)
    if exclusive:
        worst = tf.fill([batch], scores.dtype.min)
        scores = tf.tensor_scatter_nd_update(scores, position, worst)
    sources, labels, best = beam_search(scores, beam_size, keep_beams)
    gold = (src_beam, targets, gold_score)
    with_gold = [tf.concat([x[:, :-1], y[:, None]], axis=1) for x, y in zip((sources, labels, best), gold, strict=True)]
    return with_gold[0], with_gold[1], with_gold[2]


def bleu_score(
    hypothesis: tf.Tensor, truth: tf.Tensor, hyp_seq_lens: tf.Tensor, truth_seq_lens: tf.Tensor
) -> tf.Tensor:
    """
    :param hypothesis: (B, T), labels
    :param truth: (B, T'), labels
    :param hyp_seq_lens: (B,)
    :param truth_seq_lens: (B,)
    :return: (B,), float32: BLEU score of each sequence, 0 to 1
    """
    result = tf.numpy_function(bleu_scores, [hypothesis, hyp_seq_lens, truth, truth_seq_lens], tf.float32)
    result.set_shape(hypothesis.shape[:1])
    return result
