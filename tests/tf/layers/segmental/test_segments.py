"""Segmental models, against an enumeration of all segmentations."""

import numpy
import pytest

from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of

WINDOW, CLASSES, LABELS = 3, 2, 5
NET = {
    "scores": {"class": "linear", "n_out": WINDOW * CLASSES, "activation": None, "from": "data"},
    "of_ids": {"class": "linear", "n_out": WINDOW * CLASSES, "activation": None, "from": "data:ids"},
    "best": {"class": "segment_alignment", "num_classes": CLASSES, "window": WINDOW, "from": "scores"},
    "segments": {"class": "classes_to_segments", "num_classes": LABELS, "window": WINDOW, "from": "data:ids"},
    "lengths": {"class": "classes_to_length_distribution", "window": WINDOW, "scale": 0.5, "from": "data:ids"},
    "all_lengths": {"class": "classes_to_length_distribution_global", "window": WINDOW, "from": "data:ids"},
    "applied": {"class": "apply_length_distribution", "length_model_scale": 2.0, "from": ["of_ids", "lengths"]},
    "windows": {"class": "segment_input", "window": WINDOW, "from": "data"},
    "back": {"class": "unsegment_input", "from": "windows"},
    "flat": {"class": "flatten_time", "from": "data"},
}  # fmt: skip
BATCH = batch_of(padding={"float32": 0.0, "int32": 0})
BATCH["ids"] //= 3  # so that labels stay


@pytest.fixture(scope="module")
def results():
    return LayerNet(NET).run(BATCH)


def segmentations(length):
    """:return: all ways to divide so many frames into segments with a class: lists of (first frame, length, class)"""
    if length == 0:
        yield []
    for last in range(1, min(WINDOW, length) + 1):
        for before in segmentations(length - last):
            for label in range(CLASSES):
                yield [*before, (length - last, last, label)]


def test_alignment_is_the_best_of_all_segmentations(results):
    for b, length in enumerate(LENGTHS):
        scores = results["scores"][b].reshape(-1, WINDOW, CLASSES)
        best = max(
            segmentations(length), key=lambda parts: sum(scores[t + n - 1, n - 1, label] for t, n, label in parts)
        )
        assert results["best"][b, :length].tolist() == [label for _, n, label in best for _ in range(n)]


def remaining(b, t):
    """:return: how many frames have the same label from this one on, at most `WINDOW`"""
    ids = BATCH["ids"][b, t : min(t + WINDOW, LENGTHS[b])]
    return next((n for n in range(len(ids)) if ids[n] != ids[0]), len(ids))


def test_lengths_of_segments(results):
    counts = numpy.zeros(WINDOW)
    for b, length in enumerate(LENGTHS):
        for t in range(length):
            n = remaining(b, t)
            counts[n - 1] += 1
            distance = numpy.abs(n - numpy.arange(1, WINDOW + 1))
            expected = numpy.exp(-0.5 * distance) / numpy.exp(-0.5 * distance).sum()
            numpy.testing.assert_allclose(results["lengths"][b, t], expected, rtol=1e-5)
            scores, applied = (results[key][b, t].reshape(WINDOW, CLASSES) for key in ("of_ids", "applied"))
            numpy.testing.assert_allclose(applied, scores * expected[:, None] ** 2, rtol=1e-5)
    numpy.testing.assert_allclose(results["all_lengths"][0], counts / counts.sum(), rtol=1e-5, atol=1e-6)


def test_windows_begin_at_each_frame_and_end_with_the_sequence(results):
    frames = [(b, t) for b, length in enumerate(LENGTHS) for t in range(length)]
    assert len(results["windows"]) == len(results["flat"]) == len(frames)
    for window, flat, (b, t) in zip(results["windows"], results["flat"], frames, strict=True):
        expected = BATCH["data"][b, t : min(t + WINDOW, LENGTHS[b])]
        numpy.testing.assert_array_equal(window[: len(expected)], expected)
        numpy.testing.assert_array_equal(flat, BATCH["data"][b, t])


def test_frames_of_windows_that_end_there(results):
    for b, length in enumerate(LENGTHS):
        for t in range(length):
            back = results["back"][b, t].reshape(WINDOW, -1)
            for n in range(WINDOW):  # each window has the same frame at this place
                numpy.testing.assert_array_equal(back[n], BATCH["data"][b, t] if n <= t else 0)


def test_relative_frequencies_of_labels_in_windows(results):
    frames = [(b, t) for b, length in enumerate(LENGTHS) for t in range(length)]
    for segments, (b, t) in zip(results["segments"], frames, strict=True):
        ids = BATCH["ids"][b, t : min(t + WINDOW, LENGTHS[b])]
        for n in range(len(ids)):
            counts = numpy.bincount(ids[: n + 1], minlength=LABELS)
            numpy.testing.assert_allclose(segments[n], counts / (n + 1), rtol=1e-6)


def test_segments_at_the_ends_of_windows_are_what_the_alignment_looks_at():
    net = {
        "windows": {"class": "segment_input", "window": WINDOW, "from": "data"},
        "states": {"class": "rec", "unit": "lstm", "n_out": 4, "from": "windows"},
        "classes": {"class": "linear", "activation": "log_softmax", "n_out": CLASSES, "from": "states"},
        "scores": {"class": "unsegment_input", "from": "classes"},
        "best": {"class": "segment_alignment", "num_classes": CLASSES, "window": WINDOW, "from": "scores"},
    }
    results = LayerNet(net).run(BATCH)
    starts = {(b, t): i for i, (b, t) in enumerate((b, t) for b, n in enumerate(LENGTHS) for t in range(n))}
    for b, length in enumerate(LENGTHS):

        def score(parts, b=b):
            return sum(results["classes"][starts[b, t], n - 1, label] for t, n, label in parts)

        best = max(segmentations(length), key=score)
        assert results["best"][b, :length].tolist() == [label for _, n, label in best for _ in range(n)]
