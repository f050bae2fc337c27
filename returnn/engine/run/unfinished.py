"""What was saved inside of an epoch, for all backends; see `TrainingPosition`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from returnn.engine.training_position import TrainingPosition
from returnn.util.errors import UserError


@dataclass(frozen=True)
class Wishes:
    """What a process wants after a step. If several train together, all do what one of them wants."""

    save: bool = False  # it is time to save inside of the epoch
    stop: bool = False  # the job of the process ends
    end: bool = False  # somebody asked the process to end


@dataclass(frozen=True)
class UnfinishedEpoch:
    """What a training goes on from, inside of an epoch."""

    position: TrainingPosition  # of this process
    checkpoint: str
    part: str | None = None  # what differs from it in this process, if several processes train; None: nothing


class UnfinishedFiles(Protocol):
    """Writes and finds checkpoints inside of epochs of one training."""

    are_written: bool  # by all processes together

    def newest(self, *, last_model: int) -> UnfinishedEpoch | None:
        """
        :param last_model: the last epoch that has a model file; 0: none
        :return: what to go on from; says why, if there is something that cannot be used. All processes call it
        """

    def report_unusable(self, checkpoint: str, reason: UserError) -> None:
        """Says that the epoch starts from its beginning."""

    def begin_epoch(self, *, num_steps: int) -> None:
        """
        The time until the next one begins now.

        :param num_steps: where the epoch goes on
        """

    def is_due(self, num_steps: int) -> bool:
        """
        :param num_steps: of the epoch, so far
        :return: whether it is time to save; False if the first process of several says it
        """

    def save(self, position: TrainingPosition, snapshot: Any, *, last_model: int) -> None:
        """
        Begins to write; `wait` waits until it is done. All processes call it after the same step.

        :param position: of the training
        :param snapshot: what `TrainedModel.snapshot` returned
        :param last_model: the last epoch that has a model file; 0: none
        """

    def wait(self) -> bool:
        """:return: whether what was begun could be written"""

    def delete(self) -> None:
        """Deletes them, because the current epoch has its checkpoint now."""
