"""`Epochs`: which epoch it is, and which epochs are pretraining."""

from __future__ import annotations

from returnn.config import Config
from returnn.engine.pretrain import Pretrain, pretrain_from_config


class Epochs:
    """The current epoch, from 1 on, among all epochs of a training."""

    def __init__(self, config: Config) -> None:
        """:param config: its options `num_epochs`, `pretrain`"""
        self.current = 0  # none yet
        self.final = final_epoch_of(config)
        self.pretrain: Pretrain | None = pretrain_from_config(config)

    def is_pretrain(self, epoch: int | None = None) -> bool:
        """
        :param epoch: default: the current one
        :return: whether it belongs to the pretraining
        """
        epoch = self.current if epoch is None else epoch
        return 1 <= epoch < self.first_after_pretrain

    @property
    def first_after_pretrain(self) -> int:
        """The first epoch that trains the whole network: 1 without pretraining."""
        return 1 if self.pretrain is None else self.pretrain.get_train_num_epochs() + 1

    def __str__(self) -> str:
        return f"{'pretrain ' if self.is_pretrain() else ''}epoch {self.current}"


def final_epoch_of(config: Config) -> int:
    """:return: the last epoch, `num_epochs`"""
    return config.options.num_epochs
