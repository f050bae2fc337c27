"""
`PostprocessingDataset`: changes the data of another data set by functions of the config.

The functions get a `TensorDict` of numpy arrays. So this module knows `returnn.tensor`, as no other one here.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

import returnn.frontend  # noqa: F401 (values of tensors need it)
from returnn.datasets.core.dataset_seq import DEFAULT_KEY, Array, DatasetSeq
from returnn.datasets.core.registry import DatasetLike
from returnn.datasets.core.seq_order import SeqOrder
from returnn.datasets.core.wrapper import WrapperDataset, pass_order_options
from returnn.datasets.multi_proc import MultiProcDataset
from returnn.tensor import Tensor, TensorDict
from returnn.util.errors import ConfigError
from returnn.util.texts.counted import counted

MapSeq: TypeAlias = Callable[..., TensorDict]
MapSeqStream: TypeAlias = Callable[..., Iterator[TensorDict]]

_TAG_KEY = "seq_tag"
_GIVEN_TO_STREAM = ("epoch", "num_seqs", "rng")  # the keywords that functions are called with
_GIVEN_TO_SEQ = ("epoch", "seq_idx", "num_seqs", "rng")


class PostprocessingDataset(WrapperDataset):
    """
    `map_seq` makes one sequence from one sequence, `map_seq_stream` an iterator over sequences from one over sequences.

    Both are called with the keywords `epoch`, `seq_idx` (not the stream), `num_seqs` (None if unknown) and `rng` (a
    random state that is seeded for the epoch, and for the sequence), and need `**kwargs` for what they do not use.
    The key "seq_tag" has the tag. With `num_workers`, index and number are those of one process.
    """

    _checks_data = True

    def __init__(
        self,
        dataset: DatasetLike,
        map_seq: MapSeq | None = None,
        map_seq_stream: MapSeqStream | None = None,
        map_outputs: Mapping[str, Any] | None = None,
        map_seq_stream_preserves_num_seqs: bool | None = None,
        buf_size: int = 1,
        num_workers: int = 0,
        **kwargs: Any,
    ) -> None:
        """
        :param dataset: options of the other data set
        :param map_seq: `(TensorDict, **kwargs) -> TensorDict`
        :param map_seq_stream: `(Iterator[TensorDict], **kwargs) -> Iterator[TensorDict]`
        :param map_outputs: data key -> options as in `extern_data`, or a template; by default, as in the data set
        :param map_seq_stream_preserves_num_seqs: whether it gives as many sequences as it gets. By default, what its
            attribute `preserves_num_seqs` says, otherwise False.
        :param buf_size: how many sequences a process reads in advance
        :param num_workers: number of processes; 0: none
        """
        if (map_seq is None) == (map_seq_stream is None):
            raise ConfigError("PostprocessingDataset: exactly one of 'map_seq' and 'map_seq_stream' is needed.")
        if map_seq is not None and map_seq_stream_preserves_num_seqs is False:
            raise ConfigError(
                "PostprocessingDataset: option 'map_seq_stream_preserves_num_seqs': 'map_seq' makes one sequence of "
                "each, always."
            )
        if map_seq is not None:
            _check_function("map_seq", map_seq, _GIVEN_TO_SEQ, first="seq")
        else:
            _check_function("map_seq_stream", map_seq_stream, _GIVEN_TO_STREAM, first="seqs")
        if num_workers > 0:
            dataset, kwargs = pass_order_options(dataset, kwargs)
            dataset = {
                "class": "MultiProcDataset",
                "dataset": {
                    "class": "PostprocessingDataset",
                    "dataset": dataset,
                    "map_seq": map_seq,
                    "map_seq_stream": map_seq_stream,
                    "map_outputs": map_outputs,
                    "map_seq_stream_preserves_num_seqs": map_seq_stream_preserves_num_seqs,
                },
                "num_workers": num_workers,
                "buffer_size": buf_size,
                "sharding_method": "seq_order" if map_seq is not None else "dedicated",
            }
        super().__init__(dataset, **kwargs)
        self._is_done_inside = isinstance(self._inner, MultiProcDataset) and num_workers > 0
        self._map_seq = map_seq
        self._map_seq_stream = map_seq_stream
        self._preserves_num_seqs = map_seq is not None or bool(
            getattr(map_seq_stream, "preserves_num_seqs", False)
            if map_seq_stream_preserves_num_seqs is None
            else map_seq_stream_preserves_num_seqs
        )
        self._in_template = TensorDict(
            {key: _template_options(self._inner, key) for key in self._inner.get_data_keys()}
        )
        self._out_template = self._in_template if map_outputs is None else _templates(map_outputs)
        self._take_dims()
        self._stream: Iterator[TensorDict] | None = None

    def _take_dims(self) -> None:
        outputs = self._out_template.data
        self.num_outputs = {key: (_num_features(tensor), len(_shape(tensor))) for key, tensor in outputs.items()}
        self.num_inputs = self.num_outputs[DEFAULT_KEY][0] if DEFAULT_KEY in self.num_outputs else 0
        self.labels = {key: labels for key, labels in self._inner.labels.items() if key in self.num_outputs}
        self.vocabs = {key: vocab for key, vocab in self._inner.vocabs.items() if key in self.num_outputs}

    @property
    def supports_random_access(self) -> bool:
        return self._map_seq is not None and self._inner.supports_random_access

    # The order.

    def init_seq_order(
        self, epoch: int | None = None, seq_list: Sequence[str] | None = None, seq_order: SeqOrder | None = None
    ) -> bool:
        super().init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        changed = self._inner.init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        self._num_seqs = self._inner_num_seqs() if self._preserves_num_seqs else None
        self._stream = None
        if self._map_seq_stream is not None and not self._is_done_inside:
            seed = self.get_random_seed_for_epoch(epoch or 1) % 2**32
            self._stream = self._map_seq_stream(
                self._iterate_inner(),
                epoch=epoch or 1,
                num_seqs=self._inner_num_seqs(),
                rng=np.random.RandomState(seed),
            )
        return changed

    def _inner_num_seqs(self) -> int | None:
        try:
            return self._inner.num_seqs
        except NotImplementedError:
            return None

    def _iterate_inner(self) -> Iterator[TensorDict]:
        seq_idx = 0
        while self._inner.is_less_than_num_seqs(seq_idx):
            seq = self._copy_seq(seq_idx, seq_idx)
            assert seq is not None
            yield self._to_tensors(seq)
            seq_idx += 1

    # Data.

    def _collect_single_seq(self, seq_idx: int) -> DatasetSeq | None:
        if self._is_done_inside:
            return self._copy_seq(seq_idx, seq_idx)
        if self._stream is not None:
            tensors = next(self._stream, None)
            self._check_num_seqs(seq_idx, tensors)
            return None if tensors is None else self._from_tensors(tensors, seq_idx, f"seq-{seq_idx}")
        seq = self._copy_seq(seq_idx, seq_idx)
        if seq is None:
            return None
        assert self._map_seq is not None
        # By the tag, as the index is another one in each process.
        seed = [self.get_random_seed_for_epoch(self.epoch or 1) % 2**32, zlib.crc32(seq.seq_tag.encode("utf8"))]
        tensors = self._map_seq(
            self._to_tensors(seq),
            epoch=self.epoch,
            seq_idx=seq_idx,
            num_seqs=self._num_seqs,
            rng=np.random.RandomState(seed),
        )
        return self._from_tensors(tensors, seq_idx, seq.seq_tag)

    def _check_num_seqs(self, seq_idx: int, tensors: TensorDict | None) -> None:
        """:raises ConfigError: if the stream does not preserve the number of sequences, which it is said to"""
        if self._num_seqs is None:
            return
        assert self._stream is not None
        is_last = seq_idx == self._num_seqs - 1
        if tensors is None or (is_last and next(self._stream, None) is not None):
            found = f"only {seq_idx}" if tensors is None else "more"
            raise ConfigError(
                f"{self.description}: option 'map_seq_stream': of {counted(self._num_seqs, 'sequence')}, the function "
                f"makes {found}.\n  Set 'map_seq_stream_preserves_num_seqs' to False."
            )

    def _to_tensors(self, seq: DatasetSeq) -> TensorDict:
        tensors = self._in_template.copy_template()
        for key, data in seq.features.items():
            tensors.data[key].raw_tensor = data
        tag = np.array(seq.seq_tag)
        tensors.data[_TAG_KEY] = Tensor(_TAG_KEY, dims=(), dtype="string", raw_tensor=tag)
        return tensors

    def _from_tensors(self, tensors: Any, seq_idx: int, seq_tag: str) -> DatasetSeq:
        if not isinstance(tensors, TensorDict):
            function = "map_seq" if self._map_seq is not None else "map_seq_stream"
            raise ConfigError(
                f"{self.description}: option {function!r}: the function gives a {type(tensors).__name__}"
                f" for sequence {seq_tag!r}, expected a TensorDict."
            )
        if _TAG_KEY in tensors.data:
            seq_tag = str(np.asarray(tensors.data[_TAG_KEY].raw_tensor).item())
        features = {
            key: np.asarray(tensors.data[key].raw_tensor)
            for key in self._out_template.data
            if key in tensors.data and tensors.data[key].raw_tensor is not None
        }
        return DatasetSeq(seq_idx, features, seq_tag=seq_tag)

    # What is known about the sequences.

    def get_current_seq_order(self) -> SeqOrder:
        if self._map_seq is None:
            raise self._unknown("the order of the sequences")
        return self._inner.get_current_seq_order()

    def have_corpus_seq_idx(self) -> bool:
        return self._map_seq is not None and self._inner.have_corpus_seq_idx()

    def get_corpus_seq_idx(self, seq_idx: int) -> int:
        return self._inner.get_corpus_seq_idx(seq_idx)

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        if not self._preserves_num_seqs:
            raise self._unknown("the total number of sequences")
        return super().get_total_num_seqs(fast=fast)

    def get_all_tags(self) -> list[str]:
        if not self._preserves_num_seqs:
            raise self._unknown("the list of all tags")
        return super().get_all_tags()

    def get_data_keys(self) -> list[str]:
        return list(self._out_template.data)

    def get_target_list(self) -> list[str]:
        return [key for key in self.get_data_keys() if key != DEFAULT_KEY]

    def get_data_dim(self, key: str) -> int:
        return self.num_outputs[key][0] or 1

    def get_num_axes(self, key: str) -> int:
        return len(_shape(self._out_template.data[key]))

    def get_data_dtype(self, key: str) -> str:
        return str(self._out_template.data[key].dtype)

    def get_data_shape(self, key: str) -> list[int | None]:
        return _shape(self._out_template.data[key])[1:]

    def is_data_sparse(self, key: str) -> bool:
        return self._out_template.data[key].sparse_dim is not None


def _check_function(option: str, function: Any, keywords: Sequence[str], *, first: str) -> None:
    """:raises ConfigError: if it cannot be called with an argument and these keywords"""
    if isinstance(function, Sequential):
        for func in function.funcs:
            _check_function(option, func, keywords, first=first)
        return
    where = f"PostprocessingDataset: option {option!r}"
    if not callable(function):
        raise ConfigError(f"{where}: has to be a function, not {function!r}.")
    try:
        inspect.signature(function).bind(None, **dict.fromkeys(keywords))
    except TypeError as exc:
        name = getattr(function, "__name__", type(function).__name__)
        code = getattr(function, "__code__", None)
        place = f"\n  It is in {code.co_filename}, line {code.co_firstlineno}." if code is not None else ""
        raise ConfigError(
            f"{where}: {name!r} cannot be called: {exc}.\n  It gets {counted(len(keywords), 'keyword')}, of which"
            f" **kwargs can be some: def {name}({first}, *, {', '.join(keywords)}, **kwargs).{place}"
        ) from exc
    except ValueError:  # it has no signature
        return


def _template_options(dataset: Any, key: str) -> dict[str, Any]:
    num_axes = dataset.get_num_axes(key)
    shape = ([None] if num_axes else []) + list(dataset.get_data_shape(key))
    options: dict[str, Any] = {"shape": shape, "dtype": dataset.get_data_dtype(key), "batch_dim_axis": None}
    if dataset.is_data_sparse(key):
        options.update(sparse=True, dim=dataset.get_data_dim(key))
    return options


def _templates(map_outputs: Mapping[str, Any]) -> TensorDict:
    templates = {
        key: {"batch_dim_axis": None, **options} if isinstance(options, Mapping) else options
        for key, options in map_outputs.items()
    }
    return TensorDict(templates)


def _shape(tensor: Tensor[Any]) -> list[int | None]:
    """:return: of one sequence, with time"""
    return [dim.dimension for dim in tensor.dims if not dim.is_batch_dim()]


def _num_features(tensor: Tensor[Any]) -> int:
    """:return: of each frame, or of labels. Where no dim is said to be that of features, it is the last one"""
    if tensor.dim:
        return tensor.dim
    shape = _shape(tensor)
    return (shape[-1] if shape else None) or 1


class LaplaceOrdering:
    """
    For `map_seq_stream`: sorts each bin of sequences by length, in turns up and down.

    As the order "laplace", for a stream.
    """

    preserves_num_seqs = True

    def __init__(self, num_seqs_per_bin: int, length_key: str = DEFAULT_KEY) -> None:
        """
        :param num_seqs_per_bin: how many sequences to wait for
        :param length_key: data key whose length counts
        """
        self.num_seqs_per_bin = num_seqs_per_bin
        self.length_key = length_key

    def __call__(self, iterator: Iterator[TensorDict], **kwargs: Any) -> Iterator[TensorDict]:
        reverse = False
        seqs: list[TensorDict] = []
        for seq in iterator:
            seqs.append(seq)
            if len(seqs) == self.num_seqs_per_bin:
                yield from sorted(seqs, key=self._length, reverse=reverse)
                seqs, reverse = [], not reverse
        yield from sorted(seqs, key=self._length, reverse=reverse)

    def _length(self, seq: TensorDict) -> int:
        data: Array = np.asarray(seq.data[self.length_key].raw_tensor)
        return len(data)


class Sequential:
    """For `map_seq` or `map_seq_stream`: several functions after each other."""

    def __init__(self, *postprocessing_funcs: Callable[..., Any]) -> None:
        """:param postprocessing_funcs: all of them for a sequence, or all of them for a stream"""
        self.funcs = postprocessing_funcs

    def __call__(self, arg: Any, **kwargs: Any) -> Any:
        for func in self.funcs:
            arg = func(arg, **kwargs)
        return arg

    @property
    def preserves_num_seqs(self) -> bool:
        """Whether as many sequences come out as go in."""
        return all(getattr(func, "preserves_num_seqs", False) for func in self.funcs)
