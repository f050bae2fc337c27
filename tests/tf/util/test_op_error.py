import pytest
import tensorflow as tf

from returnn.tf.util.op_error import op_error_text

tf1 = tf.compat.v1


def error_of(make, feed=None):
    with tf.Graph().as_default(), tf1.Session() as session:
        tensor = make()
        with pytest.raises(tf.errors.OpError) as info:
            session.run(tensor, feed)
    return op_error_text(info.value)


def test_error_of_an_operation():
    text = error_of(lambda: tf.reshape(tf.constant([1.0, 2.0]), tf1.placeholder_with_default([3], [None]), name="x"))
    assert text == "Input to reshape is a tensor with 2 values, but the requested shape has 3 (operation 'x')"


def test_error_of_a_python_function_names_its_line():
    def fails(x):
        raise ValueError(f"bad value: {x}")

    text = error_of(lambda: tf.numpy_function(fails, [5], tf.float32, name="x"))
    line = fails.__code__.co_firstlineno + 1
    assert text == f"ValueError: bad value: 5 ({__file__}, line {line}, in fails) (operation 'x')"


def test_error_in_a_loop_and_a_missing_value():
    def body(i):
        with tf.control_dependencies([tf.debugging.assert_less(i, 2, message="i is too large")]):
            return i + 1

    assert "i is too large" in error_of(lambda: tf.while_loop(lambda i: i < 5, body, [0]))
    assert error_of(lambda: tf1.placeholder(tf.float32, (), name="y") + 1).startswith("You must feed a value for")


def test_assertion_says_its_message():
    def make(*values):
        with tf.control_dependencies([tf.debugging.Assert(tf.constant(False), ["layer 'a': [B] is odd", *values])]):
            return tf.constant(1)

    assert error_of(make) == "layer 'a': [B] is odd"
    assert "[3]" in error_of(lambda: make(tf.constant(3)))
