"""Alignments and edit distances in numpy, one sequence and frame after the other, in float64 and log space.

Sums also take complex numbers, whose imaginary part is a derivative.
"""

from __future__ import annotations

import numpy

NO = -numpy.inf


def log_sum(values):
    values = numpy.array([value for value in values if numpy.real(value) > NO])
    if not len(values):
        return NO
    largest = values.real.max()
    return largest + numpy.log(numpy.exp(values - largest).sum())


def largest(values):
    return max(values, key=numpy.real, default=NO)


def log_softmax(x):
    shifted = x - x.real.max(axis=-1, keepdims=True)
    return shifted - numpy.log(numpy.exp(shifted).sum(axis=-1, keepdims=True))


def ctc_edges(labels, blank, label_loop):
    """:return: edges (from, to, class), start states, end states"""
    classes = [blank]
    for label in labels:
        classes += [label, blank]
    edges = []
    for s, label in enumerate(classes):
        is_label = s % 2 == 1
        if not is_label or label_loop:
            edges.append((s, s, label))
        if s:
            edges.append((s - 1, s, label))
        if is_label and s > 1 and not (label_loop and label == classes[s - 2]):
            edges.append((s - 2, s, label))
    return edges, [0], [len(classes) - 1, *([len(classes) - 2] if labels else [])]


def all_paths(scores, edges, weights, start, end, combine=log_sum):
    """
    :param scores: (T, F), log probabilities
    :param edges: (from, to, class)
    :param weights: of edges
    :param start: log probabilities of states
    :param end: the same
    :return: log probability of all paths, or the best one
    """
    alpha = list(start)
    for frame in scores:
        arriving = [[] for _ in alpha]
        for (source, target, label), weight in zip(edges, weights, strict=True):
            arriving[target].append(alpha[source] + frame[label] + weight)
        alpha = [combine(values) for values in arriving]
    return combine([a + e for a, e in zip(alpha, end, strict=True)])


def ctc(scores, labels, blank, *, label_loop, combine=log_sum):
    """:return: log probability"""
    edges, start, end = ctc_edges(labels, blank, label_loop)
    states = range(2 * len(labels) + 1)
    ends = [0.0 if s in end else NO for s in states]
    return all_paths(scores, edges, [0.0] * len(edges), [0.0 if s in start else NO for s in states], ends, combine)


def transducer(log_probs, labels, blank, *, monotonic):
    """
    :param log_probs: (T, U + 1, V)
    :return: log probability of all ways
    """
    num_frames = len(log_probs)
    alpha = {(0, 0): 0.0}
    for t in range(num_frames + 1):
        for u in range(len(labels) + 1):
            arriving = [alpha[0, 0]] if t == u == 0 else []
            if t:
                arriving.append(alpha[t - 1, u] + log_probs[t - 1, u, blank])
            if u and monotonic and t:
                arriving.append(alpha[t - 1, u - 1] + log_probs[t - 1, u - 1, labels[u - 1]])
            if u and not monotonic and t < num_frames:
                arriving.append(alpha[t, u - 1] + log_probs[t, u - 1, labels[u - 1]])
            alpha[t, u] = log_sum(arriving)
    return alpha[num_frames, len(labels)]


def next_row(row, label, b):
    """:return: row of the table of edit distances after one more label"""
    new = [row[0] + 1]
    for u, other in enumerate(b):
        new.append(min(row[u] + (label != other), row[u + 1] + 1, new[u] + 1))
    return new


def last_row(a, b):
    row = list(range(len(b) + 1))
    for label in a:
        row = next_row(row, label, b)
    return row
