"""
Checkpoints inside of an epoch in TensorFlow's format: all variables, and the position of the training.

See `returnn.engine.run.unfinished_epochs`.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy

from returnn.tf.checkpoint.files import delete_checkpoint, unfinished_checkpoints
from returnn.tf.checkpoint.finite_values import check_finite
from returnn.tf.checkpoint.save import ValuesWriter
from returnn.tf.checkpoint.verify import read_values, verify_checkpoint
from returnn.util.files.checkpoint_files import unfinished_parts_with_suffix

_POSITION = "returnn/training_position"  # in the checkpoint, beside the variables


@dataclass(frozen=True)
class Snapshot:
    """The values of all variables at one moment."""

    values: Mapping[str, numpy.ndarray]  # by name of the variable
    trained: frozenset[str]  # names of those that training changes


class UnfinishedCheckpoints:
    """See `returnn.engine.run.unfinished_epochs.UnfinishedFormat`."""

    def __init__(self) -> None:
        self._writer: ValuesWriter | None = None

    def begin_epoch(self) -> None:
        """The network may be another one."""
        self._writer = None

    def existing(self, model: str) -> dict[int, str]:
        """:return: epoch -> name without suffix"""
        return unfinished_checkpoints(model)

    def write(self, checkpoint: str, snapshot: Snapshot, position: str) -> None:
        """:raises CheckpointError: if it cannot be written, or has values that are not finite"""
        check_finite(snapshot.values, checkpoint, trained=snapshot.trained)
        values = {**snapshot.values, _POSITION: numpy.array(position, object)}
        if self._writer is None:
            self._writer = ValuesWriter(values)
        self._writer.save(values, checkpoint)

    def leaves(self, snapshot: Snapshot) -> Mapping[str, numpy.ndarray]:
        """:return: values of variables, by name"""
        return snapshot.values

    def bytes_of(self, leaf: numpy.ndarray) -> Iterator[bytes | numpy.ndarray]:
        """:return: other ones for another value"""
        value = numpy.asarray(leaf)
        yield pickle.dumps(value.tolist()) if value.dtype.hasobject else numpy.ascontiguousarray(value).view("uint8")

    def write_part(self, part: str, leaves: Mapping[str, numpy.ndarray], position: str) -> None:
        """:raises CheckpointError: if it cannot be written"""
        values = {**leaves, _POSITION: numpy.array(position, object)}
        ValuesWriter(values).save(values, part)

    def existing_parts(self, model: str) -> dict[str, int]:
        """:return: name without suffix -> epoch"""
        return unfinished_parts_with_suffix(model, ".index")

    def read_position(self, checkpoint: str) -> str:
        """:raises CheckpointError: if something is missing or damaged"""
        verify_checkpoint(checkpoint)
        text = numpy.asarray(read_values(checkpoint, [_POSITION]).get(_POSITION, b"")).item()
        return text.decode("utf8", "replace") if isinstance(text, bytes) else ""

    def delete(self, checkpoint: str) -> None:
        """:raises CheckpointError: if it cannot be deleted"""
        delete_checkpoint(checkpoint)


def read_unfinished_values(checkpoint: str, part: str | None) -> dict[str, numpy.ndarray]:
    """
    :param checkpoint: name without suffix
    :param part: of what differs in this process, if there is one
    :return: of all variables, by name
    """
    values = read_values(checkpoint)
    if part is not None:
        values |= read_values(part)
    return {name: value for name, value in values.items() if name != _POSITION}
