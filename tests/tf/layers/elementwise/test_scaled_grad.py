"""The gradient that `scaled_grad` makes."""

import numpy
import pytest
import tensorflow as tf

from returnn.tf.util.grad import scaled_gradient

tf1 = tf.compat.v1
GRADIENT = numpy.array([[1.0, -3.0, 0.5], [0.0, 0.0, 0.0], [-0.2, 0.1, 0.15]], "float32")


@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.2), (2.0, None), (-2.0, 0.5), (1.0, -0.4)])
def test_no_entry_becomes_larger_than_the_largest_before(scale, shift):
    with tf.Graph().as_default(), tf1.Session() as session:
        x = tf.constant(numpy.ones_like(GRADIENT))
        y = scaled_gradient(x, scale=scale, shift=shift, clip_max_axis=1)
        result = session.run(tf1.gradients(y, x, grad_ys=tf.constant(GRADIENT))[0])
    bound = numpy.abs(GRADIENT).max(axis=1, keepdims=True)
    numpy.testing.assert_allclose(result, numpy.clip(GRADIENT * scale + (shift or 0), -bound, bound), rtol=1e-6)
    assert not result[1].any()
