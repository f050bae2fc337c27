"""TensorFlow builds graphs here: a network is a graph, and code of users makes placeholders beside it."""

from __future__ import annotations

import functools

import tensorflow as tf


@functools.cache
def use_graph_mode() -> None:
    """
    From now on, operations are put into the default graph, also outside of `with graph.as_default()`, and sessions run
    them. Modules whose names are used to build graphs by hand call it when they are imported.
    """
    tf.compat.v1.disable_eager_execution()
