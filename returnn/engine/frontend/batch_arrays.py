"""Batches as padded arrays, by data key: what goes into a step of a model, for all backends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from returnn.datasets.core.batch import Batch
from returnn.datasets.core.batch_arrays import (
    SEQ_IDX_KEY,
    SEQ_TAG_KEY,
    axes_of_lengths,
    batch_to_raw_dict,
    check_same_lengths,
)
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.util.fits_to_data import check_fits_to_dataset
from returnn.engine.training_position import BatchPosition
from returnn.tensor import TensorDict
from returnn.util.errors import ConfigError, nearest_hint
from returnn.util.python.introspect import call_with_known

_LENGTHS = "_seq_lens"


@dataclass(frozen=True)
class ArrayBatch:
    """One step."""

    arrays: dict[str, Any]  # padded arrays by data key, and their lengths (batch,), in frames, by KEY_seq_lens
    seq_tags: list[str]
    num_frames: int  # of the longest sequence
    complete_frac: float | None  # of the epoch; None if not known
    position: BatchPosition = field(default_factory=BatchPosition)  # behind it

    def split(self) -> list[ArrayBatch]:
        """:return: two batches, with half of the sequences each; this one if it has only one sequence"""
        num_seqs = len(self.seq_tags)
        if num_seqs < 2:
            return [self]
        middle = num_seqs // 2
        return [self._part(slice(0, middle)), self._part(slice(middle, num_seqs))]

    def _part(self, seqs: slice) -> ArrayBatch:
        arrays = {name: value[seqs] for name, value in self.arrays.items()}
        for name, lengths in list(arrays.items()):
            key, axis = _axis_of_lengths(name)
            if axis is not None:
                longest = int(lengths.max(initial=0))
                arrays[key] = arrays[key][(slice(None),) * axis + (slice(0, longest),)]
        return replace(self, arrays=arrays, seq_tags=self.seq_tags[seqs])


def _axis_of_lengths(name: str) -> tuple[str, int | None]:
    """:return: of which data key an array has lengths, and along which axis, with the batch as axis 0; None: of none"""
    if name.endswith(_LENGTHS):
        return name.removesuffix(_LENGTHS), 1
    key, size, axis = name.rpartition(":size")
    return (key, int(axis)) if size else (name, None)


class ArrayMaker:
    """Loads and pads one batch after the other. Batch and time are the first axes of all arrays."""

    def __init__(
        self, dataset: Dataset, templates: TensorDict, *, keys: Sequence[str], enforce_min_len1: bool = False
    ) -> None:
        """
        :param dataset: after `init_seq_order`
        :param templates: of the data, by key; see `extern_data_of_config`
        :param keys: which of them are needed
        :param enforce_min_len1: whether padded arrays have at least one frame
        """
        self.dataset = dataset
        self.templates = templates
        self.keys = list(keys)
        self.enforce_min_len1 = enforce_min_len1

    def feed_batch(self, batch: Batch) -> ArrayBatch:
        """:return: the data of the batch"""
        arrays = batch_to_raw_dict(
            batch,
            dataset=self.dataset,
            extern_data=self.templates,
            data_keys=[*self.keys, *({SEQ_TAG_KEY} - set(self.keys))],
            enforce_min_len1=self.enforce_min_len1,
        )
        self._check_common_lengths(arrays)
        return ArrayBatch(
            arrays,
            seq_tags=[str(tag) for tag in arrays[SEQ_TAG_KEY]],
            num_frames=int(batch.get_all_slices_num_frames().max_value() or 0),
            complete_frac=call_with_known(
                self.dataset.get_complete_frac,
                batch.end_seq - 1 if batch.end_seq else 0,
                allow_only_lr_suitable=True,
            ),
        )

    def _check_common_lengths(self, arrays: dict[str, Any]) -> None:
        """:raises ConfigError: if data keys have the same time dim, but sequences of other lengths"""
        name_of: dict[Any, tuple[str, str]] = {}
        for key in self.keys:
            template = self.templates[key]
            axes = axes_of_lengths(template, key)
            for name in axes.keys() & arrays.keys():
                other, other_name = name_of.setdefault(template.dims[axes[name]], (key, name))
                if other_name != name:
                    check_same_lengths({other: arrays[other_name], key: arrays[name]}, arrays[SEQ_TAG_KEY])


def needed_keys(dataset: Dataset, templates: TensorDict, *, with_targets: bool) -> list[str]:
    """
    :param dataset: which goes in
    :param templates: of the data that the config describes
    :param with_targets: whether data is needed that is not available for inference
    :return: keys of what is loaded: all that the config describes; without targets, those that the data set has
    :raises ConfigError: if the data set does not fit
    """
    have = {*dataset.get_data_keys(), SEQ_TAG_KEY, SEQ_IDX_KEY}
    keys = []
    for key, template in templates.data.items():
        if key not in have:
            if not with_targets and not template.available_for_inference:
                continue
            raise ConfigError(f"extern_data: the data set has no {key!r}.\n  {nearest_hint(key, have)}")
        keys.append(key)
        if key in (SEQ_TAG_KEY, SEQ_IDX_KEY):
            continue
        check_fits_to_dataset(key, template, dataset)
    return keys
