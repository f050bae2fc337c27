"""Sums and maxima over paths, against an enumeration of all paths."""

import itertools
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy
import pytest
import tensorflow as tf

from returnn.tf.util.losses.fsa import best_paths, ctc_fsa, fsa_of_edges, posteriors, staircase_fsa

TARGETS, TARGET_LENGTHS, LENGTHS, BLANK = [[0, 0, 1], [2, 1, 0]], [2, 2], [4, 3], 3


def all_paths(length, labels, label_loop):
    for path in itertools.product(range(4), repeat=length):
        kept = [k for i, k in enumerate(path) if not (label_loop and i and k == path[i - 1])]
        if [k for k in kept if k != BLANK] == labels:
            yield path


@pytest.fixture(params=["kernels", "loops"], autouse=True)
def implementation(request, monkeypatch):
    monkeypatch.setenv("RETURNN_NATIVE", str(int(request.param == "kernels")))


@pytest.fixture(scope="module")
def scores():
    raw = numpy.random.RandomState(1).normal(size=(4, 2, 4))
    return (raw - numpy.log(numpy.exp(raw).sum(-1, keepdims=True))).astype("float32")


@pytest.mark.parametrize("label_loop", [True, False])
def test_sum_and_maximum_are_those_of_all_paths(scores, label_loop):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        fsa = ctc_fsa(tf.constant(TARGETS), tf.constant(TARGET_LENGTHS), blank=BLANK, label_loop=label_loop)
        mask = tf.transpose(tf.sequence_mask(LENGTHS))
        (soft, total), (best, best_score) = session.run(
            [posteriors(tf.constant(scores), fsa, mask), best_paths(tf.constant(scores), fsa, mask)]
        )
    for b, (length, labels) in enumerate(zip(LENGTHS, ([0, 0], [2, 1]), strict=True)):
        paths = list(all_paths(length, labels, label_loop))
        log_probs = numpy.array([sum(scores[t, b, k] for t, k in enumerate(path)) for path in paths])
        expected = numpy.zeros((length, 4))
        for path, log_prob in zip(paths, log_probs, strict=True):
            expected[numpy.arange(length), path] += numpy.exp(log_prob)
        numpy.testing.assert_allclose(total[b], numpy.log(numpy.exp(log_probs).sum()), rtol=1e-4)
        numpy.testing.assert_allclose(soft[:length, b], expected / numpy.exp(log_probs).sum(), rtol=1e-3, atol=1e-5)
        numpy.testing.assert_allclose(best_score[b], log_probs.max(), rtol=1e-5)
        assert tuple(best[:length, b]) == paths[log_probs.argmax()]
        assert not soft[length:, b].any()


def test_no_path_has_no_probability(scores):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        fsa = ctc_fsa(tf.constant([[0, 0, 0], [0, 0, 0]]), tf.constant([3, 1]), blank=BLANK)
        (soft, total), (_, best) = session.run(
            [f(tf.constant(scores), fsa, tf.ones([4, 2], tf.bool)) for f in (posteriors, best_paths)]
        )
    assert total[0] == best[0] == -numpy.inf
    assert numpy.isfinite([total[1], best[1]]).all()
    assert not soft[:, 0].any()
    numpy.testing.assert_allclose(soft[:, 1].sum(axis=-1), 1.0, rtol=1e-4)


def test_staircase_goes_through_all_classes(scores):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        mask = tf.transpose(tf.sequence_mask(LENGTHS))
        best, _ = session.run(best_paths(tf.constant(scores), staircase_fsa(tf.constant([4, 2])), mask))
    assert best[:, 0].tolist() == [0, 1, 2, 3]
    assert best[:3, 1].tolist() in ([0, 0, 1], [0, 1, 1])


def test_automata_can_be_given_as_edges(scores):
    # One sequence: label 0 once or more, then label 1.
    edges = [[0, 1, 1], [1, 1, 2], [0, 0, 1], [0, 0, 0]]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        fsa = fsa_of_edges(tf.constant(edges), tf.constant([0.0, 0.5, 0.0]), tf.constant([[0], [2]]))
        soft, total = session.run(posteriors(tf.constant(scores[:3, :1]), fsa, tf.ones([3, 1], tf.bool)))
    expected = scores[0, 0, 0] + scores[1, 0, 0] - 0.5 + scores[2, 0, 1]
    numpy.testing.assert_allclose(total, [expected], rtol=1e-5)
    numpy.testing.assert_allclose(soft[:, 0], [[1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]], atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_states_of_edges_can_have_any_numbers(scores, seed):
    """What an automaton means does not depend on how its states are numbered, nor on the order of its edges."""
    random = numpy.random.RandomState(seed)
    edges = numpy.array([[0, 1, 1, 3, 3], [1, 1, 2, 3, 4], [0, 0, 1, 2, 3], [0, 0, 0, 1, 1]])
    weights, ends = numpy.array([0.0, 0.5, 0.0, 0.1, 0.2], "float32"), numpy.array([[0, 3], [2, 4]])
    number, order = random.permutation(5), random.permutation(5)
    renamed = numpy.concatenate([number[edges[:2]], edges[2:]])[:, order]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        mask = tf.transpose(tf.sequence_mask(LENGTHS))
        automata = [
            fsa_of_edges(tf.constant(e, tf.int32), tf.constant(w), tf.constant(s, tf.int32))
            for e, w, s in ((edges, weights, ends), (renamed, weights[order], number[ends]))
        ]
        wanted, found = session.run(
            [[f(tf.constant(scores), fsa, mask) for f in (posteriors, best_paths)] for fsa in automata]
        )
    for a, b in zip(tf.nest.flatten(wanted), tf.nest.flatten(found), strict=True):
        numpy.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)
    assert numpy.isfinite(found[0][1]).all()
