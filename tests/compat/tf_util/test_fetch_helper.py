"""Values of tensors in the middle of a graph, and short texts for what is in it."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys

import numpy
import tensorflow as tf

from returnn.tf.util.basic import FetchHelper

tf1 = tf.compat.v1


def test_the_value_of_a_tensor_is_kept_although_only_what_depends_on_it_is_fetched():
    with tf.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf.float32, [None])
        middle = x + 1.0
        aside = x * 5.0
        out = {"a": [middle * 2.0 + aside], "b": aside, "op": tf.group(middle - 1.0)}
        helper = FetchHelper(middle, verbose_stream=(log := io.StringIO()))
        fetches = FetchHelper.copy_graph_replace_tensors(out, [helper])
        assert fetches["b"] is aside  # does not depend on it
        values, expected = (session.run(nest, {x: [1.0, 2.0]}) for nest in (fetches, out))
        numpy.testing.assert_allclose(values["a"], expected["a"])
        numpy.testing.assert_allclose(helper.most_recent_value, [2.0, 3.0])
        assert helper.callback_count == 1
        assert "(2,)" in log.getvalue()


def test_the_value_is_known_when_what_comes_after_it_fails():
    with tf.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf.float32, [None])
        index = tf.cast(x, tf.int32)
        out = tf.gather([1, 2, 3], index)
        helper = FetchHelper(index)
        with contextlib.suppress(tf.errors.InvalidArgumentError):
            session.run(FetchHelper.copy_graph_replace_tensors(out, [helper]), {x: [1.0, 7.0]})
        assert helper.most_recent_value.tolist() == [1, 7]


def test_an_operation_runs_behind_helpers_in_a_copy_or_as_it_is():
    with tf.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf.float32, [])
        aside, y = x * 3.0, tf.sqrt(x)
        helper = FetchHelper(aside)
        copy, (kept,), sqrt = FetchHelper.copy_graph([y + 1.0], y.op, [aside], stop_at_ts=[x])
        assert session.run(copy, {x: 4.0}) == [3.0]
        assert kept.most_recent_value == 12.0
        assert session.run(sqrt.outputs[0], {x: 9.0}) == 3.0
        assert kept.callback_count == 2
        before = tf.exp(x)
        helper.add_to_control_inputs(before.op)
        session.run(before, {x: 5.0})
        assert helper.most_recent_value == 15.0


def test_short_texts():
    code = """
import tensorflow as tf
from returnn.tf.util.basic import debug_register_better_repr
debug_register_better_repr()
with tf.Graph().as_default():
    a = tf.constant([1, 2], name="a")
    x = tf.compat.v1.placeholder(tf.float32, [None, 3], name="x")
    v = tf.compat.v1.get_variable("v", [2, 4], use_resource=True)
    print(*map(repr, [a, x, x.op, (x + 1.0).op, v]), sep="\\n")
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout
    assert out.splitlines() == [
        "<tf.Tensor 'a:0' shape=[2] dtype=int32 value=[1, 2]>",
        "<tf.Tensor 'x:0' shape=[?, 3] dtype=float32 by Placeholder>",
        "<tf.Operation 'x' type=Placeholder>",
        "<tf.Operation 'add' type=AddV2 of x:0, add/y:0>",
        "<tf.Variable 'v:0' shape=[2, 4] dtype=float32>",
    ]
