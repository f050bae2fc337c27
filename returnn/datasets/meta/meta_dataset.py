"""`MetaDataset`: puts the data of one sequence together from several data sets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from returnn.datasets.core.data_dims import DataDim
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.core.dataset_seq import DEFAULT_KEY, DatasetSeq
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.registry import DatasetLike, init_sub_dataset
from returnn.datasets.core.seq_order import SeqOrder, is_order_asked_for
from returnn.datasets.meta.mapped_keys import MappedKeysDataset
from returnn.datasets.meta.same_lines import check_same_lines
from returnn.datasets.meta.same_tags import CorpusWithTags, seqs_of_same_tags
from returnn.datasets.util.seq_lists import load_python_data
from returnn.log import log
from returnn.util.errors import ConfigError, check_known
from returnn.util.numbers.numbers_dict import NumbersDict
from returnn.util.python.introspect import call_with_known


class MetaDataset(MappedKeysDataset):
    """
    Its sequences have the same tags in all data sets. `data_map` says which of their data keys become which ones here.

    One data set (`seq_order_control_dataset`) has the say about which sequences an epoch has, and in which order; its
    own options for that count. With `seq_list_file` alone, the options given here do.
    """

    _checks_data = False  # the data sets in it do

    def __init__(
        self,
        datasets: Mapping[str, DatasetLike],
        data_map: Mapping[str, tuple[str, str]],
        seq_list_file: str | None = None,
        seq_order_control_dataset: str | None = None,
        seq_lens_file: str | None = None,
        data_dims: Mapping[str, DataDim] | None = None,
        data_dtypes: Mapping[str, str] | None = None,
        window: int = 1,
        **kwargs: Any,
    ) -> None:
        """
        :param datasets: name -> options of a data set
        :param data_map: data key here -> (name of a data set, data key there)
        :param seq_list_file: the tags of the sequences: a list, or a dict by data set, if they differ
        :param seq_order_control_dataset: name of the data set which decides about the order. By default the first,
            if there is no `seq_list_file`.
        :param seq_lens_file: dict (Python or JSON) from tag to the length, or to a dict by data key, to order by it
        :param data_dims: only for a check, as they are known from the data sets
        :param data_dtypes: by data key, to convert the data to; by default, as it is in the data set
        :param window: puts that many frames of "data" into one, centered
        """
        super().__init__(window=window, **kwargs)
        self.data_map = {key: (dataset, sub_key) for key, (dataset, sub_key) in data_map.items()}
        self.data_keys = sorted(self.data_map)
        self.dataset_keys = list(datasets)
        self.target_list = [key for key in self.data_keys if key != DEFAULT_KEY]
        self._take_dtypes(data_dtypes)
        self._seq_lens_file = seq_lens_file
        self._check_names(seq_order_control_dataset)
        used = {dataset for dataset, _ in self.data_map.values()} | {seq_order_control_dataset}
        self.datasets = {key: init_sub_dataset(datasets[key], self, key=key) for key in datasets if key in used}
        self._check_data_map()
        if not seq_list_file and not seq_order_control_dataset:
            seq_order_control_dataset = next(iter(self.datasets))
        self.seq_order_control_dataset = seq_order_control_dataset
        self.default_dataset_key = seq_order_control_dataset or next(iter(self.datasets))
        self._check_order_options()
        if not seq_list_file:
            check_same_lines(self.datasets, where=self.description)
        self.seq_list_original = self._load_seq_list(seq_list_file) if seq_list_file else None
        self.seq_list_ordered: dict[str, list[str]] | None = None
        self.tag_idx = {
            tag: i for i, tag in enumerate((self.seq_list_original or {}).get(self.default_dataset_key, []))
        }
        self.orig_seq_order_is_initialized = False
        self._take_dims(data_dims)

    # Options.

    def _check_names(self, control: str | None) -> None:
        for key, (dataset, _) in self.data_map.items():
            check_known("data set", dataset, self.dataset_keys, where=f"{self.description}: option 'data_map': {key!r}")
        if control is not None:
            where = f"{self.description}: option 'seq_order_control_dataset'"
            check_known("data set", control, self.dataset_keys, where=where)

    def _check_data_map(self) -> None:
        for key, (dataset, sub_key) in self.data_map.items():
            where = f"{self.description}: option 'data_map': {key!r}: data set {dataset!r}"
            check_known("data key", sub_key, self.datasets[dataset].get_data_keys(), where=where)

    def _check_order_options(self) -> None:
        if self.seq_order_control_dataset is None:
            return
        if self.partition_epoch > 1 or self.repeat_epoch > 1:
            raise ConfigError(
                f"{self.description}: the data set {self.seq_order_control_dataset!r} decides about the order.\n"
                "  Give it the options 'partition_epoch' and 'repeat_epoch', instead of giving them here."
            )
        if is_order_asked_for(self.seq_ordering):
            print(
                f"{self.description}: seq_ordering {self.seq_ordering!r} is not used:"
                f" the data set {self.seq_order_control_dataset!r} decides about the order.",
                file=log.v4,
            )

    def _load_seq_list(self, filename: str) -> dict[str, list[str]]:
        content = load_python_data(filename, where=self.description)
        if not isinstance(content, Mapping):
            shared = list(content)
            content = dict.fromkeys(self.datasets, shared)
        seq_list = {}
        for key in self.datasets:
            check_known("data set", key, content, where=f"{self.description}: {filename}")
            seq_list[key] = [str(tag) for tag in content[key]]
        sizes = {key: len(tags) for key, tags in seq_list.items()}
        if len(set(sizes.values())) != 1 or not sum(sizes.values()):
            raise DataError(
                f"numbers of tags by data set are {sizes}",
                dataset=self.description,
                file=filename,
                hint="All have to be the same, and not 0.",
            )
        return seq_list

    def _take_dims(self, data_dims: Mapping[str, DataDim] | None) -> None:
        self._warn_of_other_keys("data_dims", data_dims or {})
        for key in self.data_keys:
            dataset, sub_key = self._source(key)
            dim = (dataset.get_data_dim(sub_key), dataset.get_num_axes(sub_key))
            self._check_dim(key, data_dims or {}, dim)
            self.num_outputs[key] = dim
            if sub_key in dataset.labels:
                self.labels[key] = dataset.labels[sub_key]
        self.num_inputs = self.num_outputs[DEFAULT_KEY][0] if DEFAULT_KEY in self.num_outputs else 0

    def _source(self, key: str) -> tuple[Dataset, str]:
        dataset, sub_key = self.data_map[key]
        return self.datasets[dataset], sub_key

    @property
    def _default_dataset(self) -> Dataset:
        return self.datasets[self.default_dataset_key]

    # The order.

    @property
    def supports_random_access(self) -> bool:
        return all(dataset.supports_random_access for dataset in self.datasets.values())

    def supports_seq_order_sorting(self) -> bool:
        return bool(self._seq_lens_file) or self._default_dataset.supports_seq_order_sorting()

    def get_estimated_seq_length(self, seq_idx: int) -> int:
        if self.seq_list_original is not None:
            return self._get_seq_len(seq_idx)
        if self._seq_lens_file:
            return self._length_in_file(self.get_all_tags()[seq_idx])
        return self._default_dataset.get_estimated_seq_length(seq_idx)

    def supports_sharding(self) -> bool:
        return self.seq_order_control_dataset is None or self._default_dataset.supports_sharding()

    def init_seq_order(
        self, epoch: int | None = None, seq_list: Sequence[str] | None = None, seq_order: SeqOrder | None = None
    ) -> bool:
        super().init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        if self.seq_order_control_dataset is None:
            changed = self._init_by_seq_list(epoch, seq_list, seq_order)
        else:
            changed = self._init_by_control_dataset(epoch, seq_list, seq_order)
        self.orig_seq_order_is_initialized = True
        self._num_seqs = self._known_num_seqs()
        return changed

    def _known_num_seqs(self) -> int | None:
        if self.seq_list_ordered is not None:
            return len(self.seq_list_ordered[self.default_dataset_key])
        try:
            return self._default_dataset.num_seqs
        except NotImplementedError:
            return None

    def _init_by_seq_list(self, epoch: int | None, seq_list: Sequence[str] | None, seq_order: SeqOrder | None) -> bool:
        assert self.seq_list_original is not None
        tags = self.seq_list_original
        if seq_list is not None:
            for tag in seq_list:
                if tag not in self.tag_idx:
                    raise DataError("is not in the list of sequences", dataset=self.description, seq=tag)
            seq_order = [self.tag_idx[tag] for tag in seq_list]
        if seq_order is None:
            get_seq_len = self._get_seq_len if self.supports_seq_order_sorting() else None
            seq_order = self.get_seq_order_for_epoch(epoch, len(tags[self.default_dataset_key]), get_seq_len)
        self.seq_list_ordered = {key: [tags[key][int(i)] for i in seq_order] for key in self.datasets}
        changes = [
            dataset.init_seq_order(epoch=epoch, seq_list=self.seq_list_ordered[key])
            for key, dataset in self.datasets.items()
        ]
        return any(changes)

    def _get_seq_len(self, corpus_seq_idx: int) -> int:
        assert self.seq_list_original is not None
        tag = self.seq_list_original[self.default_dataset_key][corpus_seq_idx]
        if self._seq_lens_file:
            return self._length_in_file(tag)
        return self._default_dataset.get_estimated_seq_length(self._corpus_idx_in_default_dataset(tag))

    def _corpus_idx_in_default_dataset(self, tag: str) -> int:
        if not hasattr(self, "_default_tag_idx"):
            tags = self._default_dataset.get_all_tags()
            self._default_tag_idx = {tag: i for i, tag in enumerate(tags)}
        if tag not in self._default_tag_idx:
            raise DataError("is missing", dataset=self._default_dataset.description, seq=tag)
        return self._default_tag_idx[tag]

    def _length_in_file(self, tag: str) -> int:
        assert self._seq_lens_file
        if not hasattr(self, "_seq_lens_of_file"):
            self._seq_lens_of_file = _load_lens(self._seq_lens_file, where=self.description)
        lens = self._seq_lens_of_file.get(tag)
        if lens is None:
            raise DataError("has no length here", dataset=self.description, seq=tag, file=self._seq_lens_file)
        return int(max(lens.values())) if isinstance(lens, Mapping) else int(lens)

    def _init_by_control_dataset(
        self, epoch: int | None, seq_list: Sequence[str] | None, seq_order: SeqOrder | None
    ) -> bool:
        control = self._default_dataset
        changed = control.init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        others = {key: dataset for key, dataset in self.datasets.items() if dataset is not control}
        self.seq_list_ordered = None
        if seq_list is None and self.seq_tags_filter is None and self.seq_list_original is None:
            if not others:
                return changed
            corpora = [dataset for dataset in others.values() if isinstance(dataset, CorpusWithTags)]
            if isinstance(control, CorpusWithTags) and len(corpora) == len(others):
                order = control.get_current_seq_order()
                for corpus in corpora:
                    corpus.init_seq_order(epoch=epoch, seq_order=seqs_of_same_tags(order, control, corpus))
                return changed
        tags = list(seq_list) if seq_list is not None else self._tags_of_epoch(control)
        selected = [tag for tag in tags if self._is_selected(tag)]
        if len(selected) < len(tags):
            if not selected:
                raise DataError(
                    "none of the sequences of the epoch is selected by 'seq_list_filter_file' or 'seq_list_file'",
                    dataset=self.description,
                    hint=f"The data set {self.default_dataset_key!r} has tags such as {tags[0]!r}.",
                )
            control.init_seq_order(epoch=epoch, seq_list=selected)
        self.seq_list_ordered = {key: self._tags_in(key, selected) for key in self.datasets}
        for key, dataset in others.items():
            dataset.init_seq_order(epoch=epoch, seq_list=self.seq_list_ordered[key])
        return changed

    def _is_selected(self, tag: str) -> bool:
        if self.seq_tags_filter is not None and tag not in self.seq_tags_filter:
            return False
        return self.seq_list_original is None or tag in self.tag_idx

    def _tags_in(self, dataset_key: str, tags: list[str]) -> list[str]:
        """:return: the tags which these sequences have in another data set"""
        if self.seq_list_original is None or dataset_key == self.default_dataset_key:
            return tags
        return [self.seq_list_original[dataset_key][self.tag_idx[tag]] for tag in tags]

    def _tags_of_epoch(self, control: Dataset) -> list[str]:
        try:
            return control.get_tags_of_epoch()
        except NotImplementedError as exc:
            raise ConfigError(
                f"{self.description}: the data set {self.default_dataset_key!r} decides about the order, but does not\n"
                "  know its sequences beforehand. Choose another one by 'seq_order_control_dataset'."
            ) from exc

    def get_current_seq_order(self) -> SeqOrder:
        """:return: in terms of the corpus of `get_all_tags`"""
        if self.seq_list_original is not None and self.seq_list_ordered is not None:
            return [self.tag_idx[tag] for tag in self.seq_list_ordered[self.default_dataset_key]]
        return self._default_dataset.get_current_seq_order()

    def finish_epoch(self, *, free_resources: bool = False) -> None:
        super().finish_epoch(free_resources=free_resources)
        for dataset in self.datasets.values():
            dataset.finish_epoch(free_resources=free_resources)

    def set_file_cache(self, cache: object) -> None:
        for dataset in self.datasets.values():
            dataset.set_file_cache(cache)

    # Data.

    def _collect_single_seq(self, seq_idx: int) -> DatasetSeq | None:
        if not self._default_dataset.is_less_than_num_seqs(seq_idx):
            return None
        for dataset in self.datasets.values():
            dataset.load_seqs(seq_idx, seq_idx + 1)
        features, tag = {}, self.get_tag(seq_idx)
        for key in self.data_keys:
            dataset, sub_key = self._source(key)
            features[key] = self._converted(key, dataset.get_data(seq_idx, sub_key), tag)
        return DatasetSeq(seq_idx, features, seq_tag=tag)

    def get_seq_length(self, sorted_seq_idx: int) -> NumbersDict:
        if self.is_cached(sorted_seq_idx, sorted_seq_idx + 1):
            return super().get_seq_length(sorted_seq_idx)
        lengths = {key: dataset.get_seq_length(sorted_seq_idx) for key, dataset in self.datasets.items()}
        return NumbersDict({key: lengths[dataset][sub_key] for key, (dataset, sub_key) in self.data_map.items()})

    def get_data_shape(self, data_key: str) -> list[int | None]:
        return super().get_data_shape(data_key)

    def get_tag(self, sorted_seq_idx: int) -> str:
        if self.seq_list_ordered is not None:
            return self.seq_list_ordered[self.default_dataset_key][sorted_seq_idx]
        return self._default_dataset.get_tag(sorted_seq_idx)

    def get_all_tags(self) -> list[str]:
        if self.seq_list_original is not None:
            return self.seq_list_original[self.default_dataset_key]
        return self._default_dataset.get_all_tags()

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        if self.seq_list_original is not None:
            return len(self.seq_list_original[self.default_dataset_key])
        return call_with_known(self._default_dataset.get_total_num_seqs, fast=fast)

    def get_complete_frac(self, sorted_seq_idx: int, **kwargs: Any) -> float | None:
        return call_with_known(self._default_dataset.get_complete_frac, sorted_seq_idx, **kwargs)

    def get_num_timesteps(self) -> int | NumbersDict:
        return self._default_dataset.get_num_timesteps()

    def get_data_keys(self) -> list[str]:
        return self.data_keys

    def get_target_list(self) -> list[str]:
        return self.target_list


def _load_lens(filename: str, *, where: str) -> dict[str, Any]:
    if filename.removesuffix(".gz").endswith(".json"):
        with open(filename, encoding="utf8") as file:
            content = json.load(file)
    else:
        content = load_python_data(filename, where=where)
    if not isinstance(content, dict):
        raise DataError("expected a dict from tag to length", dataset=where, file=filename)
    return content
