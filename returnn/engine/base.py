"""`EngineBase`: epochs and their model files, as the config describes them. No backend is needed for it."""

from __future__ import annotations

import abc
import os

from returnn.config import Config, get_global_config
from returnn.datasets.dataset import Dataset
from returnn.engine.learning_rate_control import LearningRateControl, load_learning_rate_control_from_config
from returnn.engine.pretrain import Pretrain, pretrain_from_config
from returnn.forward_iface import ForwardCallbackIface
from returnn.util.checkpoint_names import get_checkpoint_filepattern, model_epoch_from_filename
from returnn.util.errors import ConfigError

_DEFAULT_NUM_EPOCHS = 5


class EngineBase(abc.ABC):
    """Which epoch is next, and which model file belongs to it. The engine of a backend adds the network."""

    def __init__(self, config: Config | None = None) -> None:
        """:param config: default: the global one"""
        self.config = config if config is not None else get_global_config()
        self.epoch = 0
        self.global_train_step: int | None = None
        self.model_filename: str | None = self.config.value("model", None)
        self.learning_rate = 0.0
        self.learning_rate_control: LearningRateControl = load_learning_rate_control_from_config(self.config)
        self.pretrain: Pretrain | None = pretrain_from_config(self.config)

    # Epochs.

    @classmethod
    def config_get_final_epoch(cls, config: Config) -> int:
        """:return: the last epoch, `num_epochs`"""
        return int(config.int("num_epochs", _DEFAULT_NUM_EPOCHS))

    @classmethod
    def get_train_start_epoch(cls, config: Config) -> int:
        """
        :return: `start_epoch`; by default the one after the newest model file
        :raises ConfigError: if `start_epoch` is no number from 1
        """
        text = config.value("start_epoch", "auto")
        if text == "auto":
            existing = cls.get_existing_models(config, for_training=True)
            return max(existing, default=cls.get_start_epoch_no_existing_model(config) - 1) + 1
        if not str(text).isdigit() or int(text) < 1:
            raise ConfigError(f"option 'start_epoch': is {text!r}, expected 'auto' or a number from 1.")
        return int(text)

    @classmethod
    def get_start_epoch_no_existing_model(cls, config: Config) -> int:
        """:return: the first epoch of a training from scratch"""
        text = str(config.value("start_epoch", "auto"))
        return int(text) if text.isdigit() else 1

    def set_epoch(self, epoch: int) -> None:
        """:param epoch: the one that is worked on from now on"""
        self.epoch = epoch

    def is_pretrain_epoch(self, epoch: int | None = None) -> bool:
        """
        :param epoch: default: the current one
        :return: whether it belongs to the pretraining
        """
        epoch = self.epoch if epoch is None else epoch
        return self.pretrain is not None and 1 <= epoch <= self.pretrain.get_train_num_epochs()

    def is_first_epoch_after_pretrain(self) -> bool:
        """:return: whether the pretraining is over since the last epoch"""
        return self.pretrain is not None and self.epoch == self.pretrain.get_train_num_epochs() + 1

    def get_epoch_str(self) -> str:
        """:return: for people"""
        return f"{'pretrain ' if self.is_pretrain_epoch() else ''}epoch {self.epoch}"

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

    @classmethod
    def epoch_model_filename(cls, model_filename: str, epoch: int, *, is_pretrain: bool = False) -> str:
        """:return: e.g. "net-model/network.012" """
        return f"{model_filename}{'.pretrain' if is_pretrain else ''}.{epoch:03d}"

    def get_epoch_model_filename(self, epoch: int | None = None) -> str:
        """
        :param epoch: default: the current one
        :raises ConfigError: if the config has no `model`
        """
        if not self.model_filename:
            raise ConfigError("option 'model' is required: where the model files go, such as 'net-model/network'.")
        epoch = self.epoch if epoch is None else epoch
        return self.epoch_model_filename(self.model_filename, epoch, is_pretrain=self.is_pretrain_epoch(epoch))

    @classmethod
    def get_existing_models(cls, config: Config, *, for_training: bool | None = None) -> dict[int, str]:
        """
        :param config: its option `model`
        :param for_training: whether it is to be trained; default: if that is the task
        :return: epoch -> name without suffix
        """
        model = config.value("model", None)
        if not model:
            return {}
        folder, name = os.path.split(model)
        found = {}
        for entry in os.listdir(folder or ".") if os.path.isdir(folder or ".") else ():
            base = get_checkpoint_filepattern(entry)
            epoch_text = base.removeprefix(f"{name}.").removeprefix("pretrain.")
            if base.startswith(f"{name}.") and entry.endswith(".index") and epoch_text.isdigit():
                found[int(epoch_text)] = os.path.join(folder, base)
        return dict(sorted(found.items()))

    @classmethod
    def get_epoch_model(cls, config: Config) -> tuple[int | None, str | None]:
        """
        :return: epoch and model file that a task other than training works on: `load`, or that of `load_epoch`
            or `epoch`, or the newest
        :raises ConfigError: if it is not there
        """
        existing = cls.get_existing_models(config)
        load = config.value("load", None)
        if load:
            load = get_checkpoint_filepattern(load)
            return config.int("load_epoch", 0) or config.int("epoch", 0) or _epoch_of(load), load
        epoch = config.int("load_epoch", -1)
        if epoch < 0:
            epoch = config.int("epoch", -1)
        if epoch < 0:
            epoch = max(existing, default=0)
        if not epoch:
            return None, None
        if epoch not in existing:
            have = ", ".join(map(str, existing)) or "none"
            raise ConfigError(f"there is no model of epoch {epoch}.\n  {config.value('model', None)!r} has: {have}.")
        return epoch, existing[epoch]


def _epoch_of(filename: str) -> int | None:
    try:
        return model_epoch_from_filename(filename)
    except ValueError:
        return None
