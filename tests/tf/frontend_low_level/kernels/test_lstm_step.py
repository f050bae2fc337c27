"""The step of an LSTM: its second derivative, which losses on gradients need."""

import numpy
import pytest
import tensorflow as tf

from returnn.tf.frontend_low_level.kernels.lstm_step import lstm_step

tf1 = tf.compat.v1


@pytest.mark.parametrize("i_first", [False, True])
@pytest.mark.parametrize("has_more", [False, True])
@pytest.mark.parametrize("uses", ["c", "h", "both"])
def test_second_derivative_is_that_of_the_first_one(i_first, has_more, uses):
    random = numpy.random.RandomState(1)
    shapes = {"z": (2, 12), "c": (2, 3), **({"bias": (12,), "peepholes": (3, 3)} if has_more else {})}
    values = {name: random.normal(size=shape) for name, shape in shapes.items()}
    direction = {name: random.normal(size=shape) for name, shape in shapes.items()}
    with tf.Graph().as_default(), tf1.Session() as session:
        x = {name: tf1.placeholder(tf.float64, shape) for name, shape in shapes.items()}
        c, h = lstm_step(**x, i_first=i_first)
        y = {"c": tf.reduce_sum(tf.sin(c)), "h": tf.reduce_sum(h**3)}
        first = tf.gradients(y[uses] if uses in y else y["c"] + y["h"], list(x.values()))
        total = tf.add_n([tf.reduce_sum(tf.cos(grad) * grad) for grad in first])
        second = tf.gradients(total, list(x.values()))

        def run(tensor, step=0.0):
            return session.run(tensor, {x[name]: values[name] + step * direction[name] for name in x})

        slope = sum((grad * direction[name]).sum() for name, grad in zip(x, run(second), strict=True))
        assert slope == pytest.approx((run(total, 1e-5) - run(total, -1e-5)) / 2e-5, rel=1e-5)
        assert abs(slope) > 1e-2
