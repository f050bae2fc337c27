"""What a backend does for a model of the frontend: makes it, and computes steps. The rest is the same for all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from returnn.datasets.core.batch_generator import BatchSetGenerator
from returnn.engine.epochs import with_epoch
from returnn.engine.frontend.batch_arrays import ArrayBatch, ArrayMaker
from returnn.engine.frontend.losses import LossPerSeq
from returnn.engine.frontend.outputs import OutputArray
from returnn.engine.run.model_files import CheckpointFormat
from returnn.engine.run.processes import Processes
from returnn.engine.run.unfinished import UnfinishedEpoch
from returnn.engine.run.unfinished_epochs import UnfinishedFormat
from returnn.engine.training_position import TrainingPosition
from returnn.tensor import TensorDict


@dataclass(frozen=True)
class Step:
    """Which step it is."""

    dataset_name: str  # such as "train"
    epoch: int  # from 1; 0 if it is not known which one the model is of
    index: int  # of the pass over the data, from 0

    def describe(self, tags: Sequence[str]) -> str:
        """:return: for people, with the first sequences"""
        names = ", ".join(map(repr, tags[:3])) + (", ..." if len(tags) > 3 else "")
        return f"{with_epoch(self.dataset_name, self.epoch, separator=', ')}, step {self.index}, sequences {names}"


class ModelRunner(Protocol):
    """
    The model, where it is computed.

    Values of a step are numbers by `loss:NAME`, `error:NAME` (sums), `norm:NAME` (1 / number of frames) and `meta:NAME`
    (anything else to show).
    """

    processes: Processes | None  # if the training has several
    checkpoints: CheckpointFormat
    unfinished: UnfinishedFormat
    all_scores_are_losses: bool  # how the learning rate file names them, see `returnn.engine.score_names`

    @property
    def model(self) -> Any:
        """What `get_model` returned."""

    @property
    def train_step(self) -> int:
        """Number of training steps so far."""

    @property
    def num_params(self) -> int:
        """Number of entries of all parameters."""

    @property
    def is_on_host(self) -> bool:
        """Whether it is computed on CPUs."""

    @property
    def templates(self) -> TensorDict:
        """What the config says of the data, by key."""

    # Model and parameters.

    def build(self, *, epoch: int, filename: str | None, is_training: bool, is_own: bool, step: int = 0) -> None:
        """
        Makes the model, and gives it its parameters.

        :param epoch: from 1
        :param filename: of a checkpoint, without suffix, that the parameters come from
        :param is_training: whether parameters will be updated
        :param is_own: whether the checkpoint is one of this training, which goes on from it
        :param step: number of training steps so far, if no checkpoint of this training says it
        """

    def save(self, filename: str, *, epoch: int, may_be_broken: bool = False) -> None:
        """Writes a checkpoint, see `TrainedModel.save`."""

    def load(self, filename: str) -> None:
        """Loads a checkpoint of this training, see `TrainedModel.load`."""

    def snapshot(self) -> Any:
        """:return: all that training changes, for `unfinished`; steps that come after this do not change it"""

    def restore(self, unfinished: UnfinishedEpoch) -> None:
        """
        Sets all that training changes.

        :param unfinished: what `unfinished` wrote
        :raises PositionError: if it is of another model
        """

    def set_learning_rate(self, learning_rate: float) -> None:
        """Sets the learning rate of the steps to come."""

    def is_preloaded(self, *, is_training: bool) -> bool:
        """:return: whether `preload_from_files` has parameters for the model"""

    def close(self) -> None:
        """Frees what is to be freed."""

    # Steps.

    def feeder(
        self,
        maker: ArrayMaker,
        batches: BatchSetGenerator,
        *,
        while_waiting: Callable[[], None],
        resumed_at: TrainingPosition | None,
    ) -> AbstractContextManager[Iterable[ArrayBatch]]:
        """
        :param maker: loads them
        :param batches: of the epoch that its data set is in
        :param while_waiting: called again and again while there is no batch; can raise
        :param resumed_at: begin behind the batches of this position
        :return: context over which to iterate
        """

    def train(self, batch: ArrayBatch, step: Step) -> Mapping[str, float]:
        """
        Updates the parameters.

        :return: values of the step
        :raises NonFiniteError: if loss or gradients are not finite; the parameters are those of before
        """

    def try_gradients(self, batch: ArrayBatch, step: Step) -> bool:
        """
        Computes the gradients of a step, and forgets them. Other processes take no part.

        :return: whether there was memory enough
        """

    def end_train_pass(self, epoch: int) -> None:
        """What is to be done after the last step of an epoch."""

    def evaluate(
        self, batch: ArrayBatch, step: Step, *, train_flag: bool, per_seq: LossPerSeq | None
    ) -> Mapping[str, float]:
        """
        :param train_flag: whether dropout and the like are on
        :param per_seq: gets the scores of the sequences
        :return: values of the step
        """

    def forward(self, batch: ArrayBatch, step: Step) -> dict[str, OutputArray]:
        """:return: the outputs that `forward_step` marks, by name"""

    def is_out_of_memory(self, exc: Exception) -> bool:
        """:return: whether a step failed because memory was not enough, so that a smaller batch may do"""

    def summaries_of_step(self) -> Mapping[str, float]:
        """:return: what else TensorBoard shows of the last training step, by name"""
