"""
Summaries of a training for TensorBoard: `tensorboard --logdir FOLDER`.

Each data set has a folder of its own, so that TensorBoard draws its curves into one picture: in "train" a point for
each step, in the others one for each evaluation, at the step of the training that it came after.

What is asked for beyond scores and learning rate: `log_grad_norm`, `debug_grad_summaries`,
`debug_objective_loss_summaries`, `debug_unnormalized_loss_summaries`, and whatever `tf.summary` operations the user's
code adds to the graph.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy
import tensorflow as tf

from returnn.config import Config
from returnn.log import log
from returnn.tf.engine.built_network import BuiltNetwork
from returnn.util.errors import UserError

tf1 = tf.compat.v1

FOLDER_NAME = "tensorboard"
META_PREFIX = "meta:"  # starts the keys of what updater and layers say about a step, such as the norm of the gradient
_SUMMARY_PREFIX = "summary:"  # starts the keys of what is fetched for summaries only


def tensorboard_folder(config: Config) -> str | None:
    """
    :param config: its option `tf_log_dir`; None there is for none
    :return: by default beside the model files, if there are any
    """
    if config.has("tf_log_dir"):
        return config.options.tf_log_dir or None
    model = config.options.model
    if not model or config.options.dry_run:
        return None
    return os.path.join(os.path.dirname(model), FOLDER_NAME)


class Summaries:
    """All summaries of a training. Nothing is written without a folder."""

    def __init__(self, config: Config) -> None:
        """:param config: options"""
        self.folder = tensorboard_folder(config)
        self.with_objective = config.options.debug_objective_loss_summaries
        self.with_unnormalized = config.options.debug_unnormalized_loss_summaries
        self._writers: dict[str, Any] = {}
        self._step = 0  # of the training

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

    @contextlib.contextmanager
    def of_pass(self, dataset_name: str, *, start_step: int | None) -> Iterator[None]:
        """
        The context of a pass over a data set. What was written about the steps of a training before, because it was
        stopped and goes on from an earlier one, is not shown any more.

        :param dataset_name: such as "dev"
        :param start_step: number of the first step of the training; None if it is no training
        """
        if self.folder and start_step is not None:
            self._step = start_step
            start = tf1.SessionLog(status=tf1.SessionLog.START)
            writer = self._writer(dataset_name)
            with self._going_on():
                writer.add_session_log(start, self._step)
        try:
            yield
        finally:
            with self._going_on():
                for writer in self._writers.values():
                    writer.flush()

    def write_step(self, dataset_name: str, means: Mapping[str, float], values: Mapping[str, Any]) -> None:
        """
        :param dataset_name: of the training
        :param means: scores of a training step, by `loss:NAME` and `error:NAME`
        :param values: what was fetched
        """
        if not self.folder:
            return
        scalars = {key.replace(":", "/", 1): value for key, value in means.items()}
        serialized = []
        for key, value in values.items():
            if key.startswith((META_PREFIX, _SUMMARY_PREFIX)):
                if isinstance(value, bytes):
                    serialized.append(value)
                elif numpy.ndim(value) == 0:
                    scalars[key.partition(":")[2]] = value
            elif self.with_unnormalized and key.startswith("loss:"):
                scalars[f"unnormalized_{key.replace(':', '/', 1)}"] = value
        self._write(dataset_name, scalars, serialized)
        self._step += 1

    def write_evaluation(self, dataset_name: str, means: Mapping[str, float]) -> None:
        """
        :param dataset_name: such as "dev"
        :param means: scores of all of it, by `loss:NAME` and `error:NAME`
        """
        if self.folder:
            self._write(dataset_name, {key.replace(":", "/", 1): value for key, value in means.items()})

    def close(self) -> None:
        """Ends all files."""
        with self._going_on():
            for writer in self._writers.values():
                writer.close()
        self._writers.clear()

    def _write(self, dataset_name: str, scalars: Mapping[str, Any], serialized: Sequence[bytes] = ()) -> None:
        values = [tf1.Summary.Value(tag=tag, simple_value=float(value)) for tag, value in sorted(scalars.items())]
        summary = tf1.Summary(value=values)
        for other in serialized:
            summary.MergeFromString(other)
        writer = self._writer(dataset_name)
        with self._going_on():
            writer.add_summary(summary, self._step)

    @contextlib.contextmanager
    def _going_on(self) -> Iterator[None]:
        """The context of writing: a training does not end because its curves cannot be shown."""
        try:
            yield
        except (OSError, IndexError, tf.errors.OpError) as exc:  # a full disk is an IndexError in TensorFlow's writer
            reason = str(exc).strip().partition("\n")[0]
            log.print_warning(f"no more summaries for TensorBoard: cannot write to {self.folder!r}: {reason}")
            self.folder = None
            self._writers.clear()

    def _writer(self, dataset_name: str) -> Any:
        if dataset_name not in self._writers:
            folder = os.path.join(self.folder or "", dataset_name)
            try:
                os.makedirs(folder, exist_ok=True)
                with tf.Graph().as_default():  # where eager mode is off, as the writer wants it
                    # A training that starts again in the same second must not replace the file.
                    self._writers[dataset_name] = tf1.summary.FileWriter(folder, filename_suffix=f".{time.time_ns()}")
            except (OSError, tf.errors.OpError) as exc:
                raise UserError(
                    f"option 'tf_log_dir': no file can be written to the folder {folder!r}: {exc}."
                ) from exc
        return self._writers[dataset_name]


def _summary_operations(graph: tf.Graph) -> dict[str, tf.Tensor]:
    """:return: those of the user and of the updater which are not inside of a loop or a function"""
    operations = [tensor for tensor in graph.get_collection(tf1.GraphKeys.SUMMARIES) if tensor.graph is graph]
    return {f"{_SUMMARY_PREFIX}{tensor.name}": tensor for tensor in operations}
