"""
What the other processes add to a checkpoint inside of an epoch, "network.012.unfinished.step400.worker3": their
position, and the values that differ from those of the first process, such as statistics of their own batches, collected
gradients, or all parameters if they are only averaged now and then.

All parts are written before the checkpoint of the first process replaces the one before, and those of the one before
are deleted after that. So there are all parts of the checkpoint at any time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

import numpy

from returnn.engine.run.processes import Processes
from returnn.engine.training_position import PositionError, TrainingPosition
from returnn.util.files.checkpoint_files import CheckpointError, unfinished_part_filename
from returnn.util.texts.counted import counted

Buffer: TypeAlias = "bytes | numpy.ndarray"
_DIGEST_BYTES = 6  # float64 has them exactly


class PartFormat(Protocol):
    """The files of a backend."""

    def leaves(self, snapshot: Any) -> Mapping[str, Any]:
        """:return: all values by name, with the same names in all processes"""

    def bytes_of(self, leaf: Any) -> Iterator[Buffer]:
        """:return: all together, other ones for another value"""

    def write_part(self, part: str, leaves: Mapping[str, Any], position: str) -> None:
        """:raises CheckpointError: if it cannot be written"""

    def existing_parts(self, model: str) -> dict[str, int]:
        """:return: name without suffix -> epoch"""

    def read_position(self, checkpoint: str) -> str:
        """:raises CheckpointError: if something is missing or damaged"""

    def delete(self, checkpoint: str) -> None:
        """:raises CheckpointError: if it cannot be deleted"""


class UnfinishedParts:
    """Those of this process, and what all have to agree on."""

    def __init__(self, processes: Processes, files: PartFormat) -> None:
        """
        :param processes: all
        :param files: of the backend
        """
        self._processes = processes
        self._files = files
        self._own: list[str] = []  # that this process has written and not deleted

    # Writing.

    def write(
        self, checkpoint: str, position: TrainingPosition, snapshot: Any, *, last: TrainingPosition | None
    ) -> list[str]:
        """
        All processes call it after the same step.

        :param checkpoint: of the first process
        :param position: of this one
        :param snapshot: of this one
        :param last: what the checkpoint of the first process has now; known to it alone
        :return: errors of all processes, the same in all
        """
        processes = self._processes
        leaves = dict(sorted(self._files.leaves(snapshot).items()))
        digests = [_digest(self._files.bytes_of(leaf)) for leaf in leaves.values()]
        first = [*(digests if processes.is_first else [0] * len(digests)), *self._number_of(last)]
        of_first = processes.sum(first).astype("int64").tolist()
        error = None
        if not processes.is_first:
            other = [name for name, own, his in zip(leaves, digests, of_first, strict=False) if own != his]
            last_epoch, last_step = of_first[-2:]
            try:
                self._delete_all_but(last_epoch, last_step)
                part = unfinished_part_filename(checkpoint, position.num_steps, processes.rank)
                self._files.write_part(part, {name: leaves[name] for name in other}, position.as_text())
                self._own.append(part)
            except CheckpointError as exc:
                error = str(exc)
        return processes.all_names([] if error is None else [error.replace("\n", " ")])

    @staticmethod
    def _number_of(last: TrainingPosition | None) -> list[int]:
        return [0, 0] if last is None else [last.epoch, last.num_steps]

    def _delete_all_but(self, epoch: int, step: int) -> None:
        """:param epoch: and step of what a restart needs"""
        for part in list(self._own):
            if not part.endswith(f".{epoch:03d}.unfinished.step{step}.worker{self._processes.rank}"):
                self._own.remove(part)
                if part in self._files.existing_parts(_model_of(part)):
                    self._files.delete(part)

    # Finding.

    def read(self, checkpoint: str, first: TrainingPosition) -> tuple[TrainingPosition, str | None]:
        """
        :param checkpoint: of the first process
        :param first: its position
        :return: the position of this process, and its part, if there has to be one
        :raises CheckpointError: if it is missing or damaged
        :raises PositionError: if it does not fit
        """
        if first.num_workers != self._processes.size:
            raise PositionError(
                f"It is of {counted(first.num_workers, 'worker')}, and there are {self._processes.size} now, with "
                "other batches."
            )
        if self._processes.is_first:
            return first, None
        part = unfinished_part_filename(checkpoint, first.num_steps, self._processes.rank)
        position = TrainingPosition.from_text(self._files.read_position(part))
        if (position.epoch, position.num_steps) != (first.epoch, first.num_steps):
            raise PositionError(f"{part!r} is of {position}, and not of {first}.")
        self._own.append(part)
        return position, part

    def who_cannot(self, found: TrainingPosition | None) -> list[int]:
        """
        :param found: what this process could go on from
        :return: ranks of those that cannot go on from what the first one has; all call it
        """
        step = -1 if found is None else found.first_train_step + found.num_steps
        steps = self._processes.of_all(step).tolist()
        if max(steps) < 0:
            return []
        return [rank for rank, number in enumerate(steps) if number < 0 or number != steps[0]]


def _digest(content: Iterable[Buffer]) -> int:
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for piece in content:
        digest.update(piece)
    return int.from_bytes(digest.digest(), "little")


def _model_of(part: str) -> str:
    """:return: option `model`"""
    name = part.partition(".unfinished.step")[0].rpartition(".")[0]
    return name.removesuffix(".pretrain")
