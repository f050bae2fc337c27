"""Sums and maxima over alignments, on raw tensors, with automata as edges. See `returnn.tf.util.losses.fsa`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from returnn.compat.fsa.batch import FastBaumWelchBatchFsa, fast_bw_fsa_staircase
from returnn.compat.fsa.batch import get_ctc_fsa_fast_bw as ctc_fsa_of_numpy
from returnn.tf.sprint import get_sprint_automata_for_batch_op
from returnn.tf.util.losses.fsa import best_paths, ctc_fsa, fsa_of_edges, posteriors

_Edges = tuple[tf.Tensor, tf.Tensor, tf.Tensor]


def fast_baum_welch(
    am_scores: tf.Tensor, edges: tf.Tensor, weights: tf.Tensor, start_end_states: tf.Tensor, float_idx: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """
    :param am_scores: (T, B, F), negative log probabilities
    :param edges: (4, edges), int32: state from, state to, label, index in the batch
    :param weights: (edges,), negative log probabilities
    :param start_end_states: (2, B), int32: first and last state
    :param float_idx: (T, B), 1 for frames of the sequences
    :return: (T, B, F), negative log of the probability of each class, over all paths; (T, B), in each frame of a
        sequence: negative log of the sum over all paths. No gradient
    """
    mask = float_idx > 0
    occupied, total = posteriors(-am_scores, fsa_of_edges(edges, weights, start_end_states), mask)
    scores = tf.where(mask, tf.broadcast_to(-total[None], tf.shape(mask)), 0.0)
    return tf.stop_gradient(-tf.math.log(occupied)), tf.stop_gradient(scores)


def make_fast_baum_welch_op(**kwargs: Any) -> Callable[..., tuple[tf.Tensor, tf.Tensor]]:
    """
    :param kwargs: of the compiler. There are none any more
    :return: a function with the arguments of `fast_baum_welch`, behind which a buffer may stand that it does not need
    """
    if kwargs:
        raise TypeError(f"make_fast_baum_welch_op: there is no argument {next(iter(kwargs))!r}")
    return lambda *args, **buffer: fast_baum_welch(*args[:5])


def fast_baum_welch_by_sprint_automata(
    am_scores: tf.Tensor, float_idx: tf.Tensor, tags: tf.Tensor, sprint_opts: Mapping[str, Any], tdp_scale: float = 1.0
) -> tuple[tf.Tensor, tf.Tensor]:
    """
    :param am_scores: (T, B, F), negative log probabilities
    :param float_idx: (T, B), 1 for frames of the sequences
    :param tags: (B,), names of the segments
    :param sprint_opts: of RASR, which gives the automata
    :param tdp_scale: factor for their weights
    :return: see `fast_baum_welch`
    """
    edges, weights, start_end_states = get_sprint_automata_for_batch_op(sprint_opts=sprint_opts, tags=tags)
    return fast_baum_welch(am_scores, edges, weights * tdp_scale, start_end_states, float_idx)


def fast_baum_welch_staircase(am_scores: tf.Tensor, seq_lens: tf.Tensor, **opts: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """
    :param am_scores: (T, B, F), negative log probabilities
    :param seq_lens: (B,)
    :param opts: see `tf_fast_bw_fsa_staircase`
    :return: see `fast_baum_welch`
    """
    edges, weights, start_end_states = tf_fast_bw_fsa_staircase(seq_lens, **opts)
    float_idx = tf.transpose(tf.sequence_mask(seq_lens, maxlen=tf.shape(am_scores)[0], dtype=am_scores.dtype))
    return fast_baum_welch(am_scores, edges, weights, start_end_states, float_idx)


def tf_fast_bw_fsa_staircase(seq_lens: tf.Tensor, **opts: Any) -> _Edges:
    """
    :param seq_lens: (B,), number of labels
    :param opts: see `returnn.util.fsa.fast_bw_fsa_staircase`
    :return: edges, weights, first and last states of automata which go through the labels 0, 1, 2, ...
    """
    return _by_numpy(lambda lengths: fast_bw_fsa_staircase(lengths, **opts), [seq_lens])


def get_ctc_fsa_fast_bw(
    targets: tf.Tensor, seq_lens: tf.Tensor, blank_idx: int | tf.Tensor, label_loop: bool = True
) -> _Edges:
    """
    :param targets: (B, S), labels
    :param seq_lens: (B,)
    :param blank_idx: label of blank
    :param label_loop: a label can stay for several frames
    :return: edges, weights, first and last states
    """

    def automata(targets: Any, seq_lens: Any, blank_idx: Any) -> FastBaumWelchBatchFsa:
        return ctc_fsa_of_numpy(targets=targets, seq_lens=seq_lens, blank_idx=int(blank_idx), label_loop=label_loop)

    return _by_numpy(automata, [targets, seq_lens, blank_idx])


def _by_numpy(automata: Callable[..., FastBaumWelchBatchFsa], args: list[Any]) -> _Edges:
    def arrays(*values: Any) -> tuple[Any, ...]:
        fsa = automata(*values)
        return fsa.edges.astype("int32"), fsa.weights.astype("float32"), fsa.start_end_states.astype("int32")

    edges, weights, start_end_states = tf.numpy_function(arrays, args, [tf.int32, tf.float32, tf.int32])
    edges.set_shape((4, None))
    weights.set_shape((None,))
    start_end_states.set_shape((2, None))
    return edges, weights, start_end_states


def fast_viterbi(
    *,
    am_scores: tf.Tensor,
    am_seq_len: tf.Tensor,
    edges: tf.Tensor,
    weights: tf.Tensor,
    start_end_states: tf.Tensor,
    mask_idx: int = 0,
) -> tuple[tf.Tensor, tf.Tensor]:
    """
    :param am_scores: (T, B, F), log probabilities
    :param am_seq_len: (B,)
    :param edges: (4, edges), int32: state from, state to, label, index in the batch
    :param weights: (edges,), log probabilities
    :param start_end_states: (2, B), int32: first and last state
    :param mask_idx: label of padded frames
    :return: (T, B), int32: labels of the best path; (B,), its log probability
    """
    mask = _mask(am_seq_len, am_scores)
    labels, scores = best_paths(am_scores, fsa_of_edges(edges, -weights, start_end_states), mask)
    return tf.where(mask, labels, mask_idx), scores


def ctc_loss(
    *,
    logits: tf.Tensor,
    logits_seq_lens: tf.Tensor,
    logits_time_major: bool,
    targets: tf.Tensor,
    targets_seq_lens: tf.Tensor,
    label_loop: bool | None = None,
    ctc_merge_repeated: bool | None = None,
    logits_normalize: bool = True,
    grad_wrt_softmax_in: bool = True,
    blank_index: int = -1,
    zero_infinity: bool | None = None,
) -> tf.Tensor:
    """
    :param logits: (T, B, F), or (B, T, F)
    :param logits_seq_lens: (B,)
    :param logits_time_major: whether time comes first
    :param targets: (B, S), labels
    :param targets_seq_lens: (B,)
    :param label_loop: a label can last several frames, default: it can
    :param ctc_merge_repeated: another name for it
    :param logits_normalize: take their softmax; otherwise, they are log probabilities
    :param grad_wrt_softmax_in: the gradient is the softmax minus the probabilities over all alignments, also if the
        logits are normalized already
    :param blank_index: label of blank, from the end if it is negative
    :param zero_infinity: where there is no alignment, loss and gradient are 0
    :return: (B,)
    """
    if label_loop is not None and ctc_merge_repeated is not None and label_loop != ctc_merge_repeated:
        raise ValueError("ctc_loss: label_loop and ctc_merge_repeated say the same, and cannot be different")
    loop = next((bool(x) for x in (label_loop, ctc_merge_repeated) if x is not None), True)

    def align(scores: tf.Tensor, mask: tf.Tensor, blank: Any) -> tuple[tf.Tensor, tf.Tensor]:
        fsa = ctc_fsa(tf.cast(targets, tf.int32), tf.cast(targets_seq_lens, tf.int32), blank=blank, label_loop=loop)
        return posteriors(scores, fsa, mask)

    kind = _Kind(logits_time_major, logits_normalize, grad_wrt_softmax_in, bool(zero_infinity))
    return _loss(align, logits, logits_seq_lens, kind, blank_index)


def ctc_loss_viterbi(
    *,
    logits: tf.Tensor,
    logits_seq_lens: tf.Tensor,
    logits_time_major: bool,
    targets: tf.Tensor,
    targets_seq_lens: tf.Tensor,
    blank_index: int = -1,
    label_loop: bool = True,
    logits_normalize: bool = True,
    grad_wrt_softmax_in: bool = True,
    zero_infinity: bool | None = None,
) -> tf.Tensor:
    """
    The same for the best alignment in place of all of them. See `ctc_loss` for the arguments.

    :return: (B,)
    """

    def align(scores: tf.Tensor, mask: tf.Tensor, blank: Any) -> tuple[tf.Tensor, tf.Tensor]:
        lengths = tf.cast(targets_seq_lens, tf.int32)
        fsa = ctc_fsa(tf.cast(targets, tf.int32), lengths, blank=blank, label_loop=label_loop)
        labels, total = best_paths(scores, fsa, mask)
        is_frame = tf.cast(mask & tf.math.is_finite(total), scores.dtype)
        return tf.one_hot(labels, tf.shape(scores)[-1], dtype=scores.dtype) * is_frame[..., None], total

    kind = _Kind(logits_time_major, logits_normalize, grad_wrt_softmax_in, bool(zero_infinity))
    return _loss(align, logits, logits_seq_lens, kind, blank_index)


@dataclass(frozen=True)
class _Kind:
    """What a loss is computed from, and how."""

    is_time_major: bool
    is_normalized_here: bool
    has_gradient_of_softmax: bool
    is_zero_for_infinity: bool


def _loss(
    align: Callable[[tf.Tensor, tf.Tensor, Any], tuple[tf.Tensor, tf.Tensor]],
    logits: tf.Tensor,
    lengths: tf.Tensor,
    kind: _Kind,
    blank: int,
) -> tf.Tensor:
    """
    :param align: function from log probabilities (T, B, F), mask (T, B) and the label of blank to probabilities
        (T, B, F) of each label, and log probability (B,)
    :param logits: (T, B, F) or (B, T, F)
    :param lengths: (B,)
    :param kind: see there
    :param blank: its label, from the end if it is negative
    :return: (B,)
    """

    @tf.custom_gradient
    def loss(logits: tf.Tensor) -> Any:
        scores = logits if kind.is_time_major else tf.transpose(logits, [1, 0, 2])
        scores = tf.nn.log_softmax(scores) if kind.is_normalized_here else scores
        mask = _mask(lengths, scores)
        occupied, total = align(scores, mask, tf.shape(scores)[-1] + blank if blank < 0 else blank)
        has_path = tf.math.is_finite(total)
        value = tf.where(has_path, -total, 0.0) if kind.is_zero_for_infinity else -total

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            of_softmax = kind.has_gradient_of_softmax or kind.is_normalized_here
            difference = (tf.exp(scores) if of_softmax else tf.zeros_like(scores)) - occupied
            counts = mask & has_path if kind.is_zero_for_infinity else mask
            out = tf.where(counts[..., None], difference, 0.0) * upstream[:, None]
            return out if kind.is_time_major else tf.transpose(out, [1, 0, 2])

        return value, gradient

    return loss(logits)


def _mask(lengths: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """:return: (T, B)"""
    return tf.transpose(tf.sequence_mask(lengths, maxlen=tf.shape(scores)[0]))
