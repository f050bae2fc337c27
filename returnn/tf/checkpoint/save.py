"""
Writing of a checkpoint: it is complete or absent, whenever the process ends.

The files are written into a folder of their own, `<checkpoint>.saving`, synced to the disk, and then the folder is
renamed to `<checkpoint>.ready`. From then on the checkpoint is safe: its files are moved to their place, the index
last, and if that is interrupted, `finish_interrupted_saves` does it at the next start.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping

import numpy
import tensorflow as tf

from returnn.tf.checkpoint.files import CheckpointError, checkpoint_files, entries_of_folder, sync
from returnn.tf.checkpoint.finite_values import FiniteValues
from returnn.tf.util.op_error import op_error_text

_SAVING = ".saving"
_READY = ".ready"


class CheckpointWriter:
    """Saves the values of variables, as often as wanted. Adds its ops to the current graph."""

    def __init__(self, variables: Mapping[str, tf.Variable | tf.Tensor]):
        """:param variables: name in the checkpoint -> what to save"""
        self.names = sorted(variables)
        with tf.device("/cpu:0"), tf.name_scope("save"):
            values = {name: _value(variables[name]) for name in self.names}
            trained = frozenset(name for name in self.names if _is_trained(variables[name]))
            self._finite_values = FiniteValues(values, trained=trained)
            self._prefix = tf.compat.v1.placeholder(tf.string, (), name="prefix")
            self._save = tf.raw_ops.SaveV2(
                prefix=self._prefix,
                tensor_names=self.names,
                shape_and_slices=[""] * len(self.names),
                tensors=list(values.values()),
            )

    def save(self, session: tf.compat.v1.Session, checkpoint: str, *, may_be_broken: bool = False) -> None:
        """
        :param checkpoint: name without suffix. What is there under that name is replaced
        :param may_be_broken: whether it is to be looked at, and nothing starts from it
        :raises CheckpointError: if it cannot be written, or has values that are not finite; what was there before stays
        """

        def check() -> None:
            if not may_be_broken:
                self._finite_values.check(session, checkpoint)

        _write_aside(checkpoint, lambda prefix: session.run(self._save, {self._prefix: prefix}), check=check)


class ValuesWriter:
    """
    Saves values that are not in a session, so also in a thread beside it. It has a graph and a thread of its own.
    """

    def __init__(self, values: Mapping[str, numpy.ndarray]):
        """:param values: name in the checkpoint -> a value of the same type as those that will be saved"""
        self.names = sorted(values)
        options = tf.compat.v1.ConfigProto(device_count={"GPU": 0}, use_per_session_threads=True)
        options.intra_op_parallelism_threads = options.inter_op_parallelism_threads = 1
        with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
            self._prefix = tf.compat.v1.placeholder(tf.string, ())
            self._values = [tf.compat.v1.placeholder(_dtype_of(values[name])) for name in self.names]
            self._save = tf.raw_ops.SaveV2(
                prefix=self._prefix,
                tensor_names=self.names,
                shape_and_slices=[""] * len(self.names),
                tensors=self._values,
            )
            self._session = tf.compat.v1.Session(graph=graph, config=options)

    def save(self, values: Mapping[str, numpy.ndarray], checkpoint: str) -> None:
        """
        :param values: of all names
        :param checkpoint: name without suffix. What is there under that name is replaced
        :raises CheckpointError: if it cannot be written; what was there before stays
        """
        feed = dict(zip(self._values, (values[name] for name in self.names), strict=True))
        _write_aside(checkpoint, lambda prefix: self._session.run(self._save, {self._prefix: prefix, **feed}))


def finish_interrupted_saves(model: str) -> list[str]:
    """
    Puts checkpoints in their place that are complete, and deletes the rest of those that are not. For the start of a
    training, when nobody else saves.

    :param model: option `model`; all checkpoints whose name starts with it and a dot
    :return: a sentence for each of them
    :raises CheckpointError: if files cannot be moved or deleted
    """
    folder, name = os.path.split(model)
    pattern = re.compile(re.escape(name) + rf"\.(pretrain\.)?\d{{3,}}[\w.]*({_SAVING}|{_READY})")
    entries = [entry for entry in entries_of_folder(folder) if pattern.fullmatch(entry)]
    try:
        return [_finish_or_delete(os.path.join(folder, entry)) for entry in sorted(entries)]
    except OSError as exc:
        raise CheckpointError(f"interrupted save of {model!r}: {exc.strerror}: {exc.filename!r}.") from exc


def _write_aside(checkpoint: str, write: Callable[[str], object], *, check: Callable[[], None] = lambda: None) -> None:
    """
    :param checkpoint: name without suffix
    :param write: writes the files, whose names begin with what it gets
    :param check: of the values. It comes first, and can raise
    """
    folder = f"{checkpoint}{_SAVING}"
    try:
        check()
        os.makedirs(os.path.dirname(checkpoint) or ".", exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        write(os.path.join(folder, os.path.basename(checkpoint)))
        _finish(folder, checkpoint)
    except (OSError, tf.errors.OpError) as exc:
        shutil.rmtree(folder, ignore_errors=True)
        raise CheckpointError(
            f"checkpoint {checkpoint!r} cannot be written: {_reason(exc)}.\n"
            "  Checkpoints that are there are as they were."
        ) from exc


def _dtype_of(value: numpy.ndarray) -> tf.DType:
    return tf.string if value.dtype == object else tf.as_dtype(value.dtype)


def _value(variable: tf.Variable | tf.Tensor) -> tf.Tensor:
    return variable.read_value() if isinstance(variable, tf.Variable) else variable


def _is_trained(variable: tf.Variable | tf.Tensor) -> bool:
    return isinstance(variable, tf.Variable) and variable.trainable


def _finish(folder: str, checkpoint: str) -> None:
    """From files in `<checkpoint>.saving` to the checkpoint."""
    for entry in os.listdir(folder):
        sync(os.path.join(folder, entry))
    sync(folder)
    ready = f"{checkpoint}{_READY}"
    shutil.rmtree(ready, ignore_errors=True)
    os.rename(folder, ready)
    sync(os.path.dirname(checkpoint))
    _move_to_place(ready, checkpoint)


def _move_to_place(ready: str, checkpoint: str) -> None:
    """Can be interrupted and repeated at any point."""
    target = os.path.dirname(checkpoint)
    entries = os.listdir(ready)
    data = [entry for entry in entries if not entry.endswith(".index")]
    if data:  # else they are in place already, and the old files are gone
        for file in checkpoint_files(checkpoint):
            os.remove(file)
    for entry in [*data, *(set(entries) - set(data))]:
        sync(target)
        os.replace(os.path.join(ready, entry), os.path.join(target, entry))
    sync(target)
    os.rmdir(ready)


def _finish_or_delete(folder: str) -> str:
    if folder.endswith(_SAVING):
        shutil.rmtree(folder)
        return f"Deleted {folder!r}, a checkpoint that was being written when the process ended."
    checkpoint = folder.removesuffix(_READY)
    _move_to_place(folder, checkpoint)
    return f"Completed checkpoint {checkpoint!r}, which was written when the process ended."


def _reason(exc: OSError | tf.errors.OpError) -> str:
    """:return: without a full stop at the end"""
    if isinstance(exc, OSError):
        return f"{exc.strerror}: {exc.filename!r}"
    text = op_error_text(exc).partition(" (operation ")[0]
    return text.rpartition("; ")[2].split(". ")[0].rstrip(".")  # before it: a temporary file
