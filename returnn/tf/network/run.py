"""`NetworkRun`: what belongs to a run of a graph: operations after a step, callbacks at the end, number of the step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from returnn.tf.frontend_low_level.outermost_graph import outermost_graph

tf1 = tf.compat.v1

_POST_STEP = "returnn_post_control_dependencies"  # graph collections


class NetworkRun:
    """What all networks of a graph have in common while it runs."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}  # "epoch", "dataset_name"
        self.finished_callbacks: list[Callable[..., None]] = []
        self.graph_reset_callbacks: list[Callable[[], None]] = []
        self.epoch_step: tf.Tensor | None = None
        self._train_step_var: tf.Variable | None = None

    def finish(self, *, error_occurred: bool = False) -> None:
        """
        Called when an epoch of training, evaluation or forwarding is over.

        :param error_occurred: whether it did not get to its end
        """
        for callback in self.finished_callbacks:
            callback(error_occurred=error_occurred)

    def reset_graph(self) -> None:
        """Called when the graph is not used any more."""
        for callback in self.graph_reset_callbacks:
            callback()

    # The number of the step.

    def train_step_var(self, saved: list[Any]) -> tf.Variable:
        """
        :param saved: variables that go into checkpoints; this one is added
        :return: number of the training step, from 0 on, over all epochs: int64
        """
        if self._train_step_var is None:
            with (
                outermost_graph(),
                tf1.variable_scope(tf1.VariableScope(reuse=tf1.AUTO_REUSE), auxiliary_name_scope=False),
            ):
                self._train_step_var = tf1.get_variable(
                    "global_step",
                    shape=(),
                    dtype=tf.int64,
                    initializer=tf1.zeros_initializer(),
                    trainable=False,
                    collections=[tf1.GraphKeys.GLOBAL_VARIABLES, tf1.GraphKeys.GLOBAL_STEP],
                    use_resource=True,
                )
            saved.append(self._train_step_var)
        return self._train_step_var

    def get_epoch_step(self) -> tf.Tensor:
        """:return: int64 scalar: number of the step in this epoch, which is fed; -1 if it is not"""
        if self.epoch_step is None:
            with outermost_graph():
                self.epoch_step = tf1.placeholder_with_default(tf.constant(-1, tf.int64), (), name="epoch_step")
        return self.epoch_step


# Operations after each training step.


def add_post_step_operations(operations: Sequence[tf.Operation | tf.Tensor]) -> None:
    """
    :param operations: which run at the end of each training step
    """
    for operation in operations:
        tf1.add_to_collection(_POST_STEP, operation.op if isinstance(operation, tf.Tensor) else operation)


def post_step_operations() -> list[tf.Operation]:
    """:return: operations which run at the end of each training step"""
    return list(tf1.get_collection(_POST_STEP))
