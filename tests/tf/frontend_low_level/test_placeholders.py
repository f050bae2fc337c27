"""Placeholders of tensors, as old code has them."""

from __future__ import annotations

import numpy
import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor, batch_dim


def test_old_constructor_makes_placeholders_for_value_and_lengths() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = Tensor("x", shape=(None, 3), auto_create_placeholders=True)
        assert x.placeholder.op.type == "Placeholder"
        assert x.placeholder.shape.as_list() == [None, None, 3]
        (lengths,) = x.size_placeholder.values()
        total = rf.reduce_sum(x, axis=x.get_time_dim_tag())
        value = numpy.array([[[1, 2, 3], [10, 20, 30]]] * 2, "float32")
        result = session.run(total.raw_tensor, {x.placeholder: value, lengths: [2, 1]})
    numpy.testing.assert_array_equal(result, [[11, 22, 33], [1, 2, 3]])


def test_lengths_that_are_known_stay() -> None:
    with tf.Graph().as_default():
        lengths = tf.constant([2, 1])
        time = Dim(Tensor("lengths", [batch_dim], "int32", raw_tensor=lengths), name="time")
        names = Tensor("names of sequences", [batch_dim, time], "string")
        names.create_placeholders()
        assert names.raw_tensor.dtype == tf.string
        assert names.raw_tensor.op.name == "names_of_sequences"
        assert time.dyn_size is lengths
