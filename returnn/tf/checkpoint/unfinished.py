"""
Checkpoints inside of an epoch in TensorFlow's format: all variables, and the position of the training.

See `returnn.engine.run.unfinished_epochs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy

from returnn.tf.checkpoint.files import delete_checkpoint, unfinished_checkpoints
from returnn.tf.checkpoint.finite_values import check_finite
from returnn.tf.checkpoint.save import ValuesWriter
from returnn.tf.checkpoint.verify import read_values, verify_checkpoint

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

    def read_position(self, checkpoint: str) -> str:
        """:raises CheckpointError: if something is missing or damaged"""
        verify_checkpoint(checkpoint)
        text = numpy.asarray(read_values(checkpoint, [_POSITION]).get(_POSITION, b"")).item()
        return text.decode("utf8", "replace") if isinstance(text, bytes) else ""

    def delete(self, checkpoint: str) -> None:
        """:raises CheckpointError: if it cannot be deleted"""
        delete_checkpoint(checkpoint)


def read_unfinished_values(checkpoint: str) -> dict[str, numpy.ndarray]:
    """:return: of all variables, by name"""
    return {name: value for name, value in read_values(checkpoint).items() if name != _POSITION}
