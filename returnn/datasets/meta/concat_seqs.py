"""`ConcatSeqsDataset`: makes one long sequence from several sequences of another data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from returnn.datasets.core.dataset_seq import Array, DatasetSeq
from returnn.datasets.core.epoch_wise_filter import EpochWiseFilter
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.registry import DatasetLike
from returnn.datasets.core.seq_order import SeqOrder
from returnn.datasets.core.wrapper import WrapperDataset
from returnn.datasets.util.seq_lists import load_seq_lens, load_seq_list
from returnn.util.errors import ConfigError, check_known
from returnn.util.files.cache_manager import cf


class ConcatSeqsDataset(WrapperDataset):
    """Each data key is put together along time. The tags of the parts, with a delimiter, are the tag of the whole."""

    _passes_order_options = False

    def __init__(
        self,
        dataset: DatasetLike,
        seq_list_file: str,
        seq_len_file: str,
        seq_tag_delim: str = ";",
        remove_in_between_postfix: Mapping[str, int] | None = None,
        repeat_in_between_last_frame_up_to_multiple_of: Mapping[str, int] | None = None,
        pad_narrow_data_to_multiple_of_target_len: Mapping[str, str] | None = None,
        use_cache_manager: bool = False,
        epoch_wise_filter: Mapping[tuple[int, int | None], Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param dataset: options of the other data set
        :param seq_list_file: one line per new sequence: the tags of its parts, with the delimiter between them
        :param seq_len_file: dict from tag of a part to its length, to order the new sequences
        :param seq_tag_delim: delimiter
        :param remove_in_between_postfix: data key -> label that each part ends with; it is removed from all parts but
            the last one
        :param repeat_in_between_last_frame_up_to_multiple_of: data key -> the last frame of each part but the last one
            is repeated until its length is a multiple of this number
        :param pad_narrow_data_to_multiple_of_target_len: data key -> target key: the data of each part is repeated at
            its end until its length is a multiple of the number of target frames
        :param use_cache_manager: reads local copies of the files, made by the program `cf`
        :param epoch_wise_filter: leaves out long sequences, see `EpochWiseFilter`
        """
        super().__init__(dataset, **kwargs)
        self.dataset = self._inner
        if not seq_tag_delim:
            raise ConfigError(f"{self.description}: option 'seq_tag_delim' is empty.")
        if use_cache_manager:
            seq_list_file, seq_len_file = cf(seq_list_file), cf(seq_len_file)
        self._seq_list_file = seq_list_file
        self.seq_tag_delim = seq_tag_delim
        self.full_seq_list = load_seq_list(seq_list_file, where=self.description)
        self.seq_lens = load_seq_lens(seq_len_file, option="seq_len_file", where=self.description)
        self._check_lens(seq_len_file)
        self.full_seq_len_list = [sum(self.seq_lens[part] for part in self._parts(tag)) for tag in self.full_seq_list]
        self.remove_in_between_postfix = dict(remove_in_between_postfix or {})
        self.repeat_in_between_last_frame_up_to_multiple_of = dict(repeat_in_between_last_frame_up_to_multiple_of or {})
        self.pad_narrow_data_to_multiple_of_target_len = dict(pad_narrow_data_to_multiple_of_target_len or {})
        self._check_keys()
        self.epoch_wise_filter = EpochWiseFilter(epoch_wise_filter, self.description) if epoch_wise_filter else None
        self._order: SeqOrder = range(0)
        self.cur_seq_list: list[str] = []
        self.cur_sub_seq_idxs: list[int] = [0]  # first part of each sequence of the epoch, and the end

    def _parts(self, tag: str) -> list[str]:
        return tag.split(self.seq_tag_delim)

    def _check_lens(self, seq_len_file: str) -> None:
        for tag in self.full_seq_list:
            for part in self._parts(tag):
                if part not in self.seq_lens:
                    raise DataError(
                        "has no length here",
                        dataset=self.description,
                        seq=part,
                        file=seq_len_file,
                        hint=f"It is a part of {tag[:100]!r} in {self._seq_list_file}.",
                    )

    def _check_keys(self) -> None:
        for option in (
            "remove_in_between_postfix",
            "repeat_in_between_last_frame_up_to_multiple_of",
            "pad_narrow_data_to_multiple_of_target_len",
        ):
            for key in getattr(self, option):
                known = self.dataset.get_data_keys()
                check_known("data key", key, known, where=f"{self.description}: option {option!r}")

    @property
    def supports_random_access(self) -> bool:
        return self.dataset.supports_random_access

    def supports_seq_order_sorting(self) -> bool:
        return True

    def supports_sharding(self) -> bool:
        return True

    def init_seq_order(
        self, epoch: int | None = None, seq_list: Sequence[str] | None = None, seq_order: SeqOrder | None = None
    ) -> bool:
        super().init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        if seq_list is not None:
            index = {tag: i for i, tag in enumerate(self.full_seq_list)}
            for tag in seq_list:
                if tag not in index:
                    raise DataError("is missing", dataset=self.description, seq=tag, file=self._seq_list_file)
            seq_order = [index[tag] for tag in seq_list]
        if seq_order is None:
            get_seq_len = self.full_seq_len_list.__getitem__
            seq_order = self.get_seq_order_for_epoch(epoch, len(self.full_seq_list), get_seq_len)
            if self.epoch_wise_filter:
                seq_order = self.epoch_wise_filter.filter(epoch, seq_order, get_seq_len)
        self._order = seq_order
        self.cur_seq_list = [self.full_seq_list[int(i)] for i in seq_order]
        parts = [self._parts(tag) for tag in self.cur_seq_list]
        self.cur_sub_seq_idxs = np.cumsum([0, *map(len, parts)]).tolist()
        self._num_seqs = len(self.cur_seq_list)
        return self.dataset.init_seq_order(epoch=epoch, seq_list=[part for tags in parts for part in tags])

    def _collect_single_seq(self, seq_idx: int) -> DatasetSeq:
        start, end = self.cur_sub_seq_idxs[seq_idx : seq_idx + 2]
        self.dataset.load_seqs(start, end)
        tag = self.cur_seq_list[seq_idx]
        for i, part in enumerate(self._parts(tag)):
            found = self.dataset.get_tag(start + i)
            assert found == part, f"{self.description}: got the sequence {found!r} instead of {part!r}"
        features = {key: self._concat(key, start, end, tag) for key in self.get_data_keys()}
        return DatasetSeq(seq_idx, features, seq_tag=tag)

    def _concat(self, key: str, start: int, end: int, tag: str) -> Array:
        parts = [self._padded_part(key, i) for i in range(start, end)]
        if parts[0].dtype.kind in "SU":
            return np.array("".join(str(part) for part in parts))
        if parts[0].ndim == 0:
            return np.stack(parts)
        parts[:-1] = [self._inner_part(key, part, tag) for part in parts[:-1]]
        return np.concatenate(parts)

    def _padded_part(self, key: str, seq_idx: int) -> Array:
        data = self.dataset.get_data(seq_idx, key)
        target = self.pad_narrow_data_to_multiple_of_target_len.get(key)
        if target is None:
            return data
        return _repeat_last_frame(data, max(len(self.dataset.get_data(seq_idx, target)), 1))

    def _inner_part(self, key: str, data: Array, tag: str) -> Array:
        if key in self.remove_in_between_postfix:
            postfix = self.remove_in_between_postfix[key]
            if not len(data) or data[-1] != postfix:
                raise DataError(
                    f"a part ends with {data[-1:].tolist()}, not with {postfix}",
                    dataset=self.description,
                    seq=tag,
                    key=key,
                    hint="See the option 'remove_in_between_postfix'.",
                )
            data = data[:-1]
        return _repeat_last_frame(data, self.repeat_in_between_last_frame_up_to_multiple_of.get(key, 1))

    def have_corpus_seq_idx(self) -> bool:
        return True

    def get_corpus_seq_idx(self, seq_idx: int) -> int:
        return int(self._order[seq_idx])

    def get_current_seq_order(self) -> SeqOrder:
        return self._order

    def get_tag(self, seq_idx: int) -> str:
        return self.cur_seq_list[seq_idx]

    def get_all_tags(self) -> list[str]:
        return self.full_seq_list

    def _iter_corpus_tags(self) -> list[str]:
        return self.full_seq_list

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        return len(self.full_seq_list)

    def get_estimated_seq_length(self, seq_idx: int) -> int:
        return self.full_seq_len_list[seq_idx]

    def get_num_axes(self, key: str) -> int:
        ndim = super().get_num_axes(key)
        return ndim if self.get_data_dtype(key) == "string" else max(ndim, 1)


def _repeat_last_frame(data: Array, multiple: int) -> Array:
    missing = -len(data) % multiple
    if not missing or not len(data):
        return data
    return np.concatenate([data, np.repeat(data[-1:], missing, axis=0)])
