"""`TrainingEngine`: what the engines of all backends do with data and epochs."""

from __future__ import annotations

import abc
import os
from collections.abc import Sequence

from returnn.config import Config
from returnn.datasets.core.dataset import Dataset
from returnn.engine.base import EngineBase
from returnn.engine.data import dataset_names, load_dataset, warn_of_parts
from returnn.engine.run.evaluation import Evaluation
from returnn.engine.run.model_files import ModelFiles
from returnn.engine.run.training import TrainedModel, Training
from returnn.util.errors import ConfigError


class TrainingEngine(EngineBase):
    """An engine that has a training and an evaluation. The engine of a backend says what model they are for."""

    def __init__(self, config: Config | None = None) -> None:
        """:param config: default: the global one"""
        super().__init__(config)
        self.model_files: ModelFiles
        self.evaluation: Evaluation
        self.training: Training

    def _set_model(self, model: TrainedModel, model_files: ModelFiles) -> None:
        """
        To be called once, in the constructor.

        :param model: is trained and evaluated
        :param model_files: where its epochs are kept
        """
        self.model_files = model_files
        self.evaluation = Evaluation(model, self.epochs, self.learning_rate_control)
        self.training = Training(
            self.config,
            model,
            self.epochs,
            model_files,
            self.evaluation,
            self.learning_rate_control,
            on_epoch=self._note_epoch,
        )

    def _note_epoch(self) -> None:
        self.learning_rate = self.training.learning_rate
        hook = self.config.options.init_train_epoch_posthook
        if hook:
            exec(hook, {**self.config.typed_dict, "self": self, "engine": self})

    @abc.abstractmethod
    def finalize(self, error_occurred: bool = False) -> None:
        """
        Frees what is to be freed.

        :param error_occurred: whether this is because of an error
        """

    @abc.abstractmethod
    def save_model(self, filename: str | None = None) -> None:
        """
        :param filename: default: that of the epoch
        :raises CheckpointError: if it cannot be written
        """

    # Training.

    def init_train_from_config(
        self,
        config: Config | None = None,
        train_data: Dataset | None = None,
        dev_data: Dataset | None = None,
        eval_data: Dataset | None = None,
    ) -> None:
        """
        Data and model for a training.

        :param config: default: that of the engine
        :param train_data: default: `train` of the config
        :param dev_data: default: `dev` of the config
        :param eval_data: default: `eval` of the config
        """
        config = config or self.config
        self.training.dataset = train_data or load_dataset(config, "train")
        if self.training.dataset is None:
            raise ConfigError("option 'train' is required: the description of the data to train on.")
        warn_of_parts(config)
        self.eval_datasets = {name: load_dataset(config, name) for name in dataset_names(config)}
        given = {"dev": dev_data, "eval": eval_data}
        self.eval_datasets.update({name: data for name, data in given.items() if data is not None})
        self.training.data_of_net.begin()
        if self.learning_rate_control.filename and os.path.exists(self.learning_rate_control.filename):
            self.learning_rate_control.load()
        self.init_network_from_config(config)

    @property
    def train_dataset(self) -> Dataset | None:
        """What is trained on."""
        return self.training.dataset

    def train(self) -> None:
        """
        All epochs that are left.

        :raises NonFiniteError: if a loss is not finite
        """
        self.training.run()

    def init_train_epoch(self) -> None:
        """Model, learning rate and data of the epoch."""
        self.training.begin_epoch()

    def train_epoch(self) -> None:
        """One epoch: training, model file, evaluation."""
        self.training.train_epoch()
        self.training.report.finish()

    def cleanup_old_models(self, ask_for_confirmation: bool = False) -> None:
        """
        Deletes model files as `cleanup_old_models` says.

        :param ask_for_confirmation: ask the person at the terminal; True holds if the option is not set
        """
        self.model_files.clean_up(self.learning_rate_control, ask_for_confirmation=ask_for_confirmation)

    # Evaluation.

    @property
    def eval_datasets(self) -> dict[str, Dataset]:
        """What is evaluated after each epoch, by name."""
        return self.evaluation.datasets

    @eval_datasets.setter
    def eval_datasets(self, datasets: dict[str, Dataset]) -> None:
        self.evaluation.datasets = datasets

    def eval_model(
        self,
        output_file: str | None = None,
        output_per_seq_file: str | None = None,
        loss_name: str | None = None,
        output_per_seq_format: Sequence[str] | None = None,
        output_per_seq_file_format: str = "txt",
        skip_already_evaluated: bool = False,
        init_seq_order: bool = True,
        lr_control_update_scores: bool = True,
    ) -> dict[str, dict[str, float]]:
        """:return: means over all frames, by data set, and by `loss:NAME` and `error:NAME`, see `Evaluation.run`"""
        return self.evaluation.run(
            output_file=output_file,
            output_per_seq_file=output_per_seq_file,
            loss_name=loss_name,
            output_per_seq_format=output_per_seq_format,
            output_per_seq_file_format=output_per_seq_file_format,
            skip_already_evaluated=skip_already_evaluated,
            init_seq_order=init_seq_order,
            lr_control_update_scores=lr_control_update_scores,
        )

    def check_has_scores(self) -> None:
        """:raises ConfigError: if the model has no loss, as far as that is known before a step"""

    def scores_for_people(self, scores: dict[str, float]) -> dict[str, float]:
        """
        :param scores: means over all frames, by `loss:NAME` and `error:NAME`
        :return: the same, and what follows from them
        """
        return scores
