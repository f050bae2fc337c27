"""
`Dataset`: what all data sets have in common.

A data set is a corpus of sequences. `init_seq_order(epoch)` fixes which of them an epoch has, and in which order;
from then on, a `seq_idx` counts in this order, and `load_seqs` and `get_data` give the data. The same epoch has the
same data in each run, and can be entered at any sequence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from threading import RLock
from typing import Any, ClassVar

import numpy as np

from returnn.config import Config
from returnn.datasets.core.batch import Batch
from returnn.datasets.core.batch_generator import BatchLimits, BatchSetGenerator, generate_batches
from returnn.datasets.core.chunking import ChunkingOption, iterate_seqs, parse_chunking
from returnn.datasets.core.config_options import evaluation_options, training_options
from returnn.datasets.core.data_check import EMPTY, KeyInfo, empty_seqs, find_problem
from returnn.datasets.core.dataset_order import OrderOfDataset
from returnn.datasets.core.dataset_seq import DEFAULT_KEY, Array, DatasetSeq
from returnn.datasets.core.epoch_sequences import Chunk
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.frames import parse_context_window, slice_with_padding
from returnn.datasets.core.seq_order import (
    SeqOrder,
)
from returnn.datasets.util.vocabulary_base import Vocabulary
from returnn.util.numbers.numbers_dict import NumbersDict, NumbersLike
from returnn.util.python.introspect import call_with_known


class Dataset(OrderOfDataset):
    """
    Base class of all data sets.

    A data set says what it has by `num_outputs`: data key -> (dim, ndim), where ndim counts the axes of the data of
    one sequence, with time. Unless the class says otherwise, one axis means labels, and more mean features.
    """

    # Options of a base class which the class sets itself.
    fixed_options: ClassVar[tuple[str, ...]] = ()

    # Whether what it hands out is checked (see `check_seq`). Not where another data set has done that already.
    _checks_data = True

    # Whether any sequence of the epoch can be loaded at any time, and gives the same each time, without a new start.
    _random_access = False

    def __init__(
        self,
        *,
        name: str | None = None,
        window: int = 1,
        context_window: int | Mapping[str, int] | NumbersDict | None = None,
        chunking: ChunkingOption = None,
        seq_ordering: str = "default",
        fixed_random_seed: int | None = None,
        random_seed_offset: int | None = None,
        partition_epoch: int | None = None,
        repeat_epoch: int | None = None,
        seq_list_filter_file: str | None = None,
        unique_seq_tags: bool = False,
        seq_order_seq_lens_file: str | None = None,
        shuffle_frames_of_nseqs: int = 0,
        min_chunk_size: int | Mapping[str, int] = 0,
        chunking_variance: float = 0,
        estimated_num_seqs: int | None = None,
        _num_shards: int = 1,
        _shard_index: int = 0,
    ) -> None:
        """
        :param name: for messages
        :param window: puts that many frames of "data" into one, centered
        :param context_window: adds frames around each sequence or chunk: one number for "data", or a dict by key
        :param chunking: cuts sequences: size, "size:step", (size, step), with dicts by key, or a function
        :param seq_ordering: "default", "sorted", "random", "laplace:.1000" and so on (see `seq_order`)
        :param fixed_random_seed: the same random numbers in each epoch
        :param random_seed_offset: added to the epoch to get the seed. By default, the environment variable
            RETURNN_RANDOM_SEED_OFFSET, or else 0.
        :param partition_epoch: cuts the corpus into that many epochs
        :param repeat_epoch: goes that many times through the corpus in one epoch (before it is cut)
        :param seq_list_filter_file: takes only the sequences with the tags in this file
        :param unique_seq_tags: takes only the first one of sequences with the same tag
        :param seq_order_seq_lens_file: a dict from tag to length, to order by them (instead of the lengths in the data)
        :param shuffle_frames_of_nseqs: shuffles frames over each block of that many sequences
        :param min_chunk_size: leaves out the rest of a sequence if it has no more frames
        :param chunking_variance: makes chunks of each sequence shorter by a random part, up to this one (0 to 1)
        :param estimated_num_seqs: if the data set does not know its size: for the progress shown
        :param _num_shards: of a distributed training, each of which takes another part of the epoch
        :param _shard_index: which one this is, from 0
        """
        self.name = name or type(self).__name__
        self.lock = RLock()
        self.epoch: int | None = None
        self.num_inputs = 0
        self.num_outputs: dict[str, tuple[int, int]] = {}
        self.labels: dict[str, list[str]] = {}
        self.vocabs: dict[str, Vocabulary] = {}  # of labels of texts, which say how these are put together
        self.weights: dict[str, float] = {}

        self._set_order_options(
            seq_ordering=seq_ordering,
            fixed_random_seed=fixed_random_seed,
            random_seed_offset=random_seed_offset,
            partition_epoch=partition_epoch,
            repeat_epoch=repeat_epoch,
            seq_list_filter_file=seq_list_filter_file,
            unique_seq_tags=unique_seq_tags,
            seq_order_seq_lens_file=seq_order_seq_lens_file,
            num_shards=_num_shards,
            shard_index=_shard_index,
        )
        self._estimated_num_seqs = estimated_num_seqs

        self.window = self._positive("window", window)
        self.zpad: Array | None = None
        self.ctx_left, self.ctx_right = parse_context_window(context_window, where=self.description)
        parsed_chunking = parse_chunking(chunking, where=self.description)
        self.chunk_size, self.chunk_step = parsed_chunking.size, parsed_chunking.step
        self.custom_chunking_func = parsed_chunking.custom
        self.min_chunk_size = NumbersDict(min_chunk_size)
        self.chunking_variance = chunking_variance
        self.shuffle_frames_of_nseqs = shuffle_frames_of_nseqs
        self.rnd_seq_drop: np.random.RandomState | None = None

    def __repr__(self) -> str:
        return f"<{self.description}, epoch {self.epoch}>"

    def __reduce__(self) -> tuple[Any, ...]:
        args, kwargs = self._init_args
        return _make_dataset, (type(self), args, kwargs)

    # Options.

    @staticmethod
    def kwargs_update_from_config(config: Config, kwargs: dict[str, Any]) -> None:
        """
        :param config: its options for the training data are added
        :param kwargs: options of the data set; what is there already stays
        """
        for key, value in training_options(config).items():
            kwargs.setdefault(key, value)

    @staticmethod
    def get_default_kwargs_eval(config: Config) -> dict[str, Any]:
        """:return: options of data sets for evaluation: whole sequences, sorted by length"""
        return evaluation_options(config)

    @classmethod
    def from_config(cls, config: Config, **kwargs: Any) -> Dataset:
        """
        :param config: its options for the training data are taken where `kwargs` has no other ones
        :param kwargs: options of the data set
        """
        cls.kwargs_update_from_config(config, kwargs)
        dataset = cls(**kwargs)
        dataset.initialize()
        return dataset

    def initialize(self) -> None:
        """Called once after the constructor, before anything else. May open files or check what came together."""

    def set_file_cache(self, cache: object) -> None:
        """
        :param cache: where copies of remote files are kept, for data sets that read such files
        """

    # The order of an epoch.

    def init_seq_order(
        self, epoch: int | None = None, seq_list: Sequence[str] | None = None, seq_order: SeqOrder | None = None
    ) -> bool:
        """
        Starts an epoch. To be called before anything is loaded.

        :param epoch: from 1; None: 1
        :param seq_list: tags of the sequences of this epoch, instead of what the options say
        :param seq_order: corpus indices of the sequences of this epoch, instead of what the options say
        :return: whether the order may be another one than before
        """
        self._watched_files.check()
        self.epoch = epoch or 1
        self.rnd_seq_drop = None
        return True

    def finish_epoch(self, *, free_resources: bool = False) -> None:
        """
        Called at the end of an epoch.

        :param free_resources: whether to close and free what can be made again by `init_seq_order`
        """

    def get_current_seq_order(self) -> SeqOrder:
        """:return: corpus indices of the sequences of this epoch"""
        raise self._unknown("the order of the sequences")

    def supports_seq_order_sorting(self) -> bool:
        """:return: whether "sorted", "laplace" and so on work: the lengths are known beforehand"""
        return False

    @property
    def supports_random_access(self) -> bool:
        """Whether any sequence of the epoch can be loaded at any time without a new start."""
        return self._random_access

    def supports_sharding(self) -> bool:
        """:return: whether it can be distributed (`_num_shards`)"""
        return False

    # Sequences.

    def _unknown(self, what: str) -> NotImplementedError:
        # This type is part of the protocol: callers catch it, and do without.
        return NotImplementedError(f"{self.description}: {what} is not known.")

    @property
    def num_seqs(self) -> int:
        """
        Number of sequences in this epoch.

        :raises NotImplementedError: if that is not known yet: use `is_less_than_num_seqs`
        """
        raise self._unknown("the number of sequences")

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        """
        :param fast: only if it takes no time
        :return: number of sequences in the corpus, before any option selects from them
        :raises NotImplementedError: if that is not known
        """
        raise self._unknown("the total number of sequences")

    @property
    def estimated_num_seqs(self) -> int | None:
        """About how many sequences this epoch has, if known."""
        try:
            return self.num_seqs
        except NotImplementedError:
            return self._estimated_num_seqs

    def have_seqs(self) -> bool:
        """:return: whether there is at least one sequence"""
        try:
            return call_with_known(self.get_total_num_seqs, fast=True) > 0
        except NotImplementedError:
            return self.is_less_than_num_seqs(0)

    def is_less_than_num_seqs(self, n: int) -> bool:
        """:return: whether there is a sequence `n` in this epoch. May load data to find out."""
        return n < self.num_seqs

    def len_info(self, *, fast: bool = False) -> str:
        """:return: for messages, how large this is"""
        try:
            total = f"{call_with_known(self.get_total_num_seqs, fast=fast)} total seqs"
        except NotImplementedError:
            total = "unknown total seqs"
        try:
            frames = f"{self.get_num_timesteps()} total timesteps"
        except NotImplementedError:
            frames = "unknown total timesteps"
        return f"{self.description}, {total}, {frames}"

    def get_num_timesteps(self) -> int | NumbersDict:
        """:return: number of frames of this epoch, of all sequences together"""
        raise self._unknown("the number of frames")

    def _iter_corpus_tags(self) -> Iterable[str]:
        return self.get_all_tags()

    def get_all_tags(self) -> list[str]:
        """:return: tags of the corpus, in its order"""
        raise self._unknown("the list of all tags")

    def get_tag(self, sorted_seq_idx: int) -> str:
        """:return: tag of a sequence of this epoch"""
        return f"seq-{sorted_seq_idx}"

    def get_tags_of_epoch(self) -> list[str]:
        """
        :return: tags of all sequences of this epoch, in its order
        :raises NotImplementedError: if the number of sequences is not known
        """
        return [self.get_tag(seq_idx) for seq_idx in range(self.num_seqs)]

    def have_corpus_seq_idx(self) -> bool:
        """:return: whether `get_corpus_seq_idx` works"""
        return False

    def get_corpus_seq_idx(self, seq_idx: int) -> int:
        """:return: where a sequence of this epoch is in the corpus"""
        raise self._unknown("the position in the corpus")

    def have_get_corpus_seq(self) -> bool:
        """:return: whether `get_corpus_seq` works"""
        return False

    def get_corpus_seq(self, corpus_seq_idx: int) -> DatasetSeq:
        """:return: any sequence of the corpus. Works without `init_seq_order`."""
        raise self._unknown("a single sequence of the corpus")

    def get_complete_frac(self, sorted_seq_idx: int, *, allow_only_lr_suitable: bool = False) -> float | None:
        """
        :param sorted_seq_idx: in the order of the epoch
        :param allow_only_lr_suitable: only if it is exact enough for the learning rate to depend on it
        :return: how much of the epoch is done with this sequence, 0 to 1
        """
        try:
            num_seqs: int | None = self.num_seqs
        except NotImplementedError:
            if allow_only_lr_suitable:
                return None
            num_seqs = self._estimated_num_seqs
        return self.generic_complete_frac(sorted_seq_idx, num_seqs)

    @classmethod
    def generic_complete_frac(cls, seq_idx: int, num_seqs: int | None) -> float:
        """
        :param seq_idx: in the order of the epoch
        :param num_seqs: None: not known; then it grows slowly and never gets to 1
        """
        if num_seqs:
            return min((seq_idx + 1) / num_seqs, 1.0)
        return 1.0 - 1000.0 / (1001.0 + seq_idx)

    def sample(self, seq_idx: int) -> bool:
        """
        :return: whether this sequence takes part now. `weights` has the probability per tag, by default 1.
        """
        weight = self.weights.get(self.get_tag(seq_idx), 1.0)
        if weight >= 1.0:
            return True
        seed = [self.get_random_seed_for_epoch(self.epoch or 1) % 2**32, seq_idx]
        return bool(np.random.RandomState(seed).random_sample() < weight)

    # Data.

    def get_data_keys(self) -> list[str]:
        """:return: all data keys"""
        return [DEFAULT_KEY, *self.get_target_list()]

    def get_target_list(self) -> list[str]:
        """:return: all data keys without the input, "data\""""
        return [key for key in self.num_outputs if key != DEFAULT_KEY]

    def get_data_dim(self, key: str) -> int:
        """:return: number of labels or features"""
        if key in self.num_outputs:
            return self.num_outputs[key][0]
        if key == DEFAULT_KEY and self.num_inputs:
            return self.num_inputs
        return 1

    def get_num_axes(self, key: str) -> int:
        """:return: axes of the data of one sequence, with time; 0: one value per sequence"""
        if key in self.num_outputs:
            return self.num_outputs[key][1]
        return 2 if key == DEFAULT_KEY else 1

    def get_data_shape(self, key: str) -> list[int | None]:
        """:return: shape of one frame: [] for labels, [dim] for features; None where it varies"""
        ndim = self.get_num_axes(key)
        if self.is_data_sparse(key):
            return [None] * max(ndim - 1, 0)
        return [None] * (ndim - 2) + [self.get_data_dim(key)] if ndim >= 2 else []

    def get_data_dtype(self, key: str) -> str:
        """:return: numpy name"""
        return "int32" if self.is_data_sparse(key) else "float32"

    def is_data_sparse(self, key: str) -> bool:
        """:return: whether these are labels"""
        return self.get_num_axes(key) <= 1

    def is_cached(self, start: int, end: int) -> bool:
        """:return: whether the data of sequences `start` to `end` (exclusive) can be had right now"""
        return start == end

    def load_seqs(self, start: int, end: int) -> None:
        """
        Makes the data of sequences available. What is before `start` may be gone then.

        :param start: in the order of the epoch
        :param end: exclusive
        """
        assert start >= 0
        assert start <= end
        if not self.is_cached(start, end):
            self._load_seqs(start, end)

    def _load_seqs(self, start: int, end: int) -> None:
        raise self._unknown("how to load data")

    def get_seq_length(self, seq_idx: int) -> NumbersDict:
        """:return: number of frames per data key. Can be asked before the sequence is loaded."""
        raise self._unknown("the length of a sequence")

    def get_estimated_seq_length(self, seq_idx: int) -> int:
        """:return: about how many frames a sequence has, by its corpus index; without `init_seq_order`"""
        raise self._unknown("the estimated length of a sequence")

    def get_data(self, seq_idx: int, key: str) -> Array:
        """
        :param seq_idx: in the order of the epoch; it has to be loaded
        :param key: data key
        :return: (time, feature...), or (time,) for labels
        """
        return self.get_input_data(seq_idx) if key == DEFAULT_KEY else self.get_targets(key, seq_idx)

    def get_input_data(self, sorted_seq_idx: int) -> Array:
        """:return: the data of the key "data\""""
        raise self._unknown("the input data")

    def get_targets(self, target: str, sorted_seq_idx: int) -> Array:
        """:return: the data of any other key"""
        raise self._unknown(f"the target {target!r}")

    def get_times(self, sorted_seq_idx: int) -> Array | None:
        """:return: start of each frame in seconds, if the data has that"""
        return None

    def get_data_slice(self, seq_idx: int, key: str, start_frame: int, end_frame: int) -> Array:
        """
        :param seq_idx: in the order of the epoch; it has to be loaded
        :param key: data key
        :param start_frame: may be negative: there are zeros before the first frame
        :param end_frame: exclusive; may be over the end: there are zeros after the last frame
        """
        data = self.get_data(seq_idx, key)
        return slice_with_padding(data, int(start_frame), int(end_frame)) if data.ndim else data

    def get_start_end_frames_full_seq(self, seq_idx: int) -> tuple[NumbersDict, NumbersDict]:
        """:return: first and end frame per data key of the whole sequence, with the context around it"""
        length = self.get_seq_length(seq_idx)
        start = NumbersDict({key: -self.ctx_left[key] for key in length})
        end = NumbersDict({key: frames + self.ctx_right[key] for key, frames in length.items()})
        return start, end

    def can_serialize_data(self, key: str) -> bool:
        """:return: whether there are names for the labels"""
        return key in self.labels

    def serialize_data(self, key: str, data: Array) -> str:
        """
        :param key: data key
        :param data: labels
        :return: the text, as their vocabulary says; else their names, separated by spaces, or by nothing if each of
            them is one character
        """
        if key in self.vocabs:
            return self.vocabs[key].serialize_labels(data)
        labels = self.labels[key]
        if data.ndim == 0:
            return labels[int(data)]
        separator = "" if all(len(label) == 1 for label in labels) else " "
        return separator.join(labels[int(label)] for label in data)

    def check_seq(self, seq: DatasetSeq) -> None:
        """
        Checks the data of a sequence against what this data set says about its keys.

        :raises DataError: if it does not fit
        """
        problem = find_problem(seq, self.get_data_keys(), self._get_key_info)
        if problem:
            error = DataError(
                problem.text,
                dataset=self.description,
                seq=seq.seq_tag,
                key=problem.key,
                file=self._describe_source(seq),
                hint=problem.hint,
            )
            if problem.text != EMPTY:
                raise error
            empty_seqs.raise_or_wait(error, dataset=self, tag=seq.seq_tag)

    def _get_key_info(self, key: str) -> KeyInfo:
        ndim = len(self.get_data_shape(key)) + 1 if self.get_num_axes(key) else 0
        return KeyInfo(
            dim=self.get_data_dim(key) or None,
            ndim=ndim,
            is_sparse=self.is_data_sparse(key),
            dtype=self.get_data_dtype(key),
        )

    def _describe_source(self, seq: DatasetSeq) -> str | None:
        """:return: for errors, the file of a sequence, and where in it"""
        return None

    # Batches.

    def iterate_seqs(
        self, recurrent_net: bool = True, used_data_keys: Collection[str] | None = None
    ) -> Iterator[Chunk]:
        """
        :param recurrent_net: False: no chunks, as frames are taken one by one anyway
        :param used_data_keys: only their lengths count; None: all
        :return: sequences or chunks of the epoch: seq_idx, first frame and end frame per data key
        """
        return iterate_seqs(self, recurrent_net=recurrent_net, used_data_keys=used_data_keys)

    def batch_set_generator_cache_whole_epoch(self) -> bool:
        """:return: whether batches are kept, to go through the same epoch again"""
        return False

    def generate_batches(
        self,
        shuffle_batches: bool = False,
        *,
        recurrent_net: bool = True,
        used_data_keys: Collection[str] | None = None,
        **kwargs: NumbersLike,
    ) -> BatchSetGenerator:
        """
        :param shuffle_batches: whether to go through the batches in random order
        :param recurrent_net: False: frames need no neighbours, so batches are filled up with frames
        :param used_data_keys: whose lengths count; None: all
        :param kwargs: the limits `batch_size`, `max_seqs`, `max_seq_length`, `min_seq_length`, `max_pad_size`,
            `max_total_num_seqs`, `seq_drop` (see `BatchLimits`)
        """
        limits = BatchLimits.of(**kwargs)  # type: ignore[arg-type]  # checked there
        left_out = Counter[str]()
        batches = generate_batches(
            self, limits, recurrent_net=recurrent_net, used_data_keys=used_data_keys, left_out=left_out
        )
        return BatchSetGenerator(
            self,
            batches,
            shuffle_batches=shuffle_batches,
            cache_whole_epoch=self.batch_set_generator_cache_whole_epoch(),
            left_out=left_out,
        )

    @classmethod
    def index_shape_for_batches(cls, batches: Iterable[Batch], data_key: str = DEFAULT_KEY) -> tuple[int, int]:
        """
        :param batches: to be computed together
        :param data_key: whose frames count
        :return: number of frames with padding, number of slices
        """
        num_frames, num_slices = 0, 0
        for batch in batches:
            num_frames = max(num_frames, int(batch.max_num_frames_per_slice[data_key]))
            num_slices += batch.num_slices
        return num_frames, num_slices


def _make_dataset(cls: type[Dataset], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Dataset:
    dataset = cls(*args, **kwargs)
    dataset.initialize()
    return dataset
