"""A subnetwork with `gradient_checkpoint` has the same values and gradients, and keeps less."""

from __future__ import annotations

import numpy
import pytest
import tensorflow as tf

from returnn.tf.frontend_low_level.raw_random import run_seed_feed
from returnn.tf.updater.objective_gradients import gradients_of_objective
from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import construct

tf1 = tf.compat.v1
INSIDE = {
    "ff": {"class": "linear", "activation": "tanh", "n_out": 5, "from": "data", "dropout": 0.5},
    "norm": {"class": "layer_norm", "from": "ff"},
    "output": {"class": "linear", "activation": "sigmoid", "n_out": 6, "from": "norm", "dropout": 0.5},
}


def values_and_needs(*, gradient_checkpoint):
    """:return: loss and gradients of two steps, and the types of operations inside which the gradients need"""
    sub = {"class": "subnetwork", "from": "data", "subnetwork": INSIDE, "gradient_checkpoint": gradient_checkpoint}
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        tf1.set_random_seed(1)
        net = construct({"sub": sub, "output": {"class": "copy", "from": "sub"}}, train_flag=True)
        loss = tf.reduce_sum(net.get_default_output_layer().output.placeholder ** 2)
        before = set(graph.get_operations())
        grads, _ = gradients_of_objective(loss, net.get_trainable_params(), [1.0] * len(net.get_trainable_params()))
        taken = {i.op for op in graph.get_operations() if op not in before for i in op.inputs if i.op in before}
        session.run(tf1.global_variables_initializer())
        data = net.extern_data.data["data"]
        feed = {
            data.placeholder: numpy.linspace(-1, 1, 2 * 3 * 6).reshape(2, 3, 6),
            data.get_sequence_lengths(): [3, 2],
        }
        steps = [session.run([loss, *grads], {**feed, **run_seed_feed(graph, [step])}) for step in (1, 2)]
        return steps, sorted(op.type for op in taken if op.type in ("Tanh", "Sigmoid", "SelectV2", "Rsqrt"))


def test_the_same_values_with_dropout_and_nothing_is_kept():
    expected, needed = values_and_needs(gradient_checkpoint=False)
    values, needed_with_it = values_and_needs(gradient_checkpoint=True)
    for step, expected_step in zip(values, expected, strict=True):
        for a, b in zip(step, expected_step, strict=True):
            numpy.testing.assert_allclose(a, b, rtol=1e-6)
    assert not numpy.allclose(values[0][0], values[1][0])  # other features are dropped in another step
    assert {"Tanh", "SelectV2"} <= set(needed)
    assert needed_with_it == ["Sigmoid"]  # the output itself, which the loss needs


def test_inside_of_a_loop_it_is_an_error():
    sub = {"class": "subnetwork", "from": "prev:sub", "subnetwork": INSIDE, "gradient_checkpoint": True}
    unit = {"sub": {**sub, "n_out": 6}, "output": {"class": "combine", "kind": "add", "from": ["sub", "data:source"]}}
    with tf.Graph().as_default(), pytest.raises(ConfigError, match="'gradient_checkpoint': True is not possible"):
        construct({"output": {"class": "rec", "from": "data", "unit": unit}}, train_flag=True)
