"""What belongs to a run of a network's graph: operations after a step, callbacks at the end, the number of the step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from returnn.tf.frontend_low_level.outermost_graph import outermost_graph

if TYPE_CHECKING:
    from returnn.tf.network.network import TFNetwork

tf1 = tf.compat.v1

_POST_STEP = "returnn_post_control_dependencies"  # graph collections


class NetworkRun:
    """The part of `TFNetwork` about running the graph."""

    def _init_run(self: TFNetwork) -> None:
        self._run_opts: dict[str, Any] = {}
        self._run_finished_callbacks: list[Callable[..., None]] = []
        self._graph_reset_callbacks: list[Callable[[], None]] = []
        self._global_train_step_var: tf.Variable | None = None
        self.epoch_step: tf.Tensor | None = None

    @staticmethod
    def register_post_control_dependencies(deps: Sequence[tf.Operation | tf.Tensor]) -> None:
        """
        :param deps: operations which run at the end of each training step
        """
        for dep in deps:
            tf1.add_to_collection(_POST_STEP, dep.op if isinstance(dep, tf.Tensor) else dep)

    @staticmethod
    def get_post_control_dependencies() -> list[tf.Operation]:
        """:return: operations which run at the end of each training step"""
        return list(tf1.get_collection(_POST_STEP))

    def register_run_finished_callback(self: TFNetwork, cb: Callable[..., None]) -> None:
        """
        :param cb: called with `error_occurred=` when an epoch of training, evaluation or forwarding is over
        """
        self.get_root_network()._run_finished_callbacks.append(cb)

    def set_run_finished(self: TFNetwork, error_occurred: bool = False) -> None:
        """
        Called when an epoch of training, evaluation or forwarding is over.

        :param error_occurred: whether it did not get to its end
        """
        callbacks = self.get_root_network()._run_finished_callbacks
        for callback in callbacks:
            callback(error_occurred=error_occurred)

    def set_run_opts(self: TFNetwork, epoch: int, dataset_name: str) -> None:
        """
        :param epoch: number of the epoch
        :param dataset_name: such as "dev"
        """
        self.get_root_network()._run_opts = {"epoch": epoch, "dataset_name": dataset_name}

    def get_run_opts(self: TFNetwork) -> dict[str, Any]:
        """:return: what `set_run_opts` got"""
        return self.get_root_network()._run_opts

    def register_graph_reset_callback(self: TFNetwork, cb: Callable[[], None]) -> None:
        """
        :param cb: called when the graph is not used any more
        """
        self.get_root_network()._graph_reset_callbacks.append(cb)

    def get_graph_reset_callbacks(self: TFNetwork) -> list[Callable[[], None]]:
        """:return: what `register_graph_reset_callback` got"""
        return self.get_root_network()._graph_reset_callbacks

    def call_graph_reset_callbacks(self: TFNetwork) -> None:
        """Called when the graph is not used any more."""
        for callback in self.get_graph_reset_callbacks():
            callback()

    # The number of the step.

    @property
    def global_train_step_var(self: TFNetwork) -> tf.Variable:
        """Number of the training step, from 0 on, over all epochs: int64. It goes into checkpoints."""
        root = self.get_root_network()
        if root._global_train_step_var is None:
            with (
                outermost_graph(),
                tf1.variable_scope(tf1.VariableScope(reuse=tf1.AUTO_REUSE), auxiliary_name_scope=False),
            ):
                root._global_train_step_var = tf1.get_variable(
                    "global_step", shape=(), dtype=tf.int64, initializer=tf1.zeros_initializer(), trainable=False,
                    collections=[tf1.GraphKeys.GLOBAL_VARIABLES, tf1.GraphKeys.GLOBAL_STEP], use_resource=True,
                )  # fmt: skip
            root.extra_vars_to_save.append(root._global_train_step_var)
        return root._global_train_step_var

    @property
    def global_train_step(self: TFNetwork) -> tf.Tensor:
        """Number of the training step, as value."""
        return self.value_of_param(self.global_train_step_var)

    def get_global_train_step(self: TFNetwork, session: tf1.Session) -> int:
        """:return: number of the training step"""
        return int(session.run(self.global_train_step_var))

    def set_global_train_step(self: TFNetwork, step: int, session: tf1.Session) -> None:
        """
        :param step: number of the training step
        :param session: session to write it in
        """
        self.global_train_step_var.load(step, session)

    def get_epoch_step(self: TFNetwork) -> tf.Tensor:
        """:return: int64 scalar: number of the step in this epoch, which is fed; -1 if it is not"""
        root = self.get_root_network()
        if root.epoch_step is None:
            with outermost_graph():
                root.epoch_step = tf1.placeholder_with_default(tf.constant(-1, tf.int64), (), name="epoch_step")
        return root.epoch_step
