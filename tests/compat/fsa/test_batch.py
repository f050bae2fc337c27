"""Automata of a batch against the sequences that they are to accept."""

import itertools

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from returnn.util.errors import UserError
from returnn.util.fsa import FastBaumWelchBatchFsa, FastBwFsaShared, fast_bw_fsa_staircase, get_ctc_fsa_fast_bw


def accepted(fsa, index, num_frames):
    """:return: the label sequences of this length which the automaton accepts, with their number of paths"""
    edges = [edge for edge in fsa.edges.T.tolist() if edge[3] == index]
    start, end = fsa.start_end_states[:, index].tolist()
    paths = {(start, ()): 1}
    for _ in range(num_frames):
        longer = {}
        for (state, labels), count in paths.items():
            for source, target, label, _ in edges:
                if source == state:
                    key = (target, (*labels, label))
                    longer[key] = longer.get(key, 0) + count
        paths = longer
    return {labels: count for (state, labels), count in paths.items() if state == end}


def collapsed(labels, blank):
    return [label for label, _ in itertools.groupby(labels) if label != blank]


@given(st.lists(st.lists(st.integers(0, 1), max_size=3), min_size=1, max_size=3), st.integers(1, 4))
def test_ctc_accepts_what_becomes_the_labels(sequences, num_frames):
    targets = numpy.zeros((len(sequences), 3), "int32")
    for i, labels in enumerate(sequences):
        targets[i, : len(labels)] = labels
    fsa = get_ctc_fsa_fast_bw(targets=targets, seq_lens=[len(labels) for labels in sequences], blank_idx=2)
    for i, labels in enumerate(sequences):
        expected = [x for x in itertools.product(range(3), repeat=num_frames) if collapsed(x, 2) == labels]
        assert accepted(fsa, i, num_frames) == dict.fromkeys(expected, 1)


def test_ctc_without_loops_of_labels():
    fsa = get_ctc_fsa_fast_bw(targets=numpy.array([[0, 0]]), seq_lens=[2], blank_idx=1, label_loop=False)
    assert set(accepted(fsa, 0, 3)) == {(0, 0, 1), (0, 1, 0), (1, 0, 0)}
    assert set(accepted(fsa, 0, 2)) == {(0, 0)}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {3: {(0, 1, 2)}, 4: set()}),
        ({"with_loop": True}, {3: {(0, 1, 2)}, 4: {(0, 0, 1, 2), (0, 1, 1, 2), (0, 1, 2, 2)}}),
        ({"max_skip": 1, "start_max_skip": 0, "end_max_skip": 0}, {2: {(0, 2)}, 3: {(0, 1, 2)}}),
        ({"start_max_skip": 2}, {1: {(2,)}, 2: {(1, 2)}}),
        ({"end_max_skip": 1}, {1: set(), 2: {(0, 1)}, 3: {(0, 1, 2)}}),
        ({"max_skip": 1}, {1: {(1,)}, 2: {(0, 2), (1, 2), (0, 1)}, 3: {(0, 1, 2)}}),
    ],
    ids=str,
)
def test_staircase(options, expected):
    fsa = fast_bw_fsa_staircase([2, 3], **options)
    for num_frames, labels in expected.items():
        assert set(accepted(fsa, 1, num_frames)) == labels


def test_shared_automaton():
    shared = FastBwFsaShared()
    shared.add_edge(0, 1, emission_idx=4, weight=0.5)
    shared.add_inf_loop(1, num_emission_labels=2)
    fsa = shared.get_fast_bw_fsa(2)
    assert shared.get_num_edges(2) == fsa.num_edges == 6
    assert fsa.num_batch == 2
    assert fsa.start_end_states.tolist() == [[0, 2], [1, 3]]
    assert fsa.weights.tolist() == [0.5, 0, 0] * 2
    for index in range(2):
        assert set(accepted(fsa, index, 2)) == {(4, 0), (4, 1)}


def test_shapes_have_to_fit():
    ends = numpy.zeros((2, 1), "int32")
    text = r"automata: edges have to be \(4, N\) and weights \(N,\), not \(4, 2\), \(1,\)"
    with pytest.raises(UserError, match=text):
        FastBaumWelchBatchFsa(numpy.zeros((4, 2), "int32"), numpy.zeros((1,), "float32"), ends)
    with pytest.raises(UserError, match=r"automata: start and end states have to be \(2, B\), not \(1, 1\)"):
        FastBaumWelchBatchFsa(numpy.zeros((4, 1), "int32"), numpy.zeros((1,), "float32"), ends[:1])
