"""
Curves of a training for TensorBoard, `tensorboard --logdir FOLDER`, written without a framework.

Each data set has a folder of its own, so that TensorBoard draws its curves into one picture: in "train" a point for
each step, in the others one for each evaluation, at the step of the training that it came after.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import time
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from returnn.config import Config
from returnn.log import log
from returnn.util.errors import UserError
from returnn.util.python.optional_import import import_optional

_FOLDER_NAME = "tensorboard"
_WITHOUT_TENSORFLOW = "tensorboard.compat.notf"


class Summaries:
    """All curves of a training. Nothing is written without a folder."""

    _errors: tuple[type[Exception], ...] = (OSError,)  # what cannot be written raises

    def __init__(self, folder: str | None) -> None:
        """:param folder: where curves go"""
        self.folder = folder
        self._writers: dict[str, Any] = {}
        self._step = 0  # of the training

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
            self._add(dataset_name, self._event(session_log={"status": 1}))
        try:
            yield
        finally:
            with self._going_on():
                for writer in self._writers.values():
                    writer.flush()

    def write_step(
        self,
        dataset_name: str,
        means: Mapping[str, float],
        more: Mapping[str, float],
        serialized: Sequence[bytes] = (),
    ) -> None:
        """
        :param dataset_name: of the training
        :param means: scores of a training step, by `loss:NAME` and `error:NAME`
        :param more: other numbers, by name
        :param serialized: more summaries
        """
        if self.folder:
            self._write(dataset_name, {**_by_tag(means), **more}, serialized)
        self._step += 1

    def write_evaluation(self, dataset_name: str, means: Mapping[str, float], *, step: int) -> None:
        """
        :param dataset_name: such as "dev"
        :param means: scores of all of it, by `loss:NAME` and `error:NAME`
        :param step: how many steps the training has done. It can go on with an evaluation, and no step before that
        """
        self._step = step
        if self.folder:
            self._write(dataset_name, _by_tag(means))

    def close(self) -> None:
        """Ends all files."""
        with self._going_on():
            for writer in self._writers.values():
                writer.close()
        self._writers.clear()

    def _write(self, dataset_name: str, scalars: Mapping[str, float], serialized: Sequence[bytes] = ()) -> None:
        """
        :param scalars: by tag
        :param serialized: more summaries
        """
        values = [{"tag": tag, "simple_value": float(value)} for tag, value in sorted(scalars.items())]
        event = self._event(summary={"value": values})
        for other in serialized:
            event.summary.MergeFromString(other)
        self._add(dataset_name, event)

    def _event(self, **content: Any) -> Any:
        """:return: a record of the file, with these fields"""
        protos = import_optional("tensorboard.compat.proto.event_pb2", needed_for="option 'use_tensorboard'")
        return protos.Event(wall_time=time.time(), step=self._step, **content)

    def _add(self, dataset_name: str, event: Any) -> None:
        with self._going_on():
            self._writer(dataset_name).add_event(event)

    @contextlib.contextmanager
    def _going_on(self) -> Iterator[None]:
        """The context of writing: a training does not end because its curves cannot be shown."""
        try:
            yield
        except self._errors as exc:
            reason = str(exc).strip().partition("\n")[0]
            log.print_warning(f"no more summaries for TensorBoard: cannot write to {self.folder!r}: {reason}")
            self.folder = None
            self._writers.clear()

    def _writer(self, dataset_name: str) -> Any:
        """:raises UserError: if not even the first file can be written"""
        if dataset_name not in self._writers:
            folder = os.path.join(self.folder or "", dataset_name)
            try:
                os.makedirs(folder, exist_ok=True)
                # A training that starts again in the same second must not replace the file.
                self._writers[dataset_name] = self._open(folder, suffix=f".{time.time_ns()}")
            except self._errors as exc:
                if self._writers:
                    raise
                raise UserError(
                    f"option 'tf_log_dir': no file can be written to the folder {folder!r}: {exc}."
                ) from exc
        return self._writers[dataset_name]

    def _open(self, folder: str, *, suffix: str) -> Any:
        """:return: a writer of a new file, whose name ends in this"""
        _open_files_without_tensorflow()
        module = import_optional("tensorboard.summary.writer.event_file_writer", needed_for="option 'use_tensorboard'")
        return module.EventFileWriter(folder, filename_suffix=suffix)


def _open_files_without_tensorflow() -> None:
    """TensorBoard asks TensorFlow to open a file, unless it has this module: that takes seconds, and prints lines."""
    if "tensorflow" not in sys.modules:
        sys.modules.setdefault(_WITHOUT_TENSORFLOW, types.ModuleType(_WITHOUT_TENSORFLOW))


def _by_tag(means: Mapping[str, float]) -> dict[str, float]:
    return {key.replace(":", "/", 1): value for key, value in means.items()}


def summaries_folder(config: Config) -> str | None:
    """
    :param config: its option `tf_log_dir`; None there is for none
    :return: by default beside the model files, if there are any
    """
    if config.options.dry_run:
        return None
    if config.has("tf_log_dir"):
        return config.options.tf_log_dir or None
    model = config.options.model
    return os.path.join(os.path.dirname(model), _FOLDER_NAME) if model else None


def wanted_summaries_folder(config: Config) -> str | None:
    """
    :param config: its option `use_tensorboard`, and those of `summaries_folder`
    :return: where curves go, if they are wanted: by default, if TensorBoard is installed
    """
    wanted = config.options.use_tensorboard
    if wanted is None:
        wanted = importlib.util.find_spec("tensorboard") is not None
    return summaries_folder(config) if wanted else None
