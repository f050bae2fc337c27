"""`TrainedNetwork`: the networks of a session, as training and evaluation see them (`returnn.engine.run`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from returnn.config import Config
from returnn.datasets.core.batch_generator import BatchSetGenerator
from returnn.datasets.core.dataset import Dataset
from returnn.engine.epochs import with_epoch
from returnn.engine.report.network_picture import NetworkPicture
from returnn.engine.run.auto_batch_size import Tried
from returnn.engine.run.known_network import NetworkIdentity
from returnn.engine.run.model_files import ModelFiles
from returnn.engine.run.scores import Scores
from returnn.engine.run.seq_scores import SeqScores
from returnn.engine.run.unfinished import UnfinishedEpoch, Wishes
from returnn.engine.training_position import TrainingPosition
from returnn.log import log
from returnn.tf.checkpoint.unfinished import Snapshot
from returnn.tf.engine.feeding.batches import batches_of
from returnn.tf.engine.passes.data_pass import DataPass
from returnn.tf.engine.passes.seq_scores import NetworkSeqScores
from returnn.tf.engine.passes.trial import try_batch
from returnn.tf.engine.session.built_network import BuiltNetwork
from returnn.tf.engine.session.device import computes_on_host
from returnn.tf.engine.session.network_of_epoch import NetworkOfEpoch
from returnn.tf.engine.session.network_session import NetworkSession
from returnn.tf.inspection.drawing import drawn_network
from returnn.tf.inspection.found_layers import found_layers
from returnn.tf.inspection.picture import as_svg
from returnn.util.system.restart import restart_program

_MAX_LAYERS_OF_PICTURE = 1000  # to lay out more takes seconds


class TrainedNetwork:
    """A network, another one in another epoch maybe."""

    def __init__(self, session: NetworkSession, network_of_epoch: NetworkOfEpoch, model_files: ModelFiles) -> None:
        """
        :param session: with the network
        :param network_of_epoch: changes the network when an epoch has another one
        :param model_files: where the epochs are kept
        """
        self.session = session
        self.config = session.config
        self.network_of_epoch = network_of_epoch
        self.model_files = model_files
        self._num_changes = 0  # of the network, in this run
        self._drawn: BuiltNetwork | None = None

    @property
    def loaded_epoch(self) -> int | None:
        """Whose model file was loaded at the beginning."""
        return self.network_of_epoch.loaded_epoch

    @property
    def num_params(self) -> int:
        """Number of entries of all parameters."""
        return int(self.session.network.get_num_params())

    @property
    def is_on_host(self) -> bool:
        """Whether it is computed on CPUs."""
        return computes_on_host(self.config)

    @property
    def unfinished(self) -> UnfinishedEpoch | None:
        """If the training goes on inside of an epoch."""
        return self.network_of_epoch.unfinished

    @property
    def is_resumed(self) -> bool:
        """Whether the training goes on with what it saved before."""
        return self.network_of_epoch.is_resumed

    @property
    def network_identity(self) -> NetworkIdentity | None:
        """What is noted of the network at the end of the training, if anything."""
        return self.network_of_epoch.identity(max(self.session.epochs.final, 1))

    @property
    def learning_rate(self) -> float | None:
        """What the net dict of the epoch says by `#config`, as the constant of its epochs."""
        return self.config.options.learning_rate if "learning_rate" in self.session.options_of_net.original else None

    # Training.

    def begin(self, config: Config, *, may_be_unfinished: bool = True) -> None:
        """Builds the network of the task, see `NetworkOfEpoch.begin`."""
        self.network_of_epoch.begin(config, may_be_unfinished=may_be_unfinished)

    def begin_data(self, name: str, dataset: Dataset) -> None:
        """Begins the current epoch of a data set."""
        self.session.begin_data(name, dataset)

    def go_on_from(self, unfinished: UnfinishedEpoch) -> None:
        """Sets all variables, see `NetworkSession.go_on_from`."""
        self.session.go_on_from(unfinished)
        self._leave_picture()

    def snapshot(self) -> Snapshot:
        """:return: what all variables are now"""
        return self.session.snapshot()

    def begin_epoch(self) -> None:
        """Changes to the network of the epoch."""
        epochs = self.session.epochs
        net_dict = self.network_of_epoch.net_dicts.of_epoch(epochs.current, step=self.session.train_step())
        if self.network_of_epoch.is_another(net_dict):
            print(f"{epochs}: has another network", file=log.v3)
            self._restart_before_change()
            self.network_of_epoch.change(net_dict)
            self._num_changes += 1
        self._leave_picture()

    def _leave_picture(self) -> None:
        """Of the network, beside the model files, once."""
        if self._drawn is self.session.built or not self.model_files.are_written:
            return
        self._drawn = self.session.built
        NetworkPicture.of_training(self.config).update(self._picture)

    def _picture(self) -> str | None:
        layers = found_layers(self.session.network)
        if len(layers) > _MAX_LAYERS_OF_PICTURE:
            return None
        return as_svg(drawn_network(layers, title="network for training"))

    def _restart_before_change(self) -> None:
        """Option `restart_after_num_net_reinit`: memory of networks before is free in a new process."""
        limit = self.config.options.restart_after_num_net_reinit
        if limit is None or self._num_changes < limit:
            return
        if self.session.epoch - 1 not in self.model_files.existing():
            log.print_warning("restart_after_num_net_reinit: the last epoch has no model file, so there is no restart.")
            return
        print(f"starts anew, after {self._num_changes} changes of the network", file=log.v2)
        log.flush()
        restart_program()

    def set_learning_rate(self, learning_rate: float) -> None:
        """Sets the learning rate of the steps to come."""
        self.session.updater.set_learning_rate(learning_rate, session=self.session.tf_session)

    def batches(self, dataset: Dataset) -> BatchSetGenerator:
        """:return: of the epoch that the data set is in"""
        return batches_of(self.session, dataset, train=True)

    def try_batch(self, dataset: Dataset, batch_size: int) -> Tried:
        """:return: whether the gradients of a step fit into memory"""
        return try_batch(self.session, dataset, batch_size)

    def train_pass(
        self,
        dataset: Dataset,
        batches: BatchSetGenerator,
        *,
        resumed_at: TrainingPosition | None,
        wishes: Callable[[int], Wishes],
        on_step: Callable[[Wishes], None],
    ) -> DataPass:
        """:return: the training of an epoch"""
        return DataPass(
            self.session,
            dataset_name="train",
            dataset=dataset,
            batches=batches,
            train=True,
            resumed_at=resumed_at,
            wishes=wishes,
            on_step=on_step,
        )

    def end_training(self) -> bool:
        """:return: whether parameters were set to their running average"""
        end_op = self.session.updater.get_end_of_training_op()
        if end_op is not None:
            self.session.tf_session.run(end_op)
        return end_op is not None

    def save(self, filename: str, *, may_be_broken: bool = False) -> None:
        """Writes a checkpoint, see `NetworkSession.save`."""
        self.session.save(filename, may_be_broken=may_be_broken)

    def load(self, filename: str) -> None:
        """Loads a checkpoint, see `NetworkSession.load`."""
        self.session.load(filename)

    def names_for_shell(self) -> dict[str, object]:
        """:return: what a debug shell shows"""
        return {"session": self.session}

    # Evaluation.

    def make_seq_scores(self, loss_name: str | None, columns: Sequence[str]) -> NetworkSeqScores:
        """:return: see `NetworkSeqScores`"""
        return NetworkSeqScores(self.session.network, loss_name, columns)

    def evaluate(
        self, name: str, dataset: Dataset, seq_scores: SeqScores | None, *, init_seq_order: bool = True
    ) -> Scores:
        """:return: scores of all of the data set"""
        if init_seq_order:
            self.session.begin_data(name, dataset)
        assert seq_scores is None or isinstance(seq_scores, NetworkSeqScores)
        data_pass: DataPass

        def collect(**values: Any) -> None:
            assert seq_scores is not None
            seq_scores.add(data_pass.current_tags, values)

        data_pass = DataPass(
            self.session,
            dataset_name=name,
            dataset=dataset,
            batches=batches_of(self.session, dataset, train=False, filters=name == "dev"),
            train_flag=self.config.options.eval_use_train_flag,
            extra_fetches=seq_scores.fetches if seq_scores is not None else None,
            extra_fetches_callback=collect if seq_scores is not None else None,
        )
        data_pass.run(with_epoch(name, self.session.epoch), raise_exception=True)
        return data_pass.scores
