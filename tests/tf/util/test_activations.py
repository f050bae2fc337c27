"""Activation functions by name and expression."""

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.util.activations import apply_activation, get_activation_function
from returnn.util.errors import ConfigError

X = numpy.array([-1.5, -0.5, 0.0, 0.5, 2.0], dtype="float32")


def relu(x):
    return numpy.maximum(x, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0 * sigmoid", 10 / (1 + numpy.exp(-X))),
        ("2*tanh + 1", 2 * numpy.tanh(X) + 1),
        ("1 + tanh * 2", 2 * numpy.tanh(X) + 1),
        ("(tanh - 1) / -2", (numpy.tanh(X) - 1) / -2),
        ("relu ** 2 - identity", relu(X) ** 2 - X),
        ("-relu", -relu(X)),
        ("relu*relu", relu(X) ** 2),
        ("lambda x: tf.nn.relu(x) * x", relu(X) * X),
        ("tf.nn.relu", relu(X)),
        ("none", X),
    ],
)
def test_expression_of_functions(text, expected):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        numpy.testing.assert_allclose(session.run(get_activation_function(text)(tf.constant(X))), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tahn", ["there is no activation function 'tahn'", "Did you mean 'tanh'?"]),
        ("2 * tahn", ["there is no activation function 'tahn'"]),
        ("tanh % 2", ["'tanh % 2': 'tanh % 2' is not possible", "'lambda x: ...'"]),
        ("tanh +", ["'tanh +': invalid syntax"]),
    ],
)
def test_what_is_no_activation_function(text, words):
    with pytest.raises(ConfigError) as info:
        get_activation_function(text)
    assert len(str(info.value).splitlines()) <= 2
    for word in words:
        assert word in str(info.value)


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [("is_nan", "float32", "bool"), ("angle", "complex64", "float32"), ("leaky_relu", "float64", "float64")],
)
def test_the_template_has_the_dtype_of_the_result(name, dtype, expected):
    x = Tensor("x", dims=[Dim(5, name="x")], dtype=dtype)
    with tf.Graph().as_default():
        with rf.backend_ctx("template"):
            assert apply_activation(x, name).dtype == expected
        x.raw_tensor = tf.cast(X, dtype)
        assert apply_activation(x, name).dtype == expected


def test_arguments_of_the_function():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = Tensor("x", dims=[Dim(5, name="x")], dtype="float32", raw_tensor=tf.constant(X))
        exact, approximate = (apply_activation(x, "gelu", approximate=flag).raw_tensor for flag in (False, True))
        results = session.run([exact, approximate, apply_activation(x, "gelu").raw_tensor])
    numpy.testing.assert_allclose(results[0], results[2], rtol=1e-5)
    assert (results[0] != results[1]).any()
