"""`ClusteringDataset`: adds the cluster (e.g. the speaker) of each sequence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

import numpy as np

from returnn.datasets.core.dataset_seq import DatasetSeq
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.registry import DatasetLike
from returnn.datasets.core.seq_order import SeqOrder
from returnn.datasets.core.wrapper import WrapperDataset
from returnn.datasets.util.seq_lists import load_python_data
from returnn.util.errors import ConfigError

CLUSTER_KEY = "cluster_idx"


class ClusteringDataset(WrapperDataset):
    """Has the data of another data set, and the data key "cluster_idx"."""

    _checks_data = True

    def __init__(
        self,
        dataset: DatasetLike,
        cluster_map_file: str,
        n_clusters: int,
        single_cluster: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        :param dataset: options of the other data set
        :param cluster_map_file: from sequence tag to cluster: a dict, lines "TAG CLUSTER", or XML with `map-item`s
        :param n_clusters: number of clusters
        :param single_cluster: one number per sequence instead of one per frame of "data"
        """
        super().__init__(dataset, **kwargs)
        self.dataset = self._inner
        self.n_clusters = n_clusters
        self.single_cluster = single_cluster
        self.cluster_idx_dtype = "int32"
        self._cluster_map_file = cluster_map_file
        self.cluster_map = _load_cluster_map(cluster_map_file, where=self.description)
        self.num_outputs[CLUSTER_KEY] = (n_clusters, 1)

    @property
    def supports_random_access(self) -> bool:
        return self.dataset.supports_random_access

    def init_seq_order(
        self, epoch: int | None = None, seq_list: Sequence[str] | None = None, seq_order: SeqOrder | None = None
    ) -> bool:
        super().init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        return self.dataset.init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)

    @property
    def num_seqs(self) -> int:
        return self.dataset.num_seqs

    def is_less_than_num_seqs(self, n: int) -> bool:
        return self.dataset.is_less_than_num_seqs(n)

    def get_current_seq_order(self) -> SeqOrder:
        return self.dataset.get_current_seq_order()

    def get_tag(self, seq_idx: int) -> str:
        return self.dataset.get_tag(seq_idx)

    def _collect_single_seq(self, seq_idx: int) -> DatasetSeq | None:
        seq = self._copy_seq(seq_idx, seq_idx)
        if seq is None:
            return None
        if seq.seq_tag not in self.cluster_map:
            raise DataError(
                "has no cluster here", dataset=self.description, seq=seq.seq_tag, file=self._cluster_map_file
            )
        num_frames = 1 if self.single_cluster else int(seq.num_frames["data"])
        seq.features[CLUSTER_KEY] = np.full(num_frames, self.cluster_map[seq.seq_tag], self.cluster_idx_dtype)
        return seq

    def get_data_keys(self) -> list[str]:
        return [*self.dataset.get_data_keys(), CLUSTER_KEY]

    def get_target_list(self) -> list[str]:
        return [*self.dataset.get_target_list(), CLUSTER_KEY]

    def get_data_dim(self, key: str) -> int:
        return self.n_clusters if key == CLUSTER_KEY else super().get_data_dim(key)

    def get_data_dtype(self, key: str) -> str:
        return self.cluster_idx_dtype if key == CLUSTER_KEY else super().get_data_dtype(key)

    def get_data_shape(self, key: str) -> list[int | None]:
        return [] if key == CLUSTER_KEY else super().get_data_shape(key)

    def get_num_axes(self, key: str) -> int:
        return 1 if key == CLUSTER_KEY else super().get_num_axes(key)

    def is_data_sparse(self, key: str) -> bool:
        return key == CLUSTER_KEY or super().is_data_sparse(key)


def _load_cluster_map(filename: str, *, where: str) -> dict[str, int]:
    content = load_python_data(filename, where=where)
    if isinstance(content, Mapping):
        return {str(tag): int(cluster) for tag, cluster in content.items()}
    if content and content[0].startswith("<"):
        return _parse_xml(content, filename, where=where)
    clusters = {}
    for line in content:
        match = re.fullmatch(r"(.*\S)\s+(\d+)", line)
        if not match:
            raise ConfigError(f"{where}: {filename}: expected 'TAG CLUSTER', got {line!r}.")
        clusters[match.group(1)] = int(match.group(2))
    return clusters


def _parse_xml(lines: list[str], filename: str, *, where: str) -> dict[str, int]:
    try:
        root = ElementTree.fromstring("\n".join(lines))
        return {item.findtext("key", ""): int(item.findtext("value", "")) for item in root.iter("map-item")}
    except (ElementTree.ParseError, ValueError) as exc:
        raise DataError(f"is no map from tag to cluster ({exc})", dataset=where, file=filename) from exc
