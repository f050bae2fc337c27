"""TensorFlow's names, arguments and meanings from version 1."""

import os
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy
import pytest
import tensorflow as tf

from returnn.compat.tf1_names import add_tf1_names

tf1 = tf.compat.v1
add_tf1_names()


@pytest.fixture
def run():
    with tf.Graph().as_default(), tf1.Session() as session:
        yield session.run


def test_names_are_back():
    for name in ("log_sigmoid", "to_float", "log", "placeholder", "get_variable", "random_uniform", "global_variables"):
        assert getattr(tf, name) is getattr(tf1, name)


def test_arguments_are_back(run):
    x = tf.constant([[1.0, 3.0], [5.0, 7.0]])
    assert run(tf.reduce_sum(x, axis=1, keep_dims=True)).tolist() == [[4], [12]]
    assert run(tf.reduce_max(x, reduction_indices=[0])).tolist() == [5, 7]
    assert run(tf.argmax(x, dimension=1)).tolist() == [1, 1]
    assert run(tf.expand_dims(x, dim=0)).shape == (1, 2, 2)
    assert run(tf.squeeze(x[:, :1], squeeze_dims=[1])).tolist() == [1, 5]
    numpy.testing.assert_allclose(run(tf.nn.softmax(x, dim=0)).sum(axis=0), [1, 1])
    assert run(tf.nn.dropout(x, keep_prob=1.0)).tolist() == [[1, 3], [5, 7]]


def test_calls_of_today_mean_what_they_do_today(run):
    x = tf.constant([[1.0, 3.0], [5.0, 7.0]])
    assert run(tf.reduce_sum(x, axis=1, keepdims=True)).tolist() == [[4], [12]]
    assert run(tf.where([True, False], x, 0.0)).tolist() == [[1, 0], [5, 0]]


X, Y = numpy.arange(12.0).reshape(2, 3, 2), -numpy.arange(12.0).reshape(2, 3, 2)


@pytest.mark.parametrize("known", [(2, 3, 2), (None, None, 2), (None, None, None)])
def test_where_still_takes_the_last_axis_if_it_fits(run, known):
    x = tf1.placeholder(tf.float64, known)
    out = run(tf.where(tf.constant([True, False]), x, -x), {x: X})
    numpy.testing.assert_array_equal(out, numpy.where([True, False], X, Y))


def test_where_takes_rows_if_the_condition_cannot_belong_to_the_last_axis(run):
    x, condition = tf1.placeholder(tf.float64, (None, 4, 3)), tf1.placeholder(tf.bool, (None,))
    values = numpy.arange(24.0).reshape(2, 4, 3)
    rows = numpy.where(numpy.array([True, False])[:, None, None], values, -values)
    numpy.testing.assert_array_equal(run(tf.where(condition, x, -x), {x: values, condition: [True, False]}), rows)
    numpy.testing.assert_array_equal(run(tf.where(tf.constant([True, False]), x, -x), {x: values}), rows)
    last = run(tf.where(condition, x, -x), {x: values, condition: [True, False, True]})
    numpy.testing.assert_array_equal(last, numpy.where([True, False, True], values, -values))


def test_where_with_numbers_is_the_one_of_today(run):
    condition = tf1.placeholder(tf.bool, (None,))
    assert run(tf.where(condition, 1.0, 2.0), {condition: [True, False]}).tolist() == [1, 2]
    assert run(tf.where(condition), {condition: [False, True]}).tolist() == [[1]]


@pytest.mark.parametrize("first", ["", "import tensorflow; "])
def test_a_config_finds_them_while_it_is_loaded(tmp_path, first):
    path = tmp_path / "my.config"
    path.write_text("#!rnn.py\nimport tensorflow as tf\nlog = tf.log\nplaceholder = tf.placeholder\n", encoding="utf8")
    code = (
        f"{first}from returnn.config import Config; config = Config(); config.load_file({str(path)!r}); "
        "import tensorflow; assert config.typed_dict['log'] is tensorflow.compat.v1.log"
    )
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    subprocess.run([sys.executable, "-c", code], check=True, env=env, stderr=subprocess.DEVNULL)


def test_a_config_without_tensorflow_does_not_load_it(tmp_path):
    path = tmp_path / "my.config"
    path.write_text("#!rnn.py\nx = 1\n", encoding="utf8")
    code = (
        f"from returnn.config import Config; Config().load_file({str(path)!r}); "
        "import sys; assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_modules_of_keras_have_old_names():
    add_tf1_names()
    assert tf.losses.sigmoid_cross_entropy is tf.compat.v1.losses.sigmoid_cross_entropy
    assert tf.losses.MeanSquaredError().name == "mean_squared_error"
    assert tf.initializers.orthogonal is not None
    assert {"sigmoid_cross_entropy", "MeanSquaredError"} <= set(dir(tf.losses))
    with pytest.raises(AttributeError):
        tf.losses.no_such_loss  # noqa: B018 (it raises)
