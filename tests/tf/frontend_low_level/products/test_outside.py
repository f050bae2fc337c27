"""What is the same in all frames of a loop is made outside of it."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import tensorflow as tf

from returnn.tf.frontend_low_level.products.outside import transposed

tf1 = tf.compat.v1


def run(transpose: Any, *, nested: bool, in_branch: bool = False) -> tuple[list[numpy.ndarray], list[tf.Operation]]:
    """:return: result and gradients; all operations that transpose in bodies of loops"""
    random = numpy.random.RandomState(1)
    bodies = []

    def frame(i: Any, h: Any) -> Any:
        def use() -> Any:
            same = tf.reduce_sum(transpose(encoder, [1, 0, 2]) * h[:, None], axis=-1, keepdims=True)
            return h + tf.reduce_mean(tf.tanh(same) * transpose(transpose(encoder * 2.0, [1, 0, 2]), [0, 1, 2]), axis=1)

        bodies.append(tf1.get_default_graph())
        h = tf.cond(i < 2, use, lambda: h) if in_branch else use()
        return i + 1, h + transpose(transpose(h, [1, 0]) * 0.1, [1, 0])

    def around(i: Any, h: Any) -> Any:
        bodies.append(tf1.get_default_graph())
        return i + 1, tf1.while_loop(lambda j, _: j < 3, frame, (0, h))[1]

    with tf.Graph().as_default(), tf1.Session() as session:
        encoder = tf.constant(random.normal(size=(5, 2, 4)))
        start = tf.constant(random.normal(size=(2, 4)))
        final = tf1.while_loop(lambda i, _: i < 3, around if nested else frame, (0, start))[1]
        results = session.run([final, *tf1.gradients(final, [encoder, start])])
    return results, [op for body in bodies for op in body.get_operations() if op.type == "Transpose"]


@pytest.mark.parametrize("nested", [False, True])
def test_transposed_in_front_of_the_loop(nested: bool) -> None:
    expected, before = run(lambda x, perm: tf.transpose(x, perm), nested=nested)
    found, after = run(transposed, nested=nested)
    for a, b in zip(found, expected, strict=True):
        numpy.testing.assert_allclose(a, b, rtol=1e-12)
    assert len(before) == 5
    assert len(after) == 4  # of what the frame computes
    assert not any(op.inputs[0] is inner for op in after for _, inner in op.graph.captures)


def test_not_in_branches() -> None:
    expected, _ = run(lambda x, perm: tf.transpose(x, perm), nested=False, in_branch=True)
    found, _ = run(transposed, nested=False, in_branch=True)
    for a, b in zip(found, expected, strict=True):
        numpy.testing.assert_allclose(a, b, rtol=1e-12)
