"""A loop runs its body once on trial, within `dry_run_scope`: that must leave no trace."""

import tensorflow as tf

from returnn.tf.frontend_low_level._backend import TFBackend


def test_dry_run_scope_leaves_no_operations_in_the_graph():
    with tf.Graph().as_default() as graph:
        with TFBackend.dry_run_scope():
            tf.constant(1) + tf.constant(2)
        assert not graph.get_operations()
