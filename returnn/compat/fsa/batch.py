"""
Automata for all sequences of a batch, as the Baum-Welch and Viterbi algorithms take them.

States are numbered over the whole batch, the automaton of one sequence after the other. A path takes one edge per
frame. Weights are negative log probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy
import numpy.typing

from returnn.util.errors import UserError

IntArray = numpy.typing.NDArray[numpy.int32]
FloatArray = numpy.typing.NDArray[numpy.float32]


class FastBaumWelchBatchFsa:
    """Automata of a batch."""

    def __init__(self, edges: IntArray, weights: FloatArray, start_end_states: IntArray) -> None:
        """
        :param edges: (4, num_edges): state from, state to, label, index in the batch
        :param weights: (num_edges,)
        :param start_end_states: (2, num_batch): the first and the last state of each sequence
        :raises UserError: if the shapes do not fit
        """
        if edges.ndim != 2 or edges.shape[0] != 4 or weights.shape != (edges.shape[1],):
            raise UserError(f"automata: edges have to be (4, N) and weights (N,), not {edges.shape}, {weights.shape}.")
        if start_end_states.ndim != 2 or start_end_states.shape[0] != 2:
            raise UserError(f"automata: start and end states have to be (2, B), not {start_end_states.shape}.")
        self.num_batch = start_end_states.shape[1]
        self.num_edges = edges.shape[1]
        self.edges = edges
        self.weights = weights
        self.start_end_states = start_end_states

    def __repr__(self) -> str:
        return f"<{type(self).__name__} num_batch={self.num_batch} num_edges={self.num_edges}>"


class _Edge(NamedTuple):
    source: int
    target: int
    label: int
    weight: float


class FastBwFsaShared:
    """One automaton, which all sequences of a batch have. Its first state is 0, its last one has the largest number."""

    def __init__(self) -> None:
        self.num_states = 1
        self.edges: list[_Edge] = []

    def add_edge(self, source_state_idx: int, target_state_idx: int, emission_idx: int, weight: float = 0.0) -> None:
        """
        :param source_state_idx: from here
        :param target_state_idx: to there
        :param emission_idx: label
        :param weight: negative log probability
        """
        self.edges.append(_Edge(source_state_idx, target_state_idx, emission_idx, weight))
        self.num_states = max(self.num_states, source_state_idx + 1, target_state_idx + 1)

    def add_inf_loop(self, state_idx: int, num_emission_labels: int) -> None:
        """
        Stays in a state with any label.

        :param state_idx: the state
        :param num_emission_labels: labels are those below it
        """
        for label in range(num_emission_labels):
            self.add_edge(state_idx, state_idx, label)

    def get_num_edges(self, n_batch: int) -> int:
        """:return: number of edges for so many sequences"""
        return len(self.edges) * n_batch

    def get_edges(self, n_batch: int) -> IntArray:
        """:return: (4, num_edges)"""
        own = numpy.array([edge[:3] for edge in self.edges], dtype="int32").reshape(-1, 3)
        first_state = numpy.arange(n_batch, dtype="int32") * self.num_states
        parts = [numpy.stack([*(own[:, :2] + first).T, own[:, 2], numpy.full(len(own), index)])
                 for index, first in enumerate(first_state)]  # fmt: skip
        return numpy.concatenate(parts, axis=1).astype("int32") if parts else numpy.zeros((4, 0), "int32")

    def get_weights(self, n_batch: int) -> FloatArray:
        """:return: (num_edges,)"""
        return numpy.tile(numpy.array([edge.weight for edge in self.edges], dtype="float32"), n_batch)

    def get_start_end_states(self, n_batch: int) -> IntArray:
        """:return: (2, n_batch)"""
        first = numpy.arange(n_batch, dtype="int32") * self.num_states
        return numpy.stack([first, first + self.num_states - 1])

    def get_fast_bw_fsa(self, n_batch: int) -> FastBaumWelchBatchFsa:
        """:return: for so many sequences"""
        return FastBaumWelchBatchFsa(
            self.get_edges(n_batch), self.get_weights(n_batch), self.get_start_end_states(n_batch)
        )


def fast_bw_fsa_staircase(
    seq_lens: Sequence[int] | IntArray,
    with_loop: bool = False,
    max_skip: int | None = None,
    start_max_skip: int | None = None,
    end_max_skip: int | None = None,
) -> FastBaumWelchBatchFsa:
    """
    Automata which go through the labels 0, 1, 2, ... in this order.

    :param seq_lens: (B,), number of labels of each sequence
    :param with_loop: a label can stay for several frames
    :param max_skip: so many labels can be left out between two others
    :param start_max_skip: and so many before the first one. Default: `max_skip`
    :param end_max_skip: and so many behind the last one. Default: `max_skip`
    """
    between = max_skip or 0
    at_start = between if start_max_skip is None else start_max_skip
    at_end = between if end_max_skip is None else end_max_skip
    return _joined([_staircase(int(size), with_loop, between, at_start, at_end) for size in seq_lens])


def _staircase(size: int, with_loop: bool, between: int, at_start: int, at_end: int) -> FastBwFsaShared:
    """:return: automaton whose state `i + 1` says that label `i` was the last one"""
    fsa = FastBwFsaShared()
    fsa.num_states = size + 1
    for label in range(size):
        before = [0] if label <= at_start else []
        before += range(max(1, label - between), label + 1)
        if with_loop:
            before.append(label + 1)
        for source in before:
            fsa.add_edge(source, label + 1, label)
            if label < size - 1 and size - 1 - label <= at_end:
                fsa.add_edge(source, size, label)
    return fsa


def get_ctc_fsa_fast_bw(
    *, targets: IntArray, seq_lens: Sequence[int] | IntArray, blank_idx: int, label_loop: bool = True
) -> FastBaumWelchBatchFsa:
    """
    Automata of Graves et al. 2006, "Connectionist temporal classification": blank can come before, between and behind
    the labels, and has to come between two equal ones.

    :param targets: (B, S), labels
    :param seq_lens: (B,)
    :param blank_idx: label of blank
    :param label_loop: a label can stay for several frames. Otherwise, blank need not come between equal ones
    """
    sequences = [row[:size] for row, size in zip(numpy.asarray(targets), seq_lens, strict=True)]
    return _joined([_ctc([int(label) for label in labels], blank_idx, label_loop) for labels in sequences])


def _ctc(labels: list[int], blank: int, label_loop: bool) -> FastBwFsaShared:
    """
    :return: automaton with a state before all frames, one for each place in `blank, label, blank, label, ..., blank`,
        and one into which each edge leads as well which can be the last one
    """
    places = [blank]
    for label in labels:
        places += [label, blank]
    end = len(places) + 1
    last_places = {len(places) - 1, max(len(places) - 2, 0)}
    fsa = FastBwFsaShared()
    fsa.num_states = end + 1
    for place, label in enumerate(places):
        is_blank = place % 2 == 0
        before = [place - 1]
        if is_blank or label_loop:
            before.append(place)
        if place >= 3 and not is_blank and (labels[place // 2 - 1] != label or not label_loop):
            before.append(place - 2)
        sources = [source + 1 for source in before] + ([0] if place == 1 else [])
        for source in sources:
            fsa.add_edge(source, place + 1, label)
            if place in last_places:
                fsa.add_edge(source, end, label)
    return fsa


def _joined(automata: Sequence[FastBwFsaShared]) -> FastBaumWelchBatchFsa:
    edges, weights, ends, first = [], [], [], 0
    for index, fsa in enumerate(automata):
        own = fsa.get_edges(1)
        edges.append(own + numpy.array([[first], [first], [0], [index]], dtype="int32"))
        weights.append(fsa.get_weights(1))
        ends.append((first, first + fsa.num_states - 1))
        first += fsa.num_states
    if not automata:
        return FastBaumWelchBatchFsa(
            numpy.zeros((4, 0), "int32"), numpy.zeros((0,), "float32"), numpy.zeros((2, 0), "int32")
        )
    return FastBaumWelchBatchFsa(
        numpy.concatenate(edges, axis=1), numpy.concatenate(weights), numpy.array(ends, dtype="int32").T
    )
