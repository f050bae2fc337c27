"""Batches of a data set, as the options say."""

from __future__ import annotations

from collections.abc import Collection

from returnn.config import Config
from returnn.datasets.core.batch_generator import BatchSetGenerator
from returnn.datasets.core.dataset import Dataset
from returnn.engine.batch_options import batch_limits


def generate_batches(
    config: Config,
    dataset: Dataset,
    *,
    used_keys: Collection[str],
    train: bool,
    epoch: int,
    filters: bool | None = None,
    batch_size: int = 0,
) -> BatchSetGenerator:
    """
    :param config: options
    :param dataset: after `init_seq_order`
    :param used_keys: data keys that are needed; their lengths count
    :param train: whether it is for training
    :param epoch: from 1
    :param filters: whether sequences are left out because of their length; default: in training
    :param batch_size: 0: that of the config
    :return: batches of the epoch that the data set is in, within the limits of the config
    """
    limits = batch_limits(config, train=train, filters=filters, epoch=epoch)
    if batch_size:
        limits["batch_size"] = batch_size
    return dataset.generate_batches(
        shuffle_batches=train and config.options.shuffle_batches,
        used_data_keys=[key for key in dataset.get_data_keys() if key in used_keys] or None,
        **limits,
    )
