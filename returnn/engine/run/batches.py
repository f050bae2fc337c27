"""Batches of a data set, as the options say."""

from __future__ import annotations

from collections.abc import Callable, Collection

from returnn.config import Config
from returnn.datasets.core.batch_generator import BatchSetGenerator
from returnn.datasets.core.dataset import Dataset
from returnn.engine.batch_options import batch_limits
from returnn.engine.run.auto_batch_size import Tried
from returnn.engine.run.batch_feeder import B, BatchMaker
from returnn.util.errors import UserError
from returnn.util.system import memory

_TRIED_BATCHES = 8  # the largest one of the first ones is tried


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
    limits = batch_limits(config, train=train, filters=filters, epoch=epoch, batch_size=batch_size)
    return dataset.generate_batches(
        shuffle_batches=train and config.options.shuffle_batches,
        used_data_keys=[key for key in dataset.get_data_keys() if key in used_keys] or None,
        **limits,
    )


def tried_batch(batches: BatchSetGenerator, maker: BatchMaker[B], fits: Callable[[B], bool]) -> Tried:
    """
    :param batches: of an epoch, from the first one on
    :param maker: loads them
    :param fits: does a step with a batch, which changes nothing; returns whether there was memory enough
    :return: of the largest of the first batches
    :raises UserError: if there are none
    """
    candidates = batches.peek_next_n(_TRIED_BATCHES)
    if not candidates:
        raise UserError("batch_size: 'auto': there is no sequence in this epoch, so there is nothing to try.")
    sizes = [int(batch.get_all_slices_num_frames().max_value() or 0) for batch in candidates]
    index = sizes.index(max(sizes))
    if not maker.dataset.supports_random_access:
        for batch in candidates[:index]:
            maker.feed_batch(batch)
    made = maker.feed_batch(candidates[index])
    memory.reset_peak()
    did_fit = fits(made)
    return Tried(sizes[index], candidates[index].get_num_seqs(), did_fit, memory.peak_bytes())
