"""Products of a column and a row, which are multiplications, against numpy."""

from __future__ import annotations

import numpy
import tensorflow as tf

from returnn.tf.frontend_low_level.raw import RawTFOps

tf1 = tf.compat.v1


def test_values_and_gradients() -> None:
    """Of a column and a row; no matrix product is left on the way forward."""
    rnd = numpy.random.RandomState(1)
    column, row, weights = rnd.normal(size=[6, 1]), rnd.normal(size=[1, 4]), rnd.normal(size=[6, 4])
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        a, b = tf1.placeholder("float64", [None, 1]), tf.constant(row)
        product = RawTFOps.matmul_raw(a, b)
        assert "MatMul" not in {op.type for op in graph.get_operations()}
        gradients = tf1.gradients(product * weights, [a, b])
        value, (of_column, of_row) = session.run((product, gradients), {a: column})
    numpy.testing.assert_allclose(value, column @ row, rtol=1e-15)
    numpy.testing.assert_allclose(of_column, weights @ row.T, rtol=1e-12)
    numpy.testing.assert_allclose(of_row, column.T @ weights, rtol=1e-12)
