"""The options of a config that limit batches, as arguments of `Dataset.generate_batches`."""

from __future__ import annotations

from typing import Any

from returnn.config import Config
from returnn.engine.run.auto_batch_size import AUTO, known_batch_size
from returnn.util.numbers.numbers_dict import NumbersDict

DEFAULT_BATCH_SIZE = 10_000  # frames
_LIMITS = ("max_seqs", "max_pad_size", "max_total_num_seqs")
_FILTERS = ("max_seq_length", "min_seq_length", "seq_drop")  # sequences that are left out


def batch_limits(
    config: Config, *, train: bool, filters: bool | None = None, epoch: int = 1, batch_size: int = 0
) -> dict[str, Any]:
    """
    :param config: `batch_size`, `eval_batch_size`, `max_seqs`, `max_pad_size`, `max_total_num_seqs`, `max_seq_length`,
        `min_seq_length`, `seq_drop`, `inc_seq_length`: how much `max_seq_length` grows with each epoch
    :param train: whether it is for training. Otherwise, no sequence is dropped by chance
    :param filters: whether sequences are left out because of their length; default: in training
    :param epoch: from 1
    :param batch_size: 0: that of the config
    :raises ConfigError: if one of them is no number, and no dict of numbers by data key
    """
    options = config.options
    limits = {name: getattr(options, name) for name in _LIMITS}
    batch_size = batch_size or (None if train else options.eval_batch_size) or options.batch_size or DEFAULT_BATCH_SIZE
    limits["batch_size"] = known_batch_size(config) if batch_size == AUTO else batch_size
    if train if filters is None else filters:
        limits.update({name: getattr(options, name) for name in _FILTERS})
        limits["max_seq_length"] = _grown(options.max_seq_length, options.inc_seq_length * (epoch - 1))
    if not train:
        limits.pop("seq_drop", None)
    return {name: value for name, value in limits.items() if value}


def _grown(length: Any, more: float) -> Any:
    if not length or not more:
        return length
    return NumbersDict(length) + NumbersDict(int(more))
