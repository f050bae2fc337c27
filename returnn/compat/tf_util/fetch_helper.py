"""`FetchHelper`: the value that a tensor had in a run, also where only operations that depend on it are fetched."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy
import tensorflow as tf

from returnn.tf.util.copy_op import copy_op


class FetchHelper:
    """
    Keeps the value of a tensor each time it is computed. Whoever fails behind it can be told by which input.

    Operations are never changed once they are in a graph. So what depends on the tensor is copied, and the copy takes
    `identity_with_dep` in place of it, see `copy_graph_replace_tensors`.
    """

    def __init__(self, tensor: tf.Tensor, verbose_stream: Any = None) -> None:
        """
        :param tensor: of a graph
        :param verbose_stream: is told about each value
        """
        self.tensor = tensor
        self.verbose_stream = verbose_stream
        self.most_recent_value: numpy.ndarray | None = None
        self.callback_count = 0
        name = tensor.op.name.rpartition("/")[2]
        with tensor.graph.as_default(), tf.name_scope(f"fetch_{name}"):
            self.fetch_op = tf.compat.v1.py_func(self._keep, [tensor], [], name="keep", stateful=True)
            with tf.control_dependencies([self.fetch_op]):
                self.identity_with_dep = tf.identity(tensor, name="value")

    def _keep(self, value: Any) -> None:
        self.callback_count += 1
        self.most_recent_value = numpy.array(value)
        if self.verbose_stream is not None:
            shape = self.most_recent_value.shape
            print(f"{type(self).__name__}: {self.tensor.name} has shape {shape}", file=self.verbose_stream)

    def add_to_control_inputs(self, other_op: tf.Operation) -> None:
        """
        :param other_op: an operation that has not run yet. It does from now on after the value was kept
        """
        other_op._add_control_input(self.fetch_op)

    @classmethod
    def copy_graph(
        cls,
        fetches: Any,
        target_op: tf.Operation,
        fetch_helper_tensors: Sequence[tf.Tensor],
        stop_at_ts: Collection[tf.Tensor] = (),
        verbose_stream: Any = None,
    ) -> tuple[Any, list[FetchHelper], tf.Operation | None]:
        """
        :param fetches: tensors or operations, in lists and dicts
        :param target_op: operation that the fetches depend on
        :param fetch_helper_tensors: whose values are kept before the copy of the operation runs
        :param stop_at_ts: what these depend on is not copied
        :param verbose_stream: is told what is copied
        :return: the fetches, where everything that depends on the operation is a copy; a helper for each tensor; the
            copy of the operation, None if no fetch depends on it
        """
        helpers = [cls(x, verbose_stream=verbose_stream) for x in fetch_helper_tensors]
        copies = _Copies({}, {x.op for x in stop_at_ts}, verbose_stream)
        copies.roots[target_op] = [helper.fetch_op for helper in helpers]
        copied = tf.nest.map_structure(copies.of_fetch, fetches)
        return copied, helpers, copies.of_op(target_op)

    @classmethod
    def copy_graph_replace_tensors(cls, fetches: Any, fetch_helpers: Sequence[FetchHelper]) -> Any:
        """
        :param fetches: tensors or operations, in lists and dicts
        :param fetch_helpers: helpers
        :return: the fetches, where everything that depends on their tensors is a copy, which keeps their values
        """
        copies = _Copies({helper.tensor.ref(): helper.identity_with_dep for helper in fetch_helpers}, set(), None)
        return tf.nest.map_structure(copies.of_fetch, fetches)


class _Copies:
    """Copies of operations which depend on some tensors or operations; all others stay as they are."""

    def __init__(self, replaced: dict[Any, tf.Tensor], stop_at: set[tf.Operation], stream: Any) -> None:
        """
        :param replaced: what stands in place of tensors, by `ref()`
        :param stop_at: operations before which nothing is copied
        :param stream: is told what is copied
        """
        self.replaced = replaced
        self.stop_at = stop_at
        self.stream = stream
        self.roots: dict[tf.Operation, list[tf.Operation]] = {}  # to be copied, with what runs before the copy
        self._copies: dict[tf.Operation, tf.Operation] = {}

    def of_fetch(self, fetch: Any) -> Any:
        """:return: the tensor or the operation, or its copy"""
        if isinstance(fetch, tf.Tensor):
            self._copy_all_before(fetch.op)
            return self._tensor(fetch)
        if isinstance(fetch, tf.Operation):
            self._copy_all_before(fetch)
            return self._copies.get(fetch, fetch)
        return fetch

    def of_op(self, op: tf.Operation) -> tf.Operation | None:
        """:return: its copy, if there is one by now"""
        return self._copies.get(op)

    def _tensor(self, x: tf.Tensor) -> tf.Tensor:
        if x.ref() in self.replaced:
            return self.replaced[x.ref()]
        copy = self._copies.get(x.op)
        return x if copy is None else copy.outputs[x.value_index]

    def _copy_all_before(self, last: tf.Operation) -> None:
        for op in _in_order(last, self.stop_at):
            inputs = [self._tensor(x) for x in op.inputs]
            before = [self._copies.get(x, x) for x in op.control_inputs]
            changed = any(a is not b for a, b in zip(inputs, op.inputs, strict=True)) or before != op.control_inputs
            if op in self._copies or not (changed or op in self.roots):
                continue
            if self.stream is not None:
                print(f"copy {op.name} ({op.type})", file=self.stream)
            with op.graph.as_default(), tf.control_dependencies([*before, *self.roots.get(op, ())]):
                self._copies[op] = copy_op(op, inputs=inputs)


def _in_order(last: tf.Operation, stop_at: set[tf.Operation]) -> list[tf.Operation]:
    """:return: the operations which this one depends on, and itself at last, each behind its inputs"""
    order: dict[tf.Operation, None] = {}
    stack = [(last, False)]
    while stack:
        op, has_inputs = stack.pop()
        if has_inputs:
            order[op] = None
        elif op not in order and op not in stop_at:
            stack.append((op, True))
            needed = (*(x.op for x in op.inputs), *op.control_inputs)
            stack += [(x, False) for x in needed if x not in order]
    return list(order)
