"""
From data sets to feed dicts: through a thread, or through `tf.data`, option `dataset_pipeline`.

The option is True, or a function that gets an `InputContext` and returns a `tf.data.Dataset`. True means:

    def dataset_pipeline(context):
        dataset = context.get_returnn_dataset()
        dataset = context.padded_batch_dataset(dataset)
        dataset = context.map_producer_to_consumer(dataset)
        return context.prefetch_to_consumer_device(dataset)

An element of the first data set is one sequence: a dict with its data by key, its lengths in frames by `KEY_seq_lens`,
and its `seq_tag`. The last one has batches of that. `batch_size`, filters by length and chunks are up to the function.
"""

from __future__ import annotations

import abc
import itertools
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy
import tensorflow as tf

from returnn.config import Config
from returnn.datasets.core.batch import Batch
from returnn.datasets.core.batch_arrays import SEQ_TAG_KEY, further_sizes
from returnn.datasets.core.batch_generator import BatchSetGenerator
from returnn.datasets.core.dataset import Dataset
from returnn.engine.run.batch_feeder import DEFAULT_CAPACITY, BatchFeeder
from returnn.engine.training_position import BatchPosition
from returnn.tf.distributed.workers import current_workers
from returnn.tf.engine.feeding.feed import FeedBatch, FeedMaker
from returnn.tf.network.extern_data import ExternData
from returnn.util.errors import ConfigError
from returnn.util.numbers.global_random import GlobalRandomState
from returnn.util.system.gpu import have_gpu

tf1 = tf.compat.v1

_LENGTHS = "_seq_lens"
_DEFAULT_MAX_SEQS = 10
_PREFETCH = 2  # batches


class DataProviderBase(abc.ABC):
    """Where the feed dicts of an epoch come from."""

    def __init__(self, *, extern_data: ExternData, data_keys: Sequence[str] | None = None) -> None:
        """
        :param extern_data: with placeholders
        :param data_keys: what is fed; None: all
        """
        self.coord = tf.train.Coordinator()
        self.extern_data = extern_data
        self.data_keys = sorted(extern_data.data) if data_keys is None else list(data_keys)

    @abc.abstractmethod
    def start_threads(self, session: tf.compat.v1.Session) -> None:
        """Begins the epoch."""

    @abc.abstractmethod
    def stop_threads(self) -> None:
        """Ends the epoch, at any point."""

    @abc.abstractmethod
    def have_more_data(self, session: tf.compat.v1.Session) -> bool:
        """:return: whether there is one more batch"""

    @abc.abstractmethod
    def get_feed_dict(self, single_threaded: bool = False) -> tuple[dict[Any, Any], dict[str, Any]]:
        """
        :param single_threaded: load it now, and not in a thread
        :return: feed dict of the next batch; what else is known of it: `seq_tag`
        """

    @abc.abstractmethod
    def have_reached_end(self) -> bool:
        """:return: whether the epoch is over"""

    @abc.abstractmethod
    def get_dataset_name(self) -> str:
        """:return: of the data set"""

    @abc.abstractmethod
    def get_complete_frac(self) -> float:
        """:return: how much of the epoch is done, 0 to 1"""


class FeedDictDataProvider(DataProviderBase):
    """Batches of a data set, loaded and padded in a thread."""

    def __init__(
        self,
        *,
        dataset: Dataset,
        batches: BatchSetGenerator,
        enforce_min_len1: bool = False,
        capacity: int = DEFAULT_CAPACITY,
        batch_slice: slice | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param dataset: after `init_seq_order`
        :param batches: of that epoch
        :param enforce_min_len1: whether padded arrays have at least one frame
        :param capacity: how many batches are made ahead
        :param batch_slice: which of the batches are taken, by their number
        :param kwargs: see `DataProviderBase`
        """
        super().__init__(**kwargs)
        self.dataset = dataset
        self.batches = batches
        self.enforce_min_len1 = enforce_min_len1
        self.batch_slice = batch_slice
        self.cur_batch_idx = 0
        self.reached_end = False
        self._capacity = capacity
        self._feeder: BatchFeeder | None = None
        self._items: Iterator[FeedBatch] = iter(())
        self._next: FeedBatch | None = None
        self._complete_frac = 0.0

    def start_threads(self, session: tf.compat.v1.Session) -> None:
        """Starts the thread that loads batches."""
        selected = BatchSetGenerator(self.dataset, self._selected())
        self._feeder = BatchFeeder(self._maker(), selected, capacity=self._capacity)
        self._feeder.__enter__()
        self._items = iter(self._feeder)

    def stop_threads(self) -> None:
        """Ends the thread."""
        if self._feeder is not None:
            self._feeder.__exit__()
            self._feeder = None

    def get_next_batch(self, *, consider_batch_slice: bool = False) -> Batch | None:
        """
        :param consider_batch_slice: leave out those that `batch_slice` does not take
        :return: the next batch; None at the end
        """
        while self.batches.has_more():
            (batch,) = self.batches.peek_next_n(1)
            self.batches.advance(1)
            idx, self.cur_batch_idx = self.cur_batch_idx, self.cur_batch_idx + 1
            if not consider_batch_slice or self._is_taken(idx):
                return batch
        return None

    def have_more_data(self, session: tf.compat.v1.Session) -> bool:
        """:return: whether there is one more batch; waits for it"""
        if self._next is None and not self.reached_end:
            self._next = next(self._items, None)
            self.reached_end = self._next is None
        return self._next is not None

    def get_feed_dict(self, single_threaded: bool = False) -> tuple[dict[Any, Any], dict[str, Any]]:
        """:return: feed dict of the next batch, and its `seq_tag`"""
        if single_threaded:
            batch = self.get_next_batch(consider_batch_slice=True)
            self._next = None if batch is None else self._maker().feed_batch(batch)
            self.reached_end = batch is None
        elif not self.have_more_data(session=None):  # type: ignore[arg-type]
            self._next = None
        if self._next is None:
            raise StopIteration("the epoch is over")
        item, self._next = self._next, None
        self._complete_frac = item.complete_frac or 0.0
        return item.feed_dict, {SEQ_TAG_KEY: item.seq_tags}

    def have_reached_end(self) -> bool:
        """:return: whether the epoch is over"""
        return self.reached_end

    def get_dataset_name(self) -> str:
        """:return: of the data set"""
        return self.dataset.name

    def get_complete_frac(self) -> float:
        """:return: how much of the epoch is done, 0 to 1"""
        return self._complete_frac

    def _maker(self) -> FeedMaker:
        return FeedMaker(
            self.dataset, self.extern_data, used_keys=set(self.data_keys), enforce_min_len1=self.enforce_min_len1
        )

    def _selected(self) -> Iterator[Batch]:
        while (batch := self.get_next_batch(consider_batch_slice=True)) is not None:
            yield batch

    def _is_taken(self, idx: int) -> bool:
        return self.batch_slice is None or idx in range(*self.batch_slice.indices(idx + 1))


class InputContext:
    """What a `dataset_pipeline` function gets: one data set, and the steps that its data can go through."""

    def __init__(
        self,
        parent: DatasetDataProvider,
        extern_data: ExternData,
        config: Config,
        dataset_name: str,
        returnn_dataset: Dataset,
        iterator: Any = None,
    ) -> None:
        """
        :param parent: has all data sets
        :param extern_data: the data that the network takes
        :param config: `dataset_pipeline`, `max_seqs`
        :param dataset_name: such as "train"
        :param returnn_dataset: after `init_seq_order`, whenever it is started
        :param iterator: over the data set that results; by default, it is made
        """
        self.parent = parent
        self.extern_data = extern_data
        self.config = config
        self.dataset_name = dataset_name
        self.returnn_dataset = returnn_dataset
        self.num_dataset_producers = 1
        self.num_dataset_consumers = 1
        workers = current_workers()
        self.horovod_enabled = workers is not None
        self.horovod_rank = 0 if workers is None else workers.rank
        self.horovod_size = 1 if workers is None else workers.size
        self.distributed_tf_enabled = workers is not None
        self.takes_shard = workers is not None and workers.options.data == "shard"
        self.error: Exception | None = None  # of the data set, in the thread that reads it
        self.final_dataset = self._run_pipeline()
        self.iterator = tf1.data.make_initializable_iterator(self.final_dataset) if iterator is None else iterator
        self.final_dataset_init_iterator_op = self.make_iterator_initializer(self.iterator)

    def get_dataset_name(self) -> str:
        """:return: such as "train" """
        return self.dataset_name

    def get_returnn_dataset(self, **kwargs: Any) -> tf.data.Dataset:
        """
        :param kwargs: for `tf.data.Dataset.from_generator`
        :return: single sequences
        """
        signature = {SEQ_TAG_KEY: tf.TensorSpec((), tf.string)}
        for key in self.parent.data_keys:
            data = self.extern_data.data[key]
            shape = data.copy_as_batch_major().batch_shape[1:]
            signature[key] = tf.TensorSpec(shape, tf.as_dtype(data.dtype))
            if data.time_dim_axis is not None:
                signature[f"{key}{_LENGTHS}"] = tf.TensorSpec((), tf.int32)
            signature |= {name: tf.TensorSpec((), tf.int32) for name in further_sizes(data, key)}
        return tf.data.Dataset.from_generator(self._seqs, output_signature=signature, **kwargs)

    def get_default_max_seqs(self) -> int:
        """:return: option `max_seqs`"""
        return self.config.options.max_seqs or _DEFAULT_MAX_SEQS

    def padded_batch_dataset(self, dataset: tf.data.Dataset, drop_remainder: bool = False) -> tf.data.Dataset:
        """
        :param dataset: of single sequences
        :param drop_remainder: leave out the last batch, if it is smaller
        :return: of batches with `max_seqs` sequences
        """
        return dataset.padded_batch(self.get_default_max_seqs(), drop_remainder=drop_remainder)

    def map_producer_to_consumer(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """:return: the same: one process makes the data and uses it"""
        return dataset

    def get_consumer_device(self) -> str:
        """:return: where the data is used"""
        return "/device:GPU:0" if have_gpu() else "/device:CPU:0"

    def prefetch_to_consumer_device(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """:return: the same, made ahead"""
        return dataset.prefetch(_PREFETCH)

    def make_iterator_initializer(self, iterator: Any) -> tf.Operation:
        """:return: op that begins an epoch"""
        return iterator.make_initializer(self.final_dataset)

    def _run_pipeline(self) -> tf.data.Dataset:
        option = self.config.options.dataset_pipeline
        pipeline: Callable[[InputContext], Any] = default_pipeline if option in (None, True) else option
        dataset = pipeline(self)
        if not isinstance(dataset, tf.data.Dataset) or not isinstance(dataset.element_spec, Mapping):
            raise ConfigError(
                f"option 'dataset_pipeline': the function returned {dataset!r}.\n"
                "  It has to be a tf.data.Dataset of dicts: data key -> batch of sequences."
            )
        return dataset

    def _seqs(self) -> Iterator[dict[str, Any]]:
        try:
            yield from self._read_seqs()
        except Exception as exc:  # TensorFlow hands on its text alone
            self.error = exc
            raise

    def _read_seqs(self) -> Iterator[dict[str, Any]]:
        dataset, seq_idx = self.returnn_dataset, 0
        while self._has_seq(seq_idx):
            dataset.load_seqs(seq_idx, seq_idx + 1)
            seq: dict[str, Any] = {SEQ_TAG_KEY: dataset.get_tag(seq_idx)}
            for key in self.parent.data_keys:
                seq[key] = numpy.asarray(dataset.get_data(seq_idx, key), self.extern_data.data[key].dtype)
                if self.extern_data.data[key].time_dim_axis is not None:
                    seq[f"{key}{_LENGTHS}"] = len(seq[key])
                sizes = further_sizes(self.extern_data.data[key], key)
                seq |= {name: seq[key].shape[axis] for name, axis in sizes.items()}
            self.parent.current_dataset_complete_frac = dataset.get_complete_frac(seq_idx) or 0.0
            yield seq
            seq_idx += 1

    def _has_seq(self, seq_idx: int) -> bool:
        self.parent.reading_thread = threading.get_ident()  # of TensorFlow, not always the same one
        return self.returnn_dataset.is_less_than_num_seqs(seq_idx)


class PipelineFeeder(BatchFeeder[FeedBatch]):
    """
    Batches of an epoch out of `tf.data`, as the engine wants them. To be used as a context.

    A thread waits for them, so that the main thread can tell how long it takes, and end it.
    """

    def __init__(
        self,
        maker: FeedMaker,
        batches: BatchSetGenerator,
        *,
        provider: DatasetDataProvider,
        session: tf.compat.v1.Session,
        **kwargs: Any,
    ) -> None:
        """
        :param maker: of the data set
        :param batches: are not used, as the pipeline makes its own
        :param provider: with the data set as the current one, after its `init_seq_order`
        :param session: with the graph of the provider
        :param kwargs: see `BatchFeeder`
        """
        super().__init__(maker, batches, **kwargs)
        self._feed_maker = maker
        self._provider = provider
        self._session = session

    def __enter__(self) -> PipelineFeeder:
        self._provider.start_threads(self._session, maker=self._feed_maker)
        super().__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        self._provider.stop_threads()

    def _reading_thread(self) -> int | None:
        return self._provider.reading_thread

    def _make_items(self) -> Iterator[FeedBatch]:
        batches, position = self._batches(), BatchPosition()
        if self._resumed_at is not None:
            wanted, random_state = self._resumed_at.batches, GlobalRandomState.current()
            for batch in itertools.islice(batches, wanted.num_batches):
                position = _position_behind(batch, position)
            wanted.check(position)
            if GlobalRandomState.current() == random_state:
                self._resumed_at.random_state.restore()
        for batch in batches:
            position = _position_behind(batch, position)
            yield replace(batch, position=position)

    def _batches(self) -> Iterator[FeedBatch]:
        while self._provider.have_more_data(self._session):
            feed_dict, meta = self._provider.get_feed_dict()
            yield FeedBatch(
                feed_dict=feed_dict,
                seq_tags=meta[SEQ_TAG_KEY],
                num_frames=max(
                    (value.shape[0] * value.shape[1] for value in feed_dict.values() if _is_array(value)), default=0
                ),
                complete_frac=self._provider.get_complete_frac() or None,
            )


def _position_behind(batch: FeedBatch, position: BatchPosition) -> BatchPosition:
    content = repr((batch.seq_tags, batch.num_frames)).encode("utf8")
    return BatchPosition(position.num_batches + 1, zlib.crc32(content, position.checksum))


def _is_array(value: Any) -> bool:
    return isinstance(value, numpy.ndarray) and value.ndim > 1


def default_pipeline(context: InputContext) -> tf.data.Dataset:
    """:return: padded batches, made ahead. Of several workers, each takes its part of the sequences"""
    dataset = context.get_returnn_dataset()
    if context.takes_shard:
        dataset = dataset.shard(context.horovod_size, context.horovod_rank)
    dataset = context.padded_batch_dataset(dataset)
    return context.prefetch_to_consumer_device(context.map_producer_to_consumer(dataset))


class DatasetDataProvider(DataProviderBase):
    """Batches out of `tf.data`, for several data sets."""

    def __init__(
        self,
        extern_data: ExternData,
        config: Config,
        datasets: Mapping[str, Dataset] | None = None,
        *,
        data_keys: Sequence[str] | None = None,
    ) -> None:
        """
        :param extern_data: with placeholders, in the current graph
        :param config: `dataset_pipeline`
        :param datasets: by name
        :param data_keys: what is fed; None: all
        """
        super().__init__(extern_data=extern_data, data_keys=data_keys)
        self.config = config
        self.datasets = dict(datasets or {})
        self.contexts = {
            name: InputContext(self, extern_data, config, name, dataset) for name, dataset in self.datasets.items()
        }
        self._next_elements = {name: context.iterator.get_next() for name, context in self.contexts.items()}
        self._session: tf.compat.v1.Session | None = None
        self._maker: FeedMaker | None = None
        self.reading_thread: int | None = None
        self._next: dict[str, numpy.ndarray] | None = None
        self.current_dataset_name = next(iter(self.datasets), None)
        self.current_dataset_reached_end = False
        self.current_dataset_complete_frac = 0.0

    @property
    def iterator(self) -> Any:
        """Over the current data set."""
        return self.contexts[self.current_dataset_name].iterator

    @property
    def iterator_next_element(self) -> dict[str, tf.Tensor]:
        """The next batch of the current data set."""
        return self._next_elements[self.current_dataset_name]

    def set_current_dataset(self, dataset_name: str) -> None:
        """:param dataset_name: the one whose batches are wanted; its epoch begins with `start_threads`"""
        self.current_dataset_name = dataset_name

    def start_threads(self, session: tf.compat.v1.Session, *, maker: FeedMaker | None = None) -> None:
        """
        Begins an epoch of the current data set.

        :param session: with the graph
        :param maker: of feed dicts for this data set; by default, it is made
        """
        dataset = self.datasets[self.current_dataset_name]
        self._maker = maker or FeedMaker(dataset, self.extern_data, used_keys=set(self.data_keys))
        self._session, self._next = session, None
        self.current_dataset_reached_end = False
        self.current_dataset_complete_frac = 0.0
        session.run(self.contexts[self.current_dataset_name].final_dataset_init_iterator_op)

    def stop_threads(self) -> None:
        """Forgets the rest of the epoch. The threads belong to `tf.data`."""
        self._session, self._next = None, None

    def have_more_data(self, session: tf.compat.v1.Session) -> bool:
        """:return: whether there is one more batch; waits for it"""
        if self._next is None and not self.current_dataset_reached_end:
            context = self.contexts[self.current_dataset_name]
            try:
                self._next = session.run(dict(self.iterator_next_element))
            except tf.errors.OutOfRangeError:
                self.current_dataset_reached_end = True
            except tf.errors.OpError as exc:
                raise (context.error or exc) from None
        return self._next is not None

    def get_feed_dict(self, single_threaded: bool = False) -> tuple[dict[Any, Any], dict[str, Any]]:
        """:return: feed dict of the next batch, and its `seq_tag`"""
        assert self._session is not None, "start_threads begins an epoch"
        if not self.have_more_data(self._session):
            raise StopIteration("the epoch is over")
        values, self._next = self._next, None
        assert values is not None
        assert self._maker is not None
        maker = self._maker
        tags = [tag.decode("utf8") for tag in values.get(SEQ_TAG_KEY, ())]
        arrays: dict[str, Any] = {**values, SEQ_TAG_KEY: tags or [""]}
        missing = [key for key in maker.data_keys if key not in arrays]
        if missing:
            raise ConfigError(f"option 'dataset_pipeline': batches have no {missing[0]!r}, only {sorted(values)}.")
        num_seqs = len(arrays[maker.data_keys[0]])
        return maker.feed_arrays(arrays, num_seqs=num_seqs), {SEQ_TAG_KEY: tags}

    def have_reached_end(self) -> bool:
        """:return: whether the epoch is over"""
        return self.current_dataset_reached_end

    def get_dataset_name(self) -> str:
        """:return: of the current data set"""
        return self.current_dataset_name or ""

    def get_complete_frac(self) -> float:
        """:return: how much of the epoch is done, 0 to 1"""
        return self.current_dataset_complete_frac
