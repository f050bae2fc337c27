"""`FrontendEngine`: the documented interface of engines, for models of the frontend on any backend."""

from __future__ import annotations

from typing import Any

from returnn.config import Config
from returnn.datasets.core.dataset import Dataset
from returnn.engine.frontend.runner import ModelRunner
from returnn.engine.frontend.trained_model import TrainedModel
from returnn.engine.run.engine import TrainingEngine
from returnn.engine.run.model_files import ModelFiles, model_files_are_written
from returnn.engine.run.unfinished_epochs import UnfinishedEpochs
from returnn.forward_iface import ForwardCallbackIface
from returnn.tensor import batch_dim


class FrontendEngine(TrainingEngine):
    """The tasks of a config, and what they share: the model, and the model files of the epochs."""

    def __init__(self, config: Config | None, runner: ModelRunner) -> None:
        """
        :param config: default: the global one
        :param runner: the model, where it is computed
        """
        super().__init__(config)
        self.runner = runner
        processes = runner.processes
        unfinished = UnfinishedEpochs(
            self.config,
            self.model_names,
            runner.unfinished,
            are_written=model_files_are_written(self.config),
            processes=processes,
        )
        model_files = ModelFiles(self.config, self.model_names, runner.checkpoints, unfinished, processes=processes)
        self.learning_rate_control.is_written = processes is None or processes.is_first
        self.trained_model = TrainedModel(self.config, runner, self.epochs, model_files)
        self._set_model(self.trained_model, model_files)

    def _note_epoch(self) -> None:
        self.global_train_step = self.runner.train_step
        super()._note_epoch()

    def finalize(self, error_occurred: bool = False) -> None:
        """
        Frees what is to be freed.

        :param error_occurred: whether this is because of an error
        """
        self.trained_model.close()
        self.model_files.close()
        batch_dim.dyn_size_ext = None  # of the last batch: code that goes on in this process may have others

    # Model.

    @property
    def model(self) -> Any:
        """What `get_model` returned."""
        return self.runner.model

    def get_model(self) -> Any:
        """:return: what `get_model` of the config returned"""
        return self.runner.model

    @property
    def extern_data(self) -> Any:
        """What the config says of the data, by key."""
        return self.runner.templates

    def init_network_from_config(self, config: Config | None = None) -> None:
        """
        Makes the model for the task of the config, and loads its parameters.

        :param config: default: that of the engine
        """
        self.trained_model.begin(config or self.config)
        self.global_train_step = self.runner.train_step

    def save_model(self, filename: str | None = None) -> None:
        """:param filename: default: that of the epoch"""
        self.trained_model.save(filename or self.get_epoch_model_filename())

    def delete_model(self, filename: str) -> int:  # type: ignore[override]
        """:return: bytes that are free now"""
        return self.runner.checkpoints.delete_checkpoint(filename)

    # Outputs.

    def forward_with_callback(
        self,
        *,
        dataset: Dataset,
        callback: ForwardCallbackIface,
        dataset_init_epoch: bool = True,
        allow_skipping_seqs: bool = False,
    ) -> None:
        """
        :param dataset: what goes in
        :param callback: gets the outputs of each sequence
        :param dataset_init_epoch: whether an epoch of the data set begins
        :param allow_skipping_seqs: whether `max_seq_length` and `min_seq_length` leave out sequences
        """
        self.trained_model.forward(
            dataset, callback, dataset_init_epoch=dataset_init_epoch, allow_skipping_seqs=allow_skipping_seqs
        )
