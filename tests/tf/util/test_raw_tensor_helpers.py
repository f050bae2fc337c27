"""The helpers for raw tensors which configs import."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy
import pytest
import tensorflow as tf

from returnn.compat.tf1_names import add_tf1_names
from returnn.tf.util import basic

tf1 = tf.compat.v1


@pytest.fixture
def run():
    with tf.Graph().as_default(), tf1.Session() as session:
        yield session.run


def test_tensorflow_1_names_are_back():
    add_tf1_names()
    for name in ("log_sigmoid", "to_float", "log", "placeholder", "get_variable"):
        assert getattr(tf, name) is getattr(tf1, name)
    assert tf.where is not tf1.where  # what has another meaning today keeps it


def test_nd_indices_pick_with_gather_nd(run):
    x, indices = numpy.arange(12).reshape(3, 4), [1, 0, 3]
    picked = tf.gather_nd(tf.constant(x), basic.nd_indices(tf.constant(indices)))
    numpy.testing.assert_array_equal(run(picked), x[numpy.arange(3), indices])
    picked = tf.gather_nd(tf.constant(x.T), basic.nd_indices(tf.constant(indices), batch_axis=1))
    numpy.testing.assert_array_equal(run(picked), x[numpy.arange(3), indices])


def test_where_bc_broadcasts_all(run):
    out = basic.where_bc(tf.constant([[True], [False]]), 1.0, tf.constant([[2.0, 3.0]]))
    numpy.testing.assert_array_equal(run(out), [[1, 1], [2, 3]])


def test_tile_transposed_repeats_each_entry(run):
    assert run(basic.tile_transposed(tf.constant([1, 2]), 0, 3)).tolist() == [1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("time_major", [False, True])
def test_flattening_and_unflattening_is_identity(run, time_major):
    x = numpy.random.RandomState(1).normal(size=(3, 5, 2)).astype("float32")
    lengths = numpy.array([5, 2, 3], dtype="int32")
    raw = tf.constant(x.swapaxes(0, 1) if time_major else x)
    flat = basic.flatten_with_seq_len_mask(raw, lengths, time_major=time_major)
    back = run(basic.unflatten_with_seq_len_mask(flat, lengths))
    assert flat.shape.ndims == 2
    numpy.testing.assert_array_equal(back, x * (numpy.arange(5)[None] < lengths[:, None])[..., None])


def test_linear_alignment_has_all_labels_in_order(run):
    lengths, targets, target_lengths = [7, 5], [[1, 2, 3], [4, 5, 0]], [3, 2]
    for consume, expected in ((False, [10, 7]), (True, [7, 5])):
        out, out_lengths = run(
            basic.get_rnnt_linear_aligned_output(
                tf.constant(lengths), tf.constant(targets), tf.constant(target_lengths), 9, targets_consume_time=consume
            )
        )
        assert out_lengths.tolist() == expected
        for row, length, labels in zip(out, expected, ([1, 2, 3], [4, 5]), strict=True):
            assert [x for x in row[:length] if x != 9] == labels
            assert not row[length:].any()


def test_ended_hypotheses_only_continue_with_the_first_label(run):
    out = run(basic.filter_ended_scores(tf.ones([2, 3]), tf.constant([True, False])))
    assert out[0].tolist() == [0, numpy.float32(-1e30), numpy.float32(-1e30)]
    assert out[1].tolist() == [1, 1, 1]


def test_safe_log_is_finite_and_exact_for_softmax(run):
    x = tf.constant([[0.0, -1000.0]])
    assert run(basic.safe_log(tf.nn.softmax(x))).tolist() == [[0, -1000]]
    zero = tf.constant(0.0)
    log = basic.safe_log(zero, eps=1e-3)
    numpy.testing.assert_allclose(run([log, *tf1.gradients(log, zero)]), [numpy.log(1e-3), 1e3], rtol=1e-5)


def test_warping_by_a_constant_shifts_the_image(run):
    image = numpy.random.RandomState(1).normal(size=(2, 4, 5, 3)).astype("float32")
    warped = run(basic.dense_image_warp(tf.constant(image), tf.ones([2, 4, 5, 2])))
    numpy.testing.assert_allclose(warped[:, 1:, 1:], image[:, :-1, :-1], rtol=1e-5)
    assert run(basic.create_random_warp_flow_2d((2, 4, 5))).shape == (2, 4, 5, 2)


def test_strings(run):
    assert run(basic.bpe_merge(tf.constant(["ab@@ c d"]))).tolist() == [b"abc d"]
    assert run(basic.string_merge(tf.constant([["a", "b"], ["c", "d"]]), [2, 1])).tolist() == [b"a b", b"c"]
    assert run(basic.string_replace(tf.constant(["a.b.c"]), ".", "+", count=1)).tolist() == [b"a+b.c"]
    errors, words = run(basic.string_words_calc_wer(tf.constant(["a b c"]), tf.constant(["a c d"])))
    assert (errors.tolist(), words.tolist()) == ([2], [3])
    assert basic.get_shared_vocab(["a", "b"]) is basic.get_shared_vocab(["a", "b"])
    assert run(basic.encode_raw(tf.constant([[97, 98]]), seq_lens=[1])).tolist() == [b"a"]


@pytest.mark.parametrize("grad_checkpointing", [False, True])
def test_dropout_drops_the_same_entries_of_the_gradient(run, grad_checkpointing):
    x = tf.ones([50])
    out = basic.dropout(x, keep_prob=0.5, seed=1, grad_checkpointing=grad_checkpointing)
    value, gradient = run([out, tf1.gradients(out, x)[0]])
    assert set(value) == {0, 2}
    numpy.testing.assert_array_equal(value, gradient)


def test_sampled_logits_of_all_classes_are_the_logits(run):
    random = numpy.random.RandomState(1)
    weights, bias, inputs = random.normal(size=(5, 3)), random.normal(size=5), random.normal(size=(2, 3))
    sampled = (tf.range(5, dtype=tf.int64), tf.ones([2, 1]), tf.ones([5]))
    logits, targets = run(
        basic.compute_sampled_logits(
            tf.constant(weights, tf.float32), tf.constant(bias, tf.float32), tf.constant([[1], [4]]),
            tf.constant(inputs, tf.float32), 5, 5, sampled_values=sampled,
        )
    )  # fmt: skip
    expected = inputs @ weights.T + bias
    numpy.testing.assert_allclose(logits[:, 1:], expected, rtol=1e-4)
    numpy.testing.assert_allclose(logits[:, 0], expected[[0, 1], [1, 4]], rtol=1e-4)
    numpy.testing.assert_array_equal(targets, [[1, 0, 0, 0, 0, 0]] * 2)


def test_windows(run):
    out = run(basic.windowed_nd(tf.constant([[1, 2, 3]]), 3))
    assert out.tolist() == [[[0, 1, 2], [1, 2, 3], [2, 3, 0]]]


def test_true_only_once():
    with tf.Graph().as_default(), tf1.Session() as session:
        once = basic.true_once()
        session.run(tf1.global_variables_initializer())
        assert [bool(session.run(once)) for _ in range(3)] == [True, False, False]


@pytest.mark.parametrize(("axes", "shape"), [([0, 2], [1, 2, 1, 3]), ([-1, -1], [2, 3, 1, 1]), ([-1, 0], [1, 2, 3, 1])])
def test_new_axes_also_twice_at_the_same_place(axes, shape):
    with tf.Graph().as_default():
        assert basic.expand_multiple_dims(tf.zeros([2, 3]), axes).shape.as_list() == shape
