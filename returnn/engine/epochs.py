"""`Epochs`: which epoch it is, and which epochs are pretraining."""

from __future__ import annotations

from returnn.config import Config
from returnn.engine.pretrain import Pretrain, pretrain_from_config


class Epochs:
    """The current epoch, from 1 on, among all epochs of a training."""

    def __init__(self, config: Config) -> None:
        """:param config: its options `num_epochs`, `pretrain`"""
        self.current = 0  # none yet, or it is not known
        self._has_unknown_model = False
        self.final = final_epoch_of(config)
        self.pretrain: Pretrain | None = pretrain_from_config(config)

    def is_pretrain(self, epoch: int | None = None) -> bool:
        """
        :param epoch: default: the current one
        :return: whether it belongs to the pretraining
        """
        epoch = self.current if epoch is None else epoch
        return 1 <= epoch < self.first_after_pretrain

    def is_first_after_pretrain(self, epoch: int | None = None) -> bool:
        """
        :param epoch: default: the current one
        :return: whether there was a pretraining, and it is over since the last epoch
        """
        epoch = self.current if epoch is None else epoch
        return self.pretrain is not None and epoch == self.first_after_pretrain

    def begin_task(self, epoch_of_model: int | None) -> None:
        """
        For a task other than training.

        :param epoch_of_model: None if nothing says which epoch the parameters are of, as with the mean of several
        """
        self.current = epoch_of_model or 0
        self._has_unknown_model = epoch_of_model is None

    @property
    def of_network(self) -> int:
        """
        The epoch whose network is wanted: the current one, and the first one before the training. Parameters of an
        unknown epoch are the result of a training, so that they belong to its last network.
        """
        if self._has_unknown_model and self.current == 0:
            return max(self.final, self.first_after_pretrain)
        return max(self.current, 1)

    @property
    def first_after_pretrain(self) -> int:
        """The first epoch that trains the whole network: 1 without pretraining."""
        return 1 if self.pretrain is None else self.pretrain.get_train_num_epochs() + 1

    def __str__(self) -> str:
        return f"{'pretrain ' if self.is_pretrain() else ''}epoch {self.current}"


def with_epoch(what: str, epoch: int, *, separator: str = " ") -> str:
    """
    :param what: for people, such as "dev"
    :param epoch: 0 if it is not known which one the model is of
    :param separator: between both
    :return: e.g. "dev epoch 3"; without the epoch where it is not known
    """
    return f"{what}{separator}epoch {epoch}" if epoch else what


def epoch_of_network(config: Config, epoch_of_model: int | None) -> int:
    """
    :param config: its options `num_epochs`, `pretrain`
    :param epoch_of_model: of the parameters, for a task other than training; None if it is not known
    :return: the epoch whose network these are of, see `Epochs.of_network`
    """
    epochs = Epochs(config)
    epochs.begin_task(epoch_of_model)
    return epochs.of_network


def final_epoch_of(config: Config) -> int:
    """:return: the last epoch, `num_epochs`"""
    return config.options.num_epochs
