"""`EngineBase`: the documented interface of engines, as far as no backend is needed for it."""

from __future__ import annotations

import abc

from returnn.config import Config, get_global_config
from returnn.datasets.core.dataset import Dataset
from returnn.engine.epochs import Epochs, final_epoch_of
from returnn.engine.learning_rate_control import LearningRateControl, load_learning_rate_control_from_config
from returnn.engine.model_names import (
    ModelNames,
    existing_models,
    model_name_of_epoch,
    model_of_task,
    start_epoch_without_model,
    train_start_epoch,
)
from returnn.engine.pretrain import Pretrain
from returnn.forward_iface import ForwardCallbackIface
from returnn.util.system.waiting import said_if_long


class EngineBase(abc.ABC):
    """Which epoch is next, and which model file belongs to it. The engine of a backend adds the network."""

    def __init__(self, config: Config | None = None) -> None:
        """:param config: default: the global one"""
        self.config = config if config is not None else get_global_config()
        self.global_train_step: int | None = None
        self.learning_rate = 0.0
        with said_if_long("to read the learning rate file", limit_s=self.config.options.data_wait_limit_s):
            self.learning_rate_control: LearningRateControl = load_learning_rate_control_from_config(self.config)
        self.epochs = Epochs(self.config)
        self.model_names = ModelNames(self.config, self.epochs)

    # Epochs.

    @property
    def epoch(self) -> int:
        """The current one."""
        return self.epochs.current

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self.epochs.current = epoch

    @property
    def final_epoch(self) -> int:
        """The last one."""
        return self.epochs.final

    @final_epoch.setter
    def final_epoch(self, epoch: int) -> None:
        self.epochs.final = epoch

    @property
    def pretrain(self) -> Pretrain | None:
        """The pretraining of the config."""
        return self.epochs.pretrain

    @classmethod
    def config_get_final_epoch(cls, config: Config) -> int:
        """:return: the last epoch, `num_epochs`"""
        return final_epoch_of(config)

    @classmethod
    def get_train_start_epoch(cls, config: Config) -> int:
        """:return: see `returnn.engine.model_names.train_start_epoch`"""
        return train_start_epoch(config)

    @classmethod
    def get_start_epoch_no_existing_model(cls, config: Config) -> int:
        """:return: the first epoch of a training from scratch"""
        return start_epoch_without_model(config)

    def set_epoch(self, epoch: int) -> None:
        """:param epoch: the one that is worked on from now on"""
        self.epoch = epoch

    def is_pretrain_epoch(self, epoch: int | None = None) -> bool:
        """
        :param epoch: default: the current one
        :return: whether it belongs to the pretraining
        """
        return self.epochs.is_pretrain(epoch)

    def is_first_epoch_after_pretrain(self) -> bool:
        """:return: whether the pretraining is over since the last epoch"""
        return self.epochs.is_first_after_pretrain()

    def get_epoch_str(self) -> str:
        """:return: for people"""
        return str(self.epochs)

    # What needs a network.

    @abc.abstractmethod
    def init_train_from_config(self, config: Config | None = None) -> None:
        """Makes data and network for a training."""

    @abc.abstractmethod
    def init_network_from_config(self, config: Config | None = None) -> None:
        """Makes the network, and loads its parameters."""

    @abc.abstractmethod
    def forward_with_callback(
        self, *, dataset: Dataset, callback: ForwardCallbackIface, dataset_init_epoch: bool = True
    ) -> None:
        """
        :param dataset: what goes in
        :param callback: gets the outputs of each sequence
        :param dataset_init_epoch: whether an epoch of the data set begins
        """

    @abc.abstractmethod
    def cleanup_old_models(self, ask_for_confirmation: bool = False) -> None:
        """Deletes model files as `cleanup_old_models` says."""

    @staticmethod
    @abc.abstractmethod
    def delete_model(filename: str) -> int:
        """:return: bytes that are free now"""

    # Model files.

    @property
    def model_filename(self) -> str | None:
        """What the names of all model files begin with."""
        return self.model_names.model

    @model_filename.setter
    def model_filename(self, name: str | None) -> None:
        self.model_names.model = name

    @classmethod
    def epoch_model_filename(cls, model_filename: str, epoch: int, *, is_pretrain: bool = False) -> str:
        """:return: e.g. "net-model/network.012" """
        return model_name_of_epoch(model_filename, epoch, is_pretrain=is_pretrain)

    def get_epoch_model_filename(self, epoch: int | None = None) -> str:
        """
        :param epoch: default: the current one
        :raises ConfigError: if the config has no `model`
        """
        return self.model_names.of_epoch(epoch)

    @classmethod
    def get_existing_models(cls, config: Config, *, for_training: bool | None = None) -> dict[int, str]:
        """
        :param config: its option `model`
        :param for_training: means nothing: there is one list for all tasks
        :return: epoch -> name without suffix
        """
        return existing_models(config)

    @classmethod
    def get_epoch_model(cls, config: Config) -> tuple[int | None, str | None]:
        """:return: epoch and model file that a task other than training works on"""
        return model_of_task(config)
