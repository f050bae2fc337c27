"""What a function captures is that of the sequences which are left."""

from __future__ import annotations

from types import SimpleNamespace

import numpy
import pytest
import tensorflow as tf

import returnn.tf.frontend_low_level  # noqa: F401 (the operations of dims)
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.loop.smaller_batch.outside import (
    KnownTensors,
    NotForFewerSequencesError,
    seen_for_sequences_left,
)
from returnn.tf.layers.loop.smaller_batch.sequences_left import sequences_left
from returnn.tf.layers.search.beam import Beams

tf1 = tf.compat.v1
NUM, LEFT = 5, (1, 4)


def seen(compute):
    """:return: what a function of [B, 3] is inside, for the sequences left, and outside: both (..., B, ...)"""
    with tf.Graph().as_default() as graph:
        size = tf1.placeholder(tf.int32, [])
        batch = Dim(Tensor("batch", [], "int32", raw_tensor=size), name="batch", kind=Dim.Types.Batch)
        x = Tensor("x", [batch, Dim(3, name="f")], "float32", raw_tensor=tf1.placeholder(tf.float32, [None, 3]))
        layer = SimpleNamespace(output=x)
        net = SimpleNamespace(
            layers={"x": layer}, subnets={}, parent_net=None, extern_data=SimpleNamespace(data={}), beams=Beams()
        )  # fmt: skip
        known = KnownTensors(net, batch)
        whole = compute(x.raw_tensor)

        def body(i, _):
            with seen_for_sequences_left(sequences_left(tf.constant(LEFT), tf.constant(NUM)), known):
                part = tf.cond(i < 1, lambda: tf.identity(whole), lambda: whole + 1)  # in a function of its own
            return i + 1, part

        shapes = [tf.TensorShape([]), tf.TensorShape(None)]
        _, part = tf1.while_loop(lambda i, _: i < 1, body, [0, whole], shape_invariants=shapes, back_prop=False)
        value = numpy.random.default_rng(1).normal(size=(NUM, 3)).astype("float32")
        with tf1.Session(graph=graph) as session:
            return session.run([part, whole], {x.raw_tensor: value, size: NUM})


def test_rows_and_what_follows_from_them():
    part, whole = seen(lambda x: tf.transpose(tf.cast(x > 0, tf.float32))[:, :, None])
    numpy.testing.assert_array_equal(part, whole[:, list(LEFT)])


def test_sizes():
    part, whole = seen(lambda x: tf.shape(x)[0] * 2)
    assert (part, whole) == (2 * len(LEFT), 2 * NUM)


def test_the_largest_of_the_whole_batch_stays():
    part, whole = seen(tf.reduce_max)
    assert part == whole


def test_frames_of_each_sequence():
    part, whole = seen(lambda x: tf.transpose(x[:, 1:]))
    numpy.testing.assert_array_equal(part, whole[:, list(LEFT)])


@pytest.mark.parametrize(
    ("compute", "word"),
    [(lambda x: tf.matmul(x, x, transpose_b=True), "MatMul"), (lambda x: x[0], "single"), (lambda x: x[:2], "single")],
)
def test_what_may_mix_sequences_is_not_guessed(compute, word):
    with pytest.raises(NotForFewerSequencesError, match=word):
        seen(compute)
