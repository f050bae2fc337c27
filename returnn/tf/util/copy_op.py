"""Copies of operations of a graph."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf


def copy_op(
    op: tf.Operation,
    *,
    graph: tf.Graph | None = None,
    op_type: str | None = None,
    inputs: Sequence[tf.Tensor] | None = None,
    name: str | None = None,
) -> tf.Operation:
    """
    :param op: operation
    :param graph: where the new one goes; default: the same graph
    :param op_type: another type with the same attributes
    :param inputs: other inputs
    :param name: of the new one
    :return: an operation with the same attributes
    """
    graph = graph or op.graph
    with graph.as_default():
        return graph.create_op(
            op_type or op.type,
            list(op.inputs) if inputs is None else list(inputs),
            dtypes=[x.dtype for x in op.outputs],
            attrs=dict(op.node_def.attr),
            name=name or f"{op.name}_copy",
        )
