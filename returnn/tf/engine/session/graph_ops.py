"""Operations of a graph that others depend on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy
import tensorflow as tf

_GRADIENTS = "_returnn_gradients"


def ops_before(fetches: Any, *, given: Collection[tf.Operation] = ()) -> set[tf.Operation]:
    """
    :param fetches: raw tensors, operations and variables, nested in any way
    :param given: operations whose result is fed, so what they depend on is not needed
    :return: the operations that compute them, with all that these depend on
    """
    todo = [_op_of(fetch) for fetch in tf.nest.flatten(fetches)]
    found: set[tf.Operation] = set()
    while todo:
        op = todo.pop()
        if op is None or op in found:
            continue
        found.add(op)
        if op in given:
            continue
        todo += [tensor.op for tensor in op.inputs]
        todo += op.control_inputs
    return found


def gradients_op(graph: tf.Graph, gradients: Sequence[tf.Tensor | tf.IndexedSlices]) -> tf.Operation:
    """
    :param graph: of the gradients
    :param gradients: of a step
    :return: operation that computes them, and nothing with them; made once
    """
    found = getattr(graph, _GRADIENTS, None)
    if found is None:
        with graph.as_default(), tf.control_dependencies(None):
            found = tf.group(*(grad.values if isinstance(grad, tf.IndexedSlices) else grad for grad in gradients))
        setattr(graph, _GRADIENTS, found)
    return found


def feed_without_others(op: tf.Operation) -> dict[Any, Any]:
    """
    :param op: of a step of several workers
    :return: feed in place of what the others would give, so that they need not take part
    """
    outputs = [found.outputs[0] for found in ops_before(op) if found.type == "CollectiveReduceV2"]
    return {output: numpy.ones(output.shape.as_list(), output.dtype.as_numpy_dtype) for output in outputs}


def _op_of(fetch: Any) -> tf.Operation | None:
    return fetch if isinstance(fetch, tf.Operation) else getattr(fetch, "op", None)
