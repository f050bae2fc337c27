"""
Sums and maxima over all paths of a frame sequence through a finite state automaton, on raw tensors.

The automata of all sequences of a batch are one graph. An edge has a label, which is the class whose score a frame
adds when the path takes the edge.

The kernels of `returnn.native` do it where there are some; the loops of TensorFlow here are the same otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import tensorflow as tf

from returnn.tf.frontend_low_level.kernels import alignments

_NEVER = -1e30  # log probability of what is impossible; not infinite, so that differences are no NaN


@dataclass(frozen=True)
class Fsa:
    """Automata for a batch. Weights are log probabilities."""

    source: tf.Tensor  # (edges,), state
    target: tf.Tensor  # (edges,), state
    label: tf.Tensor  # (edges,), class
    sequence: tf.Tensor  # (edges,), index in the batch
    weight: tf.Tensor  # (edges,)
    start: tf.Tensor  # (states,), 0 for start states, -1e30 otherwise
    end: tf.Tensor  # (states,), 0 for end states, -1e30 otherwise
    sequence_of_state: tf.Tensor  # (states,), index in the batch
    goes_beyond_classes: bool = False  # a label beyond the classes is one of the next sequence, as in memory

    def tensors(self) -> dict[str, tf.Tensor]:
        """:return: all of them, by name, as the kernels take them"""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "goes_beyond_classes"}

    def with_dtype(self, dtype: tf.DType) -> Fsa:
        """:return: the same, with log probabilities of this dtype"""
        scores = {name: tf.cast(getattr(self, name), dtype) for name in ("weight", "start", "end")}
        return replace(self, **scores)


def fsa_of_edges(edges: tf.Tensor, weights: tf.Tensor, start_end_states: tf.Tensor) -> Fsa:
    """
    :param edges: (4, edges): state from, state to, label, index in the batch
    :param weights: (edges,), negative log probabilities
    :param start_end_states: (2, B): state of each sequence before its first, and behind its last frame
    """
    source, target, label, sequence = tf.unstack(edges, axis=0)
    known = tf.concat([source, target, start_end_states[0], start_end_states[1]], axis=0)  # states, in any order
    state = tf.range(tf.reduce_max(known) + 1)
    own = tf.range(tf.shape(start_end_states)[1])
    batch = tf.math.unsorted_segment_max(tf.concat([sequence, sequence, own, own], axis=0), known, tf.size(state))
    batch = tf.maximum(batch, 0)  # of a state that nothing leads to
    is_start = tf.reduce_any(tf.equal(state[:, None], start_end_states[0][None]), axis=1)
    is_end = tf.reduce_any(tf.equal(state[:, None], start_end_states[1][None]), axis=1)
    return Fsa(source, target, label, sequence, -weights, _log_of(is_start), _log_of(is_end), batch)


def ctc_fsa(
    targets: tf.Tensor, lengths: tf.Tensor, *, blank: int | tf.Tensor, label_loop: bool = True, blank_loop: bool = True
) -> Fsa:
    """
    Automata in which blank can come before, between and behind the labels. States: blank, label, blank, label, ...

    :param targets: (B, S), labels
    :param lengths: (B,)
    :param blank: its class
    :param label_loop: CTC: a label can last several frames, and blank has to stand between two equal ones; otherwise
        each label is exactly one frame, as in RNA
    :param blank_loop: blank can last several frames
    """
    batch, size = tf.unstack(tf.shape(targets))
    num = 2 * size + 1
    position = tf.range(num)
    is_label = tf.broadcast_to(tf.equal(position % 2, 1)[None], [batch, num])
    padded = tf.pad(targets, [[0, 0], [0, 1]])
    label = tf.where(is_label, tf.gather(padded, position // 2, axis=1), blank)
    valid = position[None] < 2 * lengths[:, None] + 1
    before = tf.pad(label, [[0, 0], [2, 0]])[:, :num]
    can_skip = (
        is_label & (position[None] >= 2) & (tf.not_equal(label, before) if label_loop else tf.ones_like(is_label))
    )
    can_stay = tf.where(is_label, label_loop, blank_loop)
    state = tf.range(batch)[:, None] * num + position[None]
    sequence = tf.broadcast_to(tf.range(batch)[:, None], [batch, num])
    kinds = [(0, can_stay), (1, tf.broadcast_to(position[None] >= 1, [batch, num])), (2, can_skip)]
    edges = [
        [tf.boolean_mask(x, allowed & valid) for x in (state - step, state, label, sequence)] for step, allowed in kinds
    ]
    source, target, labels, sequences = (tf.concat(parts, axis=0) for parts in zip(*edges, strict=True))
    # Before the first frame, a path is in the first blank, from where blank or the first label can follow.
    start = tf.broadcast_to(tf.equal(position[None], 0), [batch, num])
    last = 2 * lengths[:, None]
    end = tf.equal(position[None], last) | (tf.equal(position[None], last - 1))
    return Fsa(
        source,
        target,
        labels,
        sequences,
        tf.zeros(tf.shape(source)),
        _log_of(tf.reshape(start, [-1])),
        _log_of(tf.reshape(end, [-1])),
        tf.reshape(sequence, [-1]),
    )


def staircase_fsa(lengths: tf.Tensor) -> Fsa:
    """
    Automata which go through the classes 0, 1, 2, ... in this order, each for at least one frame. If there are fewer
    classes, those of the next sequence follow, as recorded: there should be as many as the longest sequence has frames.

    :param lengths: (B,), number of classes of each sequence
    """
    batch, size = tf.shape(lengths)[0], tf.reduce_max(lengths)
    position, num = tf.range(size + 1), size + 1  # one state before the first frame
    shape = [batch, num]
    state = tf.range(batch)[:, None] * num + position[None]
    label = tf.broadcast_to(position[None] - 1, shape)
    sequence = tf.broadcast_to(tf.range(batch)[:, None], shape)
    valid = (position[None] >= 1) & (position[None] <= lengths[:, None])
    edges = [[tf.boolean_mask(x, valid) for x in (state - step, state, label, sequence)] for step in (0, 1)]
    source, target, labels, sequences = (tf.concat(parts, axis=0) for parts in zip(*edges, strict=True))
    start = tf.broadcast_to(tf.equal(position[None], 0), shape)
    end = tf.equal(position[None], lengths[:, None])
    return Fsa(
        source,
        target,
        labels,
        sequences,
        tf.zeros(tf.shape(source)),
        _log_of(tf.reshape(start, [-1])),
        _log_of(tf.reshape(end, [-1])),
        tf.reshape(sequence, [-1]),
        goes_beyond_classes=True,
    )


def posteriors(scores: tf.Tensor, fsa: Fsa, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """
    The algorithm of Baum and Welch.

    :param scores: (T, B, F), log probability of each class in each frame
    :param fsa: the automata
    :param mask: (T, B), whether the frame is part of the sequence
    :return: (T, B, F): probability of each class in each frame, over all paths, 0 for padded frames and where there is
        no path; (B,): log of the sum over all paths, -inf if there is none. No gradient
    """
    scores = tf.stop_gradient(scores)
    if not fsa.goes_beyond_classes:
        found = alignments.automaton_posteriors(scores, mask, **fsa.tensors())
        if found is not None:
            return found
    return _posteriors_by_loop(scores, fsa, mask)


def _posteriors_by_loop(scores: tf.Tensor, fsa: Fsa, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    fsa = fsa.with_dtype(scores.dtype)
    batch, num_classes = tf.unstack(tf.shape(scores)[1:])
    edge_scores = _edge_scores(scores, fsa)
    forward = _forward(edge_scores, fsa, mask, _segment_logsumexp)
    total = _segment_logsumexp(forward[-1] + fsa.end, fsa.sequence_of_state, batch)
    is_possible = total > _NEVER / 2
    slot = tf.minimum(fsa.sequence * num_classes + fsa.label, batch * num_classes)

    def step(state: tuple[tf.Tensor, tf.Tensor], frame: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, tf.Tensor]:
        beta, _ = state
        alpha, edge_score, is_valid = frame
        after = edge_score + tf.gather(beta, fsa.target)
        path = tf.exp(tf.gather(alpha, fsa.source) + after - tf.gather(total, fsa.sequence))
        occupied = tf.math.unsorted_segment_sum(path, slot, batch * num_classes + 1)[:-1]
        occupied = tf.where((is_valid & is_possible)[:, None], tf.reshape(occupied, [batch, num_classes]), 0.0)
        occupied.set_shape(scores.shape[1:])
        new = _segment_logsumexp(after, fsa.source, tf.shape(beta)[0])
        return tf.where(tf.gather(is_valid, fsa.sequence_of_state), new, beta), occupied

    first = (fsa.end, tf.zeros([batch, num_classes], dtype=scores.dtype))
    first[1].set_shape(scores.shape[1:])
    _, occupied = tf.scan(step, (forward[:-1], edge_scores, mask), initializer=first, reverse=True)
    occupied.set_shape(scores.shape)
    return occupied, _or_impossible(total)


def best_paths(scores: tf.Tensor, fsa: Fsa, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """
    The algorithm of Viterbi.

    :param scores: (T, B, F), log probability of each class in each frame
    :param fsa: the automata
    :param mask: (T, B), whether the frame is part of the sequence
    :return: (T, B): class in each frame, 0 for padded frames, any if there is no path; (B,): log probability, -inf if
        there is no path. No gradient
    """
    scores = tf.stop_gradient(scores)
    if not fsa.goes_beyond_classes:
        found = alignments.automaton_best_paths(scores, mask, **fsa.tensors())
        if found is not None:
            return found
    return _best_paths_by_loop(scores, fsa, mask)


def _best_paths_by_loop(scores: tf.Tensor, fsa: Fsa, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    fsa = fsa.with_dtype(scores.dtype)
    batch = tf.shape(scores)[1]
    edge_scores = _edge_scores(scores, fsa)
    forward = _forward(edge_scores, fsa, mask, tf.math.unsorted_segment_max)
    at_end = forward[-1] + fsa.end
    total = tf.math.unsorted_segment_max(at_end, fsa.sequence_of_state, batch)
    state = _one_of_the_best(at_end, fsa.sequence_of_state, total, batch)

    def step(before: tuple[tf.Tensor, tf.Tensor], frame: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, tf.Tensor]:
        state, _ = before
        alpha, edge_score, is_valid = frame
        arriving = tf.gather(alpha, fsa.source) + edge_score
        best = tf.math.unsorted_segment_max(arriving, fsa.target, tf.shape(alpha)[0])
        edge = tf.gather(_one_of_the_best(arriving, fsa.target, best, tf.shape(alpha)[0]), state)
        edge = tf.maximum(edge, 0)
        label = tf.where(is_valid, tf.gather(fsa.label, edge), 0)
        return tf.where(is_valid, tf.gather(fsa.source, edge), state), label

    first = (state, tf.zeros([batch], tf.int32))
    _, labels = tf.scan(step, (forward[:-1], edge_scores, mask), initializer=first, reverse=True)
    labels.set_shape(scores.shape[:2])
    return labels, _or_impossible(total)


def _log_of(flag: tf.Tensor) -> tf.Tensor:
    return tf.where(flag, 0.0, _NEVER)


def _or_impossible(total: tf.Tensor) -> tf.Tensor:
    """:return: log probability, -inf where it is that of no path"""
    return tf.where(total > _NEVER / 2, total, tf.constant(-float("inf"), total.dtype))


def _edge_scores(scores: tf.Tensor, fsa: Fsa) -> tf.Tensor:
    """:return: (T, edges). A label beyond the classes is one of the next sequence, as in memory"""
    num_classes, slots = tf.shape(scores)[2], tf.reshape(scores, [tf.shape(scores)[0], -1])
    index = fsa.sequence * num_classes + fsa.label
    return tf.gather(slots, tf.minimum(index, tf.shape(slots)[1] - 1), axis=1) + fsa.weight


def _forward(edge_scores: tf.Tensor, fsa: Fsa, mask: tf.Tensor, combine: Callable[..., tf.Tensor]) -> tf.Tensor:
    """:return: (T + 1, states), before the first and after each frame"""

    def step(alpha: tf.Tensor, frame: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        edge_score, is_valid = frame
        new = combine(tf.gather(alpha, fsa.source) + edge_score, fsa.target, tf.shape(alpha)[0])
        return tf.where(tf.gather(is_valid, fsa.sequence_of_state), tf.maximum(new, _NEVER), alpha)

    after = tf.scan(step, (edge_scores, mask), initializer=fsa.start)
    return tf.concat([fsa.start[None], after], axis=0)


def _segment_logsumexp(x: tf.Tensor, segments: tf.Tensor, num: tf.Tensor) -> tf.Tensor:
    """:return: (num,): log of the sum of exp(x) in each segment; -1e30 if there is nothing in it"""
    largest = tf.maximum(tf.math.unsorted_segment_max(x, segments, num), _NEVER)
    total = tf.math.unsorted_segment_sum(tf.exp(x - tf.gather(largest, segments)), segments, num)
    return tf.maximum(largest + tf.math.log(tf.maximum(total, 1e-38)), _NEVER)


def _one_of_the_best(x: tf.Tensor, segments: tf.Tensor, best: tf.Tensor, num: tf.Tensor) -> tf.Tensor:
    """:return: (num,): in each segment, index of an entry that has the best value"""
    is_best = x >= tf.gather(best, segments)
    return tf.math.unsorted_segment_max(tf.where(is_best, tf.range(tf.size(x)), -1), segments, num)
