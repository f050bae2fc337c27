"""Operations of a graph that others depend on."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import tensorflow as tf


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


def _op_of(fetch: Any) -> tf.Operation | None:
    return fetch if isinstance(fetch, tf.Operation) else getattr(fetch, "op", None)
