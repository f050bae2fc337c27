import itertools
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy
import pytest
import tensorflow as tf

from returnn.extern.HawkAaronWarpTransducer import rnnt_loss
from returnn.extern.WarpRna import rna_loss
from returnn.util.errors import ConfigError

tf1 = tf.compat.v1
BLANK = 2


def paths_rnnt(num_frames, num_labels):
    """:return: ways through the lattice: True is a label, False a blank, which is the last one"""
    steps = num_frames - 1 + num_labels
    for chosen in itertools.combinations(range(steps), num_labels):
        yield [*(i in chosen for i in range(steps)), False]


def paths_rna(num_frames, num_labels):
    for chosen in itertools.combinations(range(num_frames), num_labels):
        yield [i in chosen for i in range(num_frames)]


def brute_force(log_probs, labels, paths, label_uses_frame):
    scores = []
    for path in paths(len(log_probs), len(labels)):
        t = u = score = 0
        for is_label in path:
            score += log_probs[t, u, labels[u] if is_label else BLANK]
            u += is_label
            t += label_uses_frame or not is_label
        scores.append(score)
    return -numpy.logaddexp.reduce(scores)


@pytest.fixture(params=["kernels", "loops"], autouse=True)
def implementation(request, monkeypatch):
    monkeypatch.setenv("RETURNN_NATIVE", str(int(request.param == "kernels")))


@pytest.mark.parametrize(
    ("loss", "paths", "label_uses_frame"), [(rnnt_loss, paths_rnnt, False), (rna_loss, paths_rna, True)]
)
def test_sum_over_all_paths(loss, paths, label_uses_frame):
    random = numpy.random.RandomState(1)
    logits = random.normal(size=(3, 5, 4, 5))
    labels, num_frames, num_labels = numpy.array([[0, 1, 3], [4, 0, 0], [3, 3, 1]]), [5, 4, 3], [3, 1, 2]
    with tf.Graph().as_default(), tf1.Session() as session:
        acts = tf1.placeholder(tf.float64, (None, None, None, 5))
        costs = loss(acts, tf.constant(labels), tf.constant(num_frames), tf.constant(num_labels), blank_label=BLANK)
        (gradient,) = tf1.gradients(costs, acts)
        costs, gradient = session.run([costs, gradient], {acts: logits})
    log_probs = logits - numpy.logaddexp.reduce(logits, axis=-1, keepdims=True)
    for b in range(3):
        valid = log_probs[b, : num_frames[b], : num_labels[b] + 1]
        expected = brute_force(valid, labels[b, : num_labels[b]], paths, label_uses_frame)
        assert costs[b] == pytest.approx(expected)
        assert not gradient[b, num_frames[b] :].any()
        assert not gradient[b, :, num_labels[b] + 1 :].any()
    assert numpy.isfinite(gradient).all()


@pytest.mark.parametrize(
    ("loss", "num_frames", "num_labels", "is_possible"),
    [
        (rnnt_loss, 0, 0, True), (rnnt_loss, 0, 1, False), (rnnt_loss, 1, 2, True),
        (rna_loss, 0, 0, True), (rna_loss, 1, 2, False), (rna_loss, 2, 2, True),
    ],
)  # fmt: skip
def test_without_any_way_the_loss_is_infinite_and_has_no_gradient(loss, num_frames, num_labels, is_possible):
    logits = numpy.random.RandomState(1).normal(size=(1, 2, 3, 4))
    with tf.Graph().as_default(), tf1.Session() as session:
        acts = tf.constant(logits)
        costs = loss(acts, tf.constant([[0, 1]]), tf.constant([num_frames]), tf.constant([num_labels]), BLANK)
        (cost,), gradient = session.run([costs, tf1.gradients(costs, acts)[0]])
    assert numpy.isfinite(cost) == is_possible
    assert is_possible or cost == numpy.inf
    assert gradient.any() == (is_possible and num_frames > 0)
    assert numpy.isfinite(gradient).all()


@pytest.mark.parametrize("loss", [rnnt_loss, rna_loss])
@pytest.mark.parametrize("blank", [4, -1])
def test_blank_that_is_no_class(loss, blank):
    with pytest.raises(ConfigError) as info:
        loss(tf.zeros([1, 3, 2, 4]), tf.zeros([1, 1], tf.int32), tf.constant([3]), tf.constant([1]), blank_label=blank)
    assert str(info.value).startswith(
        f"transducer loss: 'blank_label' is {blank}, but there are 4 classes, 0 to 3.\n  Blank is a class of its own"
    )
