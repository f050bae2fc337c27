"""Prefix beam search against all paths (by numpy), and against the search in Python with the same beam."""

import itertools

import numpy
import pytest

from returnn.native.numpy_call import call_kernel
from returnn.util.errors import UserError
from returnn.util.numbers.ctc_search import CtcSearch
from tests.native import alignment_reference as reference
from tests.native.kernels import LEVELS, library
from tests.native.sanitized import run_sanitized


def random_case(num_frames, batch, classes, *, dtype="float32", scale=2.0, seed=1):
    """:return: (T, B, C), with NaN behind the ends; (B,)"""
    random = numpy.random.RandomState(seed)
    logits = random.normal(size=(num_frames, batch, classes), scale=scale).astype(dtype)
    lengths = random.randint(0, num_frames + 1, size=batch).astype("int32")
    lengths[:1] = num_frames
    for n in range(batch):
        logits[lengths[n] :, n] = numpy.nan
    return logits, lengths


def run_all(logits, lengths, *, beam_size, num_best, blank=None, level=None, threads=1):
    """:return: labels of each hypothesis of each sequence; scores; all is checked to be 0 behind the labels"""
    wanted = numpy.zeros([num_best], "int32")
    inputs = {"logits": logits.transpose(1, 0, 2), "num_frames": lengths, "wanted": wanted}
    blank = logits.shape[2] - 1 if blank is None else blank
    options = {"blank": blank, "beam_size": beam_size}
    results = call_kernel(library(level).kernels["ctc_beam_search"], inputs, threads=threads, **options)
    found = []
    for beam, lengths_of_beam in zip(results["labels"], results["lengths"], strict=True):
        for row, length in zip(beam, lengths_of_beam, strict=True):
            assert not row[length:].any()
        found.append([row[:length].tolist() for row, length in zip(beam, lengths_of_beam, strict=True)])
    return found, results["score"]


def run(logits, lengths, **options):
    """:return: labels of the best hypothesis of each sequence; scores"""
    found, scores = run_all(logits, lengths, num_best=1, **options)
    return [beam[0] for beam in found], scores[:, 0]


def of_all_paths(log_probs, blank):
    """:return: by labels, the log probability of all paths"""
    totals = {}
    for path in itertools.product(range(log_probs.shape[1]), repeat=len(log_probs)):
        merged = [c for i, c in enumerate(path) if i == 0 or path[i - 1] != c]
        labels = tuple(c for c in merged if c != blank)
        score = sum(log_probs[t, c] for t, c in enumerate(path))
        totals[labels] = numpy.logaddexp(totals.get(labels, -numpy.inf), score)
    return totals


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("blank", [0, 1, 3])
def test_a_large_beam_has_all_paths(level, dtype, blank):
    logits, lengths = random_case(5, 6, 4, dtype=dtype, scale=1.0)
    found, scores = run(logits, lengths, beam_size=2000, blank=blank, level=level)
    for n, length in enumerate(lengths):
        totals = of_all_paths(reference.log_softmax(logits[:length, n].astype(float)), blank)
        assert tuple(found[n]) == max(totals, key=totals.get)
        numpy.testing.assert_allclose(scores[n], max(totals.values()), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("beam_size", [1, 2, 3, 10, 40])
@pytest.mark.parametrize(
    ("num_frames", "classes", "scale"), [(30, 3, 1.0), (30, 20, 1.0), (25, 200, 4.0), (40, 6, 0.3)]
)
def test_the_same_as_in_python(level, beam_size, num_frames, classes, scale):
    logits, lengths = random_case(num_frames, 4, classes, scale=scale, dtype="float64")
    found, scores = run(logits, lengths, beam_size=beam_size, level=level)
    for n, length in enumerate(lengths):
        log_probs = reference.log_softmax(logits[:length, n]) if length else numpy.zeros((0, classes))
        labels, score = CtcSearch(beam_size).best(log_probs)[0]
        assert found[n] == list(labels)
        numpy.testing.assert_allclose(scores[n], score, rtol=1e-11)


@pytest.mark.parametrize("beam_size", [3, 10])
def test_the_same_hypotheses_as_in_python(beam_size):
    logits, lengths = random_case(12, 5, 4, scale=1.0, dtype="float64")
    lengths[1] = 1
    found, scores = run_all(logits, lengths, beam_size=beam_size, num_best=beam_size)
    for n, length in enumerate(lengths):
        log_probs = reference.log_softmax(logits[:length, n]) if length else numpy.zeros((0, 4))
        expected = CtcSearch(beam_size).best(log_probs)
        assert [tuple(labels) for labels in found[n]] == [labels for labels, _ in expected] + [()] * (
            beam_size - len(expected)
        )
        numpy.testing.assert_allclose(scores[n][: len(expected)], [score for _, score in expected], rtol=1e-11)
        assert (scores[n][len(expected) :] < -1e29).all()


def test_a_prefix_comes_back_into_the_beam():
    # "a" leaves the beam in the second frame, where its continuation "ab" stays, and is reached again later
    random = numpy.random.RandomState(3)
    for seed in range(200):
        logits, lengths = random_case(12, 1, 3, scale=random.uniform(0.2, 3), seed=seed, dtype="float64")
        found, scores = run(logits, lengths, beam_size=2)
        labels, score = CtcSearch(2).best(reference.log_softmax(logits[:, 0]))[0]
        assert found[0] == list(labels)
        numpy.testing.assert_allclose(scores[0], score, rtol=1e-11)


def test_impossible_labels():
    logits, lengths = random_case(9, 2, 6, dtype="float64")
    logits[:, :, 2:4] = -numpy.inf
    found, scores = run(logits, lengths, beam_size=20)
    without = numpy.delete(logits, [2, 3], axis=2)
    expected, expected_scores = run(without, lengths, beam_size=20)
    assert [[{2: 4}.get(label, label) for label in labels] for labels in expected] == found
    numpy.testing.assert_allclose(scores, expected_scores)
    certain = numpy.full([3, 1, 4], -numpy.inf)
    certain[range(3), 0, [1, 3, 1]] = 0.0
    assert run(certain, numpy.array([3], "int32"), beam_size=5)[0] == [[1, 1]]


def test_strides_and_threads_change_nothing():
    logits, lengths = random_case(50, 7, 30)
    expected, expected_scores = run(logits, lengths, beam_size=12)
    found, scores = run(logits, lengths, beam_size=12, threads=3)
    assert found == expected
    numpy.testing.assert_array_equal(scores, expected_scores)
    wide = numpy.full([50, 7, 40], 100.0, "float32")
    wide[:, :, :30] = logits
    assert run(wide[:, :, :30], lengths, beam_size=12)[0] == expected


@pytest.mark.parametrize("sizes", [(0, 2, 3), (3, 0, 3), (4, 2, 1), (1, 1, 2)])
def test_nothing_there(sizes):
    found, scores = run(*random_case(*sizes), beam_size=4)
    assert len(found) == len(scores) == sizes[1]
    if sizes[0] == 0 or sizes[2] == 1:
        assert found == [[]] * sizes[1]
        numpy.testing.assert_array_equal(scores, 0)


def test_nan_is_no_crash():
    logits, lengths = random_case(6, 1, 5)
    logits[3] = numpy.nan
    _, scores = run(logits, lengths, beam_size=3)
    assert numpy.isnan(scores).all()


@pytest.mark.parametrize(
    ("options", "lengths", "message"),
    [
        ({"blank": 5}, [3, 3], "blank is not one of the classes"),
        ({"beam_size": 0}, [3, 3], "the beam has no place"),
        ({}, [4, 3], "a number of frames is below 0, or above that of the logits"),
        ({}, [-1, 3], "a number of frames is below 0, or above that of the logits"),
    ],
)
def test_wrong_values(options, lengths, message):
    logits = numpy.zeros([3, 2, 5], "float32")
    with pytest.raises(UserError, match=message):
        run(logits, numpy.array(lengths, "int32"), **{"beam_size": 3, **options})


@pytest.mark.slow
def test_memory(tmp_path):
    logits, lengths = random_case(20, 5, 9, scale=0.5)
    inputs = {"logits": logits.transpose(1, 0, 2), "num_frames": lengths, "wanted": numpy.zeros([9], "int32")}
    signature = library().kernels["ctc_beam_search"].signature
    run_sanitized("ctc_beam_search", signature, inputs, tmp_path, threads=2, blank=8, beam_size=7)
