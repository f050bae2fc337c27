"""
Summaries of the training of a network for TensorBoard, see `returnn.engine.report.summaries`.

What is asked for beyond scores and learning rate: `log_grad_norm`, `debug_grad_summaries`,
`debug_objective_loss_summaries`, `debug_unnormalized_loss_summaries`, and whatever `tf.summary` operations the user's
code adds to the graph.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy
import tensorflow as tf

from returnn.config import Config
from returnn.engine.report.summaries import Summaries, summaries_folder
from returnn.tf.engine.session.built_network import BuiltNetwork

tf1 = tf.compat.v1

META_PREFIX = "meta:"  # starts the keys of what updater and layers say about a step, such as the norm of the gradient
_SUMMARY_PREFIX = "summary:"  # starts the keys of what is fetched for summaries only


class NetworkSummaries(Summaries):
    """Summaries of the training of a network. TensorFlow writes them, without the package of TensorBoard."""

    # A full disk is an IndexError in TensorFlow's writer.
    _errors = (OSError, IndexError, tf.errors.OpError)

    def __init__(self, config: Config) -> None:
        """:param config: options"""
        super().__init__(summaries_folder(config))
        self.with_objective = config.options.debug_objective_loss_summaries
        self.with_unnormalized = config.options.debug_unnormalized_loss_summaries

    def fetches(self, built: BuiltNetwork) -> dict[str, Any]:
        """
        :param built: its network has its losses, its updater the operation of the update
        :return: what to fetch in each training step
        """
        updater = built.updater
        assert updater is not None
        found = {f"{META_PREFIX}{name}": value for name, value in updater.optim_meta_losses_dict.items()}
        if self.folder:
            found[f"{_SUMMARY_PREFIX}learning_rate"] = updater.learning_rate
            found.update(_summary_operations(built.graph))
        if self.folder and self.with_objective:
            losses = {name: loss.get_loss_value_for_objective() for name, loss in built.network.losses_dict.items()}
            found.update({f"{_SUMMARY_PREFIX}objective_loss/{name}": v for name, v in losses.items() if v is not None})
        return found

    def write_fetched(self, dataset_name: str, means: Mapping[str, float], values: Mapping[str, Any]) -> None:
        """
        :param dataset_name: of the training
        :param means: scores of a training step, by `loss:NAME` and `error:NAME`
        :param values: what was fetched
        """
        scalars, serialized = {}, []
        for key, value in values.items():
            if key.startswith((META_PREFIX, _SUMMARY_PREFIX)):
                if isinstance(value, bytes):
                    serialized.append(value)
                elif numpy.ndim(value) == 0:
                    scalars[key.partition(":")[2]] = value
            elif self.with_unnormalized and key.startswith("loss:"):
                scalars[f"unnormalized_{key.replace(':', '/', 1)}"] = value
        self.write_step(dataset_name, means, scalars, serialized)

    def _event(self, **content: Any) -> tf.compat.v1.Event:
        return tf1.Event(wall_time=time.time(), step=self._step, **content)

    def _open(self, folder: str, *, suffix: str) -> tf.compat.v1.summary.FileWriter:
        with tf.Graph().as_default():  # where eager mode is off, as the writer wants it
            return tf1.summary.FileWriter(folder, filename_suffix=suffix)


def _summary_operations(graph: tf.Graph) -> dict[str, tf.Tensor]:
    """:return: those of the user and of the updater which are not inside of a loop or a function"""
    operations = [tensor for tensor in graph.get_collection(tf1.GraphKeys.SUMMARIES) if tensor.graph is graph]
    return {f"{_SUMMARY_PREFIX}{tensor.name}": tensor for tensor in operations}
