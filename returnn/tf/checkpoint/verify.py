"""Reading of checkpoints with all checksums, and which of several is the newest that is intact."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

import numpy
import tensorflow as tf

from returnn.tf.checkpoint.files import (
    CheckpointError,
    check_readable,
    checkpoint_exists,
    checkpoint_files,
    entries_of_folder,
)
from returnn.util.files.checkpoint_files import NewestIntact, missing_checkpoint_error, newest_intact

# What the reader raises: some errors of TensorFlow arrive as those of Python.
_READ_ERRORS = (tf.errors.OpError, RuntimeError, ValueError, IndexError)


def open_checkpoint(checkpoint: str) -> tf.train.CheckpointReader:
    """
    :param checkpoint: name without suffix
    :return: reader; its index is intact
    :raises CheckpointError: if the checkpoint is missing, or the index is damaged
    :raises UnreadableError: if a file cannot be read
    """
    if not checkpoint_exists(checkpoint):
        raise _missing(checkpoint)
    if missing := _missing_data_file(checkpoint):
        raise CheckpointError(f"checkpoint {checkpoint!r}: the file {missing!r} is missing.")
    try:
        return tf.train.load_checkpoint(checkpoint)
    except _READ_ERRORS as exc:
        check_readable(checkpoint)
        raise CheckpointError(f"checkpoint {checkpoint!r}: {_reason(exc, f'{checkpoint}.index')}.") from exc


def read_tensor(reader: tf.train.CheckpointReader, name: str, *, checkpoint: str) -> object:
    """
    :return: numpy array; its checksum is right
    :raises CheckpointError: if the data is damaged
    :raises UnreadableError: if the file cannot be read
    """
    try:
        return reader.get_tensor(name)
    except _READ_ERRORS as exc:
        check_readable(checkpoint)
        data = next((file for file in checkpoint_files(checkpoint) if ".data-" in file), f"{checkpoint}.data")
        raise CheckpointError(f"checkpoint {checkpoint!r}: {_reason(exc, data)}, at {name!r}.") from exc


def verify_checkpoint(checkpoint: str) -> None:
    """
    Reads everything, one tensor at a time.

    :raises CheckpointError: if something is missing or damaged
    :raises UnreadableError: if that is not known
    """
    reader = open_checkpoint(checkpoint)
    for name in sorted(reader.get_variable_to_shape_map()):
        read_tensor(reader, name, checkpoint=checkpoint)


def read_values(checkpoint: str, names: Collection[str] | None = None) -> dict[str, numpy.ndarray]:
    """
    :param checkpoint: name without suffix
    :param names: only these, as far as they are there; None: all
    :return: values, by name
    :raises CheckpointError: if something is missing or damaged
    :raises UnreadableError: if that is not known
    """
    reader = open_checkpoint(checkpoint)
    found = reader.get_variable_to_shape_map()
    wanted = sorted(found if names is None else set(found).intersection(names))
    return {name: read_tensor(reader, name, checkpoint=checkpoint) for name in wanted}


def newest_intact_checkpoint(checkpoints: Mapping[int, str]) -> NewestIntact:
    """
    :param checkpoints: epoch -> name without suffix
    :raises UnreadableError: if it is not known whether a newer one is intact
    """
    return newest_intact(checkpoints, verify_checkpoint)


def _missing_data_file(checkpoint: str) -> str | None:
    """The values can be spread over several files, whose names say how many there are."""
    found = {
        file.rpartition(".data-")[2] for file in checkpoint_files(checkpoint) if ".data-" in os.path.basename(file)
    }
    count = max((int(suffix[-5:]) for suffix in found), default=1)
    wanted = (f"{i:05d}-of-{count:05d}" for i in range(count))
    return next((f"{checkpoint}.data-{suffix}" for suffix in wanted if suffix not in found), None)


def _missing(checkpoint: str) -> CheckpointError:
    if checkpoint_files(checkpoint):
        return CheckpointError(f"checkpoint {checkpoint!r}: the file '{checkpoint}.index' is missing.")
    names = entries_of_folder(os.path.dirname(checkpoint))
    have = [entry.removesuffix(".index") for entry in names if entry.endswith(".index")]
    return missing_checkpoint_error(checkpoint, have, backend="TensorFlow", suffixes=[".index"])


def _reason(exc: Exception, file: str) -> str:
    """:return: e.g. "the file 'model.012.index' is damaged (checksum)" """
    if isinstance(exc, tf.errors.NotFoundError):
        return f"a file beside {file!r} is missing"
    if isinstance(exc, (tf.errors.OutOfRangeError, IndexError)):
        return f"the file {file!r} is truncated"
    return f"the file {file!r} is damaged"
