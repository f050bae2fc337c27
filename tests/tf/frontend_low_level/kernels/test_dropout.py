"""Dropout by the native kernel is what the operations of TensorFlow compute, bit by bit."""

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_low_level import raw_random
from returnn.tf.frontend_low_level.kernels.native import get_operations

tf1 = tf.compat.v1


def values_of_both(monkeypatch, dtype="float32", rate=0.3):
    """:return: for the kernel and without: types of operations; two outputs, their gradient, and one of that"""
    found = []
    for is_on in "10":
        monkeypatch.setenv("RETURNN_NATIVE", is_on)
        with tf.Graph().as_default() as graph, rf.backend_ctx("tf"), tf1.Session(graph=graph) as session:
            batch, feature = Dim(None, name="batch"), Dim(70, name="feature", kind=Dim.Types.Feature)
            raw = tf1.placeholder(dtype, [None, 70])
            batch.dyn_size_ext = Tensor("batch", dims=[], dtype="int32", raw_tensor=tf.shape(raw)[0])
            x = Tensor("x", dims=[batch, feature], dtype=dtype, feature_dim=feature, raw_tensor=raw)
            outputs = [rf.dropout(x, rate, on_forward=True) for _ in range(2)]
            assert all(out.dims == x.dims and out.feature_dim == feature for out in outputs)
            assert all(out.raw_tensor.shape.as_list() == [None, 70] for out in outputs)
            raws = [out.raw_tensor for out in outputs]
            (gradient,) = tf.gradients(tf.reduce_sum(raws[0] ** 2), raw)
            second = tf.gradients(tf.reduce_sum(gradient * tf.constant(2.0, dtype)), raw)
            value = numpy.random.RandomState(1).normal(size=(9, 70))
            feed = {raw: value, **raw_random.run_seed_feed(graph, [1, 2])}
            types = {op.type for op in graph.get_operations()}
            found.append((types, session.run([*raws, gradient, *second], feed)))
    return found


def test_same_values_and_gradients(monkeypatch):
    if get_operations() is None:
        pytest.skip("no kernels")
    (types, values), (other_types, expected) = values_of_both(monkeypatch)
    assert "ReturnnDropout" in types
    assert "ReturnnDropout" not in other_types
    assert not numpy.array_equal(expected[0], expected[1])
    for value, other in zip(values[:2], expected[:2], strict=True):
        numpy.testing.assert_array_equal(value, other)
    for value, other in zip(values[2:], expected[2:], strict=True):
        numpy.testing.assert_allclose(value, other, rtol=1e-6)
    assert abs(values[3]).max() > 1


def test_other_types_have_no_kernel(monkeypatch):
    (types, values), (_, expected) = values_of_both(monkeypatch, dtype="float64")
    assert "ReturnnDropout" not in types
    for value, other in zip(values, expected, strict=True):
        numpy.testing.assert_array_equal(value, other)
