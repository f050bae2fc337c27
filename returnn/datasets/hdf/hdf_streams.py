"""
HDF files with named streams, and the data sets that read them.

A file has `seq_names`, and in the group `streams` one group per stream. The attribute `parser` of a stream says what
its data is, see `PARSERS`. `data/SEQ_NAME` in a stream is the data of one sequence. Each stream is a data key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from returnn.datasets.cached2 import CachedDataset2
from returnn.datasets.core.dataset_seq import DEFAULT_KEY, Array, DatasetSeq
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.seq_order import SeqLens, SeqOrder
from returnn.datasets.hdf.hdf_file import open_hdf
from returnn.datasets.util.seq_lists import load_python_data
from returnn.util.errors import ConfigError, check_known
from returnn.util.texts.counted import counted


class StreamParser:
    """Reads one stream of one file. `feature_type` is 1 for labels and 2 for features."""

    num_features: int
    feature_type: int
    dtype: str

    def __init__(self, seq_names: Sequence[str], stream: Any) -> None:
        """
        :param seq_names: of the file
        :param stream: group of the file
        """
        self.seq_names = seq_names
        self.stream = stream

    def get_data(self, seq_name: str) -> Array:
        """:return: (time,) or (time, feature)"""
        return np.asarray(self.stream["data"][seq_name][...], dtype=self.dtype)

    def get_seq_length(self, seq_name: str) -> int:
        """:return: number of frames, read without the data"""
        return int(self.stream["data"][seq_name].shape[0])

    def get_dtype(self) -> str:
        """:return: numpy name"""
        return self.dtype


class FeatureSequenceStreamParser(StreamParser):
    """Features, (time, feature) per sequence."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        example = self.stream["data"][self.seq_names[0]]
        self.num_features = int(example.shape[1])
        self.feature_type = 2
        self.dtype = "float32"


class SparseStreamParser(StreamParser):
    """Labels, (time,) per sequence. `feature_names` in the stream are their names."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.num_features = int(self.stream["feature_names"].shape[0])
        self.feature_type = 1
        self.dtype = "int32"


class SegmentAlignmentStreamParser(StreamParser):
    """
    Segments, (segment, 2) per sequence: label and number of frames.

    The data is two numbers for each frame, after each other: its label, and whether it is the last one of a segment.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.num_features = int(self.stream["feature_names"].shape[0])
        self.feature_type = 1
        self.dtype = "int32"

    def get_data(self, seq_name: str) -> Array:
        segments = self.stream["data"][seq_name][...]
        num_frames = segments[:, 1]
        is_end = np.zeros(int(num_frames.sum()), self.dtype)
        is_end[np.cumsum(num_frames)[num_frames > 0] - 1] = 1
        labels = np.repeat(segments[:, 0], num_frames).astype(self.dtype)
        return np.stack([labels, is_end], axis=1).reshape(-1)

    def get_seq_length(self, seq_name: str) -> int:
        return 2 * int(self.stream["data"][seq_name][:, 1].sum())


PARSERS: dict[str, type[StreamParser]] = {
    "feature_sequence": FeatureSequenceStreamParser,
    "sparse": SparseStreamParser,
    "segment_alignment": SegmentAlignmentStreamParser,
}


class _StreamsDataset(CachedDataset2):
    """What the data sets on files with streams share."""

    parsers = PARSERS
    _random_access = True

    def __init__(self, input_stream_name: str, files: str | Sequence[str] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.input_stream_name = input_stream_name
        self.files: list[str] = []
        self.h5_files: list[Any] = []
        self.all_seq_names: list[str] = []
        self.seq_name_to_idx: dict[str, int] = {}
        self.file_indices: list[int] = []
        self.all_parsers: dict[str, list[StreamParser]] = {}
        self.seq_order: SeqOrder = range(0)
        for path in [files] if isinstance(files, str) else files or []:
            self.add_file(path)

    def add_file(self, path: str) -> None:
        """
        :param path: of the HDF file
        :raises DataError: if it cannot be read, or does not go with the files before
        """
        try:
            file = open_hdf(path)
            names = [name.decode("utf8") for name in file["seq_names"][...].tolist()]
            streams = dict(file["streams"].items())
        except (OSError, KeyError) as exc:
            raise DataError(
                f"is no HDF file with 'seq_names' and 'streams' ({exc})", dataset=self.description, file=path
            ) from exc
        self._check_names(names, path)
        for name, stream in streams.items():
            kind = _attribute_text(stream, "parser")
            check_known("parser", kind, self.parsers, where=f"{self.description}, file {path}, stream {name!r}")
            self.all_parsers.setdefault(name, []).append(self.parsers[kind](names, stream))
        self._watch_file(path)
        self.files.append(path)
        self.h5_files.append(file)
        self.file_indices += [len(self.files) - 1] * len(names)
        self.seq_name_to_idx.update({name: len(self.all_seq_names) + i for i, name in enumerate(names)})
        self.all_seq_names += names

    def _check_names(self, names: Sequence[str], path: str) -> None:
        if not names:
            raise DataError("there are no sequences", dataset=self.description, file=path)
        seen = set(self.seq_name_to_idx)
        for name in names:
            if name in seen:
                raise DataError("is there twice", dataset=self.description, seq=name, file=path)
            seen.add(name)

    def initialize(self) -> None:
        if not self.files:
            raise ConfigError(f"{self.description}: option 'files' is missing or empty.")
        check_known("stream", self.input_stream_name, self.all_parsers, where=self.description)
        for name, parsers in self.all_parsers.items():
            features = {parser.num_features for parser in parsers}
            if len(parsers) != len(self.files) or len(features) > 1:
                raise DataError(
                    f"is in {len(parsers)} of {counted(len(self.files), 'file')}, with the dims {sorted(features)}",
                    dataset=self.description,
                    key=name,
                )

    def _parser(self, stream: str, corpus_seq_idx: int) -> StreamParser:
        return self.all_parsers[stream][self.file_indices[corpus_seq_idx]]

    def _read(self, stream: str, corpus_seq_idx: int) -> Array:
        name = self.all_seq_names[corpus_seq_idx]
        try:
            return self._parser(stream, corpus_seq_idx).get_data(name)
        except (OSError, KeyError) as exc:
            file = self.files[self.file_indices[corpus_seq_idx]]
            raise DataError("cannot be read", dataset=self.description, seq=name, key=stream, file=file) from exc

    def get_estimated_seq_length(self, seq_idx: int) -> int:
        return self._parser(self.input_stream_name, seq_idx).get_seq_length(self.all_seq_names[seq_idx])

    def _all_lens(self) -> Any:
        return np.array([self.get_estimated_seq_length(i) for i in range(len(self.all_seq_names))])

    def init_seq_order(
        self, epoch: int | None = None, seq_list: Sequence[str] | None = None, seq_order: SeqOrder | None = None
    ) -> bool:
        super().init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        if seq_list is not None:
            for name in seq_list:
                if name not in self.seq_name_to_idx:
                    raise DataError("is missing", dataset=self.description, seq=name, file=", ".join(self.files[:3]))
            seq_order = [self.seq_name_to_idx[name] for name in seq_list]
        if seq_order is None:
            seq_order = self.get_seq_order_for_epoch(epoch, len(self.all_seq_names), SeqLens(self._all_lens))
        self.seq_order = seq_order
        self._num_seqs = len(seq_order)
        return True

    def supports_seq_order_sorting(self) -> bool:
        return True

    def supports_sharding(self) -> bool:
        return True

    def get_current_seq_order(self) -> SeqOrder:
        return self.seq_order

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        return len(self.all_seq_names)

    def get_all_tags(self) -> list[str]:
        return self.all_seq_names

    def get_tag(self, sorted_seq_idx: int) -> str:
        return self.all_seq_names[self.seq_order[sorted_seq_idx]]


class NextGenHDFDataset(_StreamsDataset):
    """Each stream is a data key; that of the input is called "data"."""

    def __init__(self, input_stream_name: str, files: str | Sequence[str] | None = None, **kwargs: Any) -> None:
        """
        :param input_stream_name: which stream is the input
        :param files: HDF files
        """
        super().__init__(input_stream_name, files, **kwargs)

    def initialize(self) -> None:
        super().initialize()
        self.num_outputs = {
            self._key_of(name): (parsers[0].num_features, parsers[0].feature_type)
            for name, parsers in self.all_parsers.items()
        }
        self.num_inputs = self.num_outputs[DEFAULT_KEY][0]

    def _key_of(self, stream: str) -> str:
        return DEFAULT_KEY if stream == self.input_stream_name else stream

    def _stream_of(self, key: str) -> str:
        return self.input_stream_name if key == DEFAULT_KEY else key

    def get_data_dtype(self, key: str) -> str:
        return self.all_parsers[self._stream_of(key)][0].get_dtype()

    def _collect_single_seq(self, seq_idx: int) -> DatasetSeq:
        corpus_seq_idx = int(self.seq_order[seq_idx])
        features = {self._key_of(name): self._read(name, corpus_seq_idx) for name in self.all_parsers}
        return DatasetSeq(seq_idx, features, seq_tag=self.all_seq_names[corpus_seq_idx])

    def _describe_source(self, seq: DatasetSeq) -> str | None:
        return self.files[self.file_indices[self.seq_name_to_idx[seq.seq_tag]]]


class SiameseHDFDataset(_StreamsDataset):
    """
    Triplets of sequences: an anchor, another sequence of the same class, and one of another class.

    Each stream gives three data keys: `STREAM_0` (anchor), `STREAM_1` (same class), `STREAM_2` (other class).
    """

    def __init__(
        self,
        input_stream_name: str,
        seq_label_stream: str = "words",
        class_distribution: str | None = None,
        files: str | Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param input_stream_name: which stream has the features
        :param seq_label_stream: which stream has the class of a sequence, as its first label
        :param class_distribution: file with a dict from class to the probability of its being the other class;
            by default, in proportion to the number of sequences
        :param files: HDF files
        """
        super().__init__(input_stream_name, files, **kwargs)
        self.targets_stream = seq_label_stream
        self._class_distribution_file = class_distribution
        self.class_probs: dict[int, float] = {}
        self.seq_to_target: list[int] = []
        self.target_to_seqs: dict[int, list[int]] = {}
        self.curr_epoch_triplets: list[tuple[int, int, int]] = []

    def initialize(self) -> None:
        super().initialize()
        check_known("stream", self.targets_stream, self.all_parsers, where=self.description)
        for name, parsers in self.all_parsers.items():
            for i in range(3):
                self.num_outputs[f"{name}_{i}"] = (parsers[0].num_features, parsers[0].feature_type)
        self.num_inputs = self.all_parsers[self.input_stream_name][0].num_features
        self.seq_to_target = [int(self._read(self.targets_stream, i)[0]) for i in range(len(self.all_seq_names))]
        for i, target in enumerate(self.seq_to_target):
            self.target_to_seqs.setdefault(target, []).append(i)
        if len(self.target_to_seqs) < 2:
            raise DataError(
                f"has {len(self.target_to_seqs)} class, but two are needed",
                dataset=self.description,
                key=self.targets_stream,
                file=", ".join(self.files[:3]),
            )
        self.class_probs = self._load_class_probs()

    def _load_class_probs(self) -> dict[int, float]:
        if self._class_distribution_file is None:
            return {target: float(len(seqs)) for target, seqs in self.target_to_seqs.items()}
        content = load_python_data(self._class_distribution_file, where=self.description)
        try:
            probs = {int(target): float(prob) for target, prob in content.items()}
        except (AttributeError, TypeError, ValueError):
            probs = {}
        if not sum(probs.get(target, 0.0) for target in self.target_to_seqs) or min(probs.values()) < 0:
            raise DataError(
                "expected a dict from class to probability, with classes of this data",
                dataset=self.description,
                key=self.targets_stream,
                file=self._class_distribution_file,
                hint=f"The classes are {', '.join(map(str, sorted(self.target_to_seqs)[:10]))}.",
            )
        return probs

    def init_seq_order(
        self, epoch: int | None = None, seq_list: Sequence[str] | None = None, seq_order: SeqOrder | None = None
    ) -> bool:
        super().init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        seed = self.get_random_seed_for_epoch(epoch or 1) % 2**32
        rng = np.random.RandomState(seed)
        self.curr_epoch_triplets = [self._draw_triplet(int(i), rng) for i in self.seq_order]
        return True

    def _draw_triplet(self, anchor: int, rng: np.random.RandomState) -> tuple[int, int, int]:
        target = self.seq_to_target[anchor]
        same = [i for i in self.target_to_seqs[target] if i != anchor] or [anchor]
        others = [other for other in self.target_to_seqs if other != target]
        probs = np.array([self.class_probs.get(other, 0.0) for other in others])
        probs = probs / probs.sum() if probs.sum() else np.full(len(others), 1 / len(others))
        other_seqs = self.target_to_seqs[others[rng.choice(len(others), p=probs)]]
        return anchor, same[rng.randint(len(same))], other_seqs[rng.randint(len(other_seqs))]

    def get_data_dim(self, key: str) -> int:
        return self.num_outputs[key][0]

    def is_data_sparse(self, key: str) -> bool:
        return self.num_outputs[key][1] == 1

    def _collect_single_seq(self, seq_idx: int) -> DatasetSeq:
        triplet = self.curr_epoch_triplets[seq_idx]
        features = {
            f"{name}_{i}": self._read(name, corpus_seq_idx)
            for name in self.all_parsers
            for i, corpus_seq_idx in enumerate(triplet)
        }
        return DatasetSeq(seq_idx, features, seq_tag=self.all_seq_names[triplet[0]])


def _attribute_text(group: Any, name: str) -> str:
    value = group.attrs.get(name, "")
    return value.decode("utf8") if isinstance(value, bytes) else str(value)
