"""From a data set to feed dicts: batches are loaded and padded in a thread, ahead of the session."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy
import tensorflow as tf

from returnn.datasets.batch import Batch
from returnn.datasets.batch_arrays import SEQ_IDX_KEY, SEQ_TAG_KEY, batch_to_raw_dict
from returnn.datasets.batch_generator import BatchSetGenerator
from returnn.datasets.dataset import Dataset
from returnn.tensor import Tensor, batch_dim
from returnn.tf.network.extern_data import ExternData
from returnn.util.errors import ConfigError

_NUM_AHEAD = 8  # batches
_END = object()


@dataclass(frozen=True)
class FeedBatch:
    """One step of the session."""

    feed_dict: dict[Any, Any]
    seq_tags: list[str]
    num_frames: int  # with padding
    complete_frac: float | None  # of the epoch; None if not known


class BatchFeeder:
    """All batches of an epoch, in order. To be used as a context: it has a thread."""

    def __init__(
        self,
        dataset: Dataset,
        batches: BatchSetGenerator,
        extern_data: ExternData,
        *,
        used_keys: set[str] | None = None,
        enforce_min_len1: bool = False,
    ) -> None:
        """
        :param dataset: after `init_seq_order`
        :param batches: of that epoch
        :param extern_data: with placeholders
        :param used_keys: what the network uses; None: all
        :param enforce_min_len1: whether padded arrays have at least one frame
        :raises ConfigError: if the data set does not have what the network uses
        """
        self.dataset = dataset
        self.batches = batches
        self.extern_data = extern_data
        self._enforce_min_len1 = enforce_min_len1
        self.data_keys = _keys_to_feed(dataset, extern_data, used_keys)
        # Found now: in the thread, this graph is not the current one.
        self._placeholders = {key: extern_data.data[key].raw_tensor for key in self.data_keys}
        self._length_placeholders = {key: _length_placeholder(extern_data.data[key]) for key in self.data_keys}
        self._batch_size_placeholder = _placeholder_or_none(batch_dim.dyn_size)
        self._queue: queue.Queue[Any] = queue.Queue(_NUM_AHEAD)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="batch feeder", daemon=True)

    def __enter__(self) -> BatchFeeder:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        while self._thread.is_alive():
            try:
                self._queue.get(timeout=0.05)
            except queue.Empty:
                continue

    def __iter__(self) -> Iterator[FeedBatch]:
        while True:
            item = self._queue.get()
            if item is _END:
                return
            if isinstance(item, BaseException):
                raise item
            yield item

    def _run(self) -> None:
        try:
            while not self._stop.is_set() and self.batches.has_more():
                (batch,) = self.batches.peek_next_n(1)
                self._queue.put(self._feed_batch(batch))
                self.batches.advance(1)
            self._queue.put(_END)
        except BaseException as exc:  # noqa: BLE001 (whatever it is, the one who waits for data has to get it)
            self._queue.put(exc)

    def _feed_batch(self, batch: Batch) -> FeedBatch:
        arrays = batch_to_raw_dict(
            batch,
            dataset=self.dataset,
            extern_data=self.extern_data,
            data_keys=[*self.data_keys, *({SEQ_TAG_KEY} - set(self.data_keys))],
            enforce_min_len1=self._enforce_min_len1,
        )
        frames = batch.get_all_slices_num_frames()
        return FeedBatch(
            feed_dict=self._feed_dict(arrays, batch),
            seq_tags=[str(tag) for tag in arrays[SEQ_TAG_KEY]],
            num_frames=int(frames.max_value() or 0),
            complete_frac=self.dataset.get_complete_frac(batch.end_seq - 1 if batch.end_seq else 0),
        )

    def _feed_dict(self, arrays: dict[str, numpy.ndarray], batch: Batch) -> dict[Any, Any]:
        feed: dict[Any, Any] = {self._placeholders[key]: arrays[key] for key in self.data_keys}
        if self._batch_size_placeholder is not None:
            feed[self._batch_size_placeholder] = batch.num_slices
        key_of: dict[Any, str] = {}
        for key, placeholder in self._length_placeholders.items():
            if placeholder is None:
                continue
            other = key_of.setdefault(placeholder, key)
            lengths, other_lengths = arrays[f"{key}_seq_lens"], arrays[f"{other}_seq_lens"]
            if not numpy.array_equal(lengths, other_lengths):
                raise ConfigError(
                    f"extern_data: {other!r} and {key!r} have the same time dim, but the sequences from"
                    f" {self.dataset.get_tag(batch.start_seq or 0)!r} on have other lengths:"
                    f" {other_lengths.tolist()[:5]} and {lengths.tolist()[:5]}."
                )
            feed[placeholder] = lengths
        return feed


def _keys_to_feed(dataset: Dataset, extern_data: ExternData, used_keys: set[str] | None) -> list[str]:
    have = {*dataset.get_data_keys(), SEQ_TAG_KEY, SEQ_IDX_KEY}
    keys = [key for key in extern_data.data if key not in extern_data.extra_added_keys]
    if used_keys is not None:
        needed = {extern_data.default_input if key == "data" else key for key in used_keys}
        extern_data.check_matched_dataset(dataset, needed - {SEQ_TAG_KEY, SEQ_IDX_KEY})
    return [key for key in keys if key in have and _is_placeholder(extern_data.data[key].raw_tensor)]


def _is_placeholder(raw: Any) -> bool:
    return isinstance(raw, tf.Tensor) and raw.op.type == "Placeholder"


def _placeholder_or_none(raw: Any) -> Any:
    return raw if _is_placeholder(raw) else None


def _length_placeholder(tensor: Tensor) -> Any:
    """:return: where the lengths of the time dim go; None if there is nothing to feed"""
    if tensor.time_dim_axis is None:
        return None
    return _placeholder_or_none(tensor.dims[tensor.time_dim_axis].dyn_size)
