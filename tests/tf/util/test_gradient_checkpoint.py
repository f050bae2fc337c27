"""The gradient is the same, and computed from values which are computed again."""

from __future__ import annotations

import contextlib

import numpy
import tensorflow as tf

from returnn.tf.util.gradient_checkpoint import (
    gradient_checkpoint_exclude_scope,
    gradient_checkpoint_scope,
    prepare_gradient_checkpointing,
)

tf1 = tf.compat.v1


def gradients(scope, *, steps=3, with_random=False):
    """:return: loss and gradients, the types of all operations that the gradients take from the forward computation"""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        tf1.set_random_seed(1)
        x = tf.constant(numpy.linspace(-1, 1, 12).reshape(3, 4), tf.float32, name="x")
        w = tf1.get_variable("w", initializer=tf.eye(4) * 0.5, use_resource=True)
        with scope():
            y, kept = x, []
            for _ in range(steps):
                y = tf.tanh(tf.matmul(y, w))
                with gradient_checkpoint_exclude_scope():
                    kept.append(tf.sigmoid(y))
                y = y * kept[-1]
                if with_random:
                    y *= tf.random.uniform(tf.shape(y), seed=2)
        loss = tf.reduce_sum(y**2)
        prepare_gradient_checkpointing()
        before = set(graph.get_operations())
        result = tf.gradients(loss, [x, w])
        taken = {i.op for op in graph.get_operations() if op not in before for i in op.inputs if i.op in before}
        session.run(tf1.global_variables_initializer())
        return session.run([loss, *result]), [op.type for op in taken]


def test_the_gradient_is_the_same_from_values_computed_again():
    expected, taken = gradients(contextlib.nullcontext)
    assert taken.count("Tanh") == 3
    values, taken = gradients(gradient_checkpoint_scope)
    assert taken.count("Tanh") == 0
    assert taken.count("Sigmoid") == 3  # was excluded
    for a, b in zip(values, expected, strict=True):
        numpy.testing.assert_allclose(a, b, rtol=1e-5)


def test_random_numbers_are_not_drawn_again():
    expected, _ = gradients(contextlib.nullcontext, with_random=True)
    values, taken = gradients(gradient_checkpoint_scope, with_random=True)
    assert "Tanh" not in taken
    numpy.testing.assert_allclose(values[0], expected[0], rtol=1e-5)
    numpy.testing.assert_allclose(values[2], expected[2], rtol=1e-5)
