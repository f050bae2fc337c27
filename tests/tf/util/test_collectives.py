"""Gradients go to the other workers in parts, each as soon as it is there."""

from __future__ import annotations

import tensorflow as tf

from returnn.tf.engine.session.graph_ops import ops_before
from returnn.tf.util.collectives import WorkerGroup, group_ctx, sum_gradients

WIDTH, LAYERS = 1024, 4  # a matrix fills a bucket


def test_a_bucket_waits_for_its_own_gradients_alone():
    with tf.Graph().as_default() as graph, group_ctx(WorkerGroup(2, timeout_s=1)):
        x = tf.compat.v1.placeholder(tf.float32, (None, WIDTH))
        weights = [
            tf.compat.v1.Variable(tf.zeros([WIDTH, WIDTH]), name=f"w{i}", use_resource=True) for i in range(LAYERS)
        ]
        values = [x]
        for weight in weights:
            values.append(tf.tanh(values[-1] @ weight))
        grads = tf.gradients(tf.reduce_sum(values[-1]), weights)
        sum_gradients(grads, weights, mean=False)
        buckets = [op for op in graph.get_operations() if op.type == "CollectiveReduceV2"]
        needed = [ops_before(op) for op in buckets]
    assert len(buckets) == LAYERS
    for number, ops in enumerate(needed):
        with_gradients = [grad.op in ops for grad in grads]
        # The gradient of the last layer is there first, and its bucket needs neither those before nor another bucket.
        assert with_gradients == [i == LAYERS - 1 - number for i in range(LAYERS)]
        assert sum(op in ops for op in buckets) == 1
