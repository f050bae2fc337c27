"""From a data set to feed dicts: batches are loaded and padded in a thread, ahead of the session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from returnn.datasets.core.batch import Batch
from returnn.datasets.core.batch_arrays import (
    SEQ_IDX_KEY,
    SEQ_TAG_KEY,
    axes_of_lengths,
    batch_to_raw_dict,
    check_same_lengths,
)
from returnn.datasets.core.dataset import Dataset
from returnn.engine.training_position import BatchPosition
from returnn.tensor import Tensor, batch_dim
from returnn.tf.engine.session.graph_ops import ops_before
from returnn.tf.network.extern_data import ExternData
from returnn.util.python.introspect import call_with_known


@dataclass(frozen=True)
class FeedBatch:
    """One step of the session."""

    feed_dict: dict[Any, Any]
    seq_tags: list[str]
    num_frames: int  # with padding
    complete_frac: float | None  # of the epoch; None if not known
    position: BatchPosition = field(default_factory=BatchPosition)  # behind it


class FeedMaker:
    """Loads and pads one batch after the other."""

    def __init__(
        self,
        dataset: Dataset,
        extern_data: ExternData,
        *,
        used_keys: set[str],
        fetches: Any = None,
        enforce_min_len1: bool = False,
    ) -> None:
        """
        :param dataset: after `init_seq_order`
        :param extern_data: with placeholders
        :param used_keys: what the network uses, maybe as templates alone
        :param fetches: what the session will compute: raw tensors and operations, nested in any way
        :param enforce_min_len1: whether padded arrays have at least one frame
        :raises ConfigError: if the data set does not have what the fetches depend on
        """
        self.dataset = dataset
        self.extern_data = extern_data
        self._enforce_min_len1 = enforce_min_len1
        self.data_keys = _keys_to_feed(dataset, extern_data, used_keys, fetches)
        # Found now: in a thread, this graph is not the current one.
        self._placeholders = {key: extern_data.data[key].raw_tensor for key in self.data_keys}
        self._length_placeholders = {key: length_placeholders(extern_data.data[key], key) for key in self.data_keys}
        self._batch_size_placeholder = _placeholder_or_none(batch_dim.dyn_size)

    def feed_batch(self, batch: Batch) -> FeedBatch:
        """:return: the data of the batch"""
        arrays = batch_to_raw_dict(
            batch,
            dataset=self.dataset,
            extern_data=self.extern_data,
            data_keys=[*self.data_keys, *({SEQ_TAG_KEY} - set(self.data_keys))],
            enforce_min_len1=self._enforce_min_len1,
        )
        frames = batch.get_all_slices_num_frames()
        return FeedBatch(
            feed_dict=self.feed_arrays(arrays, num_seqs=batch.num_slices),
            seq_tags=[str(tag) for tag in arrays[SEQ_TAG_KEY]],
            num_frames=int(frames.max_value() or 0),
            complete_frac=call_with_known(
                self.dataset.get_complete_frac,
                batch.end_seq - 1 if batch.end_seq else 0,
                allow_only_lr_suitable=True,
            ),
        )

    def feed_arrays(self, arrays: Mapping[str, Any], *, num_seqs: int) -> dict[Any, Any]:
        """
        :param arrays: padded arrays by data key, their lengths by `KEY_seq_lens`, and maybe `seq_tag`
        :param num_seqs: of the batch
        :return: feed dict
        :raises ConfigError: if keys with the same time dim have other lengths
        """
        feed: dict[Any, Any] = {self._placeholders[key]: arrays[key] for key in self.data_keys}
        if self._batch_size_placeholder is not None:
            feed[self._batch_size_placeholder] = num_seqs
        name_of: dict[Any, tuple[str, str]] = {}
        for key, placeholders in self._length_placeholders.items():
            for name, placeholder in placeholders.items():
                other, other_name = name_of.setdefault(placeholder, (key, name))
                if other_name != name:
                    lengths = {other: arrays[other_name], key: arrays[name]}
                    check_same_lengths(lengths, arrays.get(SEQ_TAG_KEY, ()))
                feed[placeholder] = arrays[name]
        return feed


def needed_keys(extern_data: ExternData, fetches: Any) -> set[str]:
    """
    :param extern_data: with placeholders
    :param fetches: what the session will compute: raw tensors and operations, nested in any way
    :return: keys of the data whose values the fetches depend on
    """
    batch_size = _placeholder_or_none(batch_dim.dyn_size)
    needed_ops = ops_before(fetches, given=() if batch_size is None else (batch_size.op,))
    values = {key: data.raw_tensor for key, data in extern_data.data.items()}
    return {key for key, raw in values.items() if _is_placeholder(raw) and raw.op in needed_ops}


def _keys_to_feed(dataset: Dataset, extern_data: ExternData, used_keys: set[str], fetches: Any) -> list[str]:
    have = {*dataset.get_data_keys(), SEQ_TAG_KEY, SEQ_IDX_KEY}
    used = {extern_data.default_input if key == "data" else key for key in used_keys}
    values = {key: extern_data.data[key].raw_tensor for key in extern_data.data if key in used}
    values = {key: raw for key, raw in values.items() if _is_placeholder(raw)}
    needed = needed_keys(extern_data, fetches).intersection(values)
    extern_data.check_matched_dataset(dataset, (needed | (have & set(values))) - {SEQ_TAG_KEY, SEQ_IDX_KEY})
    return [key for key in values if key in have and key not in extern_data.extra_added_keys]


def _is_placeholder(raw: Any) -> bool:
    return isinstance(raw, tf.Tensor) and raw.op.type in ("Placeholder", "PlaceholderWithDefault")


def _placeholder_or_none(raw: Any) -> Any:
    return raw if _is_placeholder(raw) else None


def length_placeholders(tensor: Tensor, key: str) -> dict[str, tf.Tensor]:
    """
    :param tensor: data with placeholders
    :param key: of the data
    :return: by the name of the array that goes there, as `batch_to_raw_dict` makes it: where lengths of dims are fed
    """
    axes = axes_of_lengths(tensor, key)
    lengths = {name: _placeholder_or_none(tensor.dims[axis].dyn_size) for name, axis in axes.items()}
    return {name: placeholder for name, placeholder in lengths.items() if placeholder is not None}
