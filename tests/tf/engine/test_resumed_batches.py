"""Batches behind a position are the same, whether or not the ones before were used, on all data sets."""

import random

import numpy as np
import pytest

from returnn.datasets.cached2 import CachedDataset2
from returnn.datasets.core.dataset_seq import DatasetSeq
from returnn.datasets.core.registry import init_dataset
from returnn.engine.run.batch_feeder import BatchFeeder
from returnn.engine.training_position import BatchPosition, PositionError, TrainingPosition
from returnn.tf.engine.feeding.feed import FeedBatch
from returnn.util.numbers.global_random import GlobalRandomState, seed_global_random
from returnn.util.numbers.numbers_dict import NumbersDict
from tests.datasets import stand_ins
from tests.datasets.cases import CASES, hdf, static
from tests.datasets.noise import add_global_noise, add_noise, add_noise_to_all

EPOCH = 3


class Maker:
    """As `FeedMaker`, without a network."""

    def __init__(self, dataset):
        self.dataset = dataset

    def feed_batch(self, batch):
        dataset = self.dataset
        dataset.load_seqs(batch.start_seq, batch.end_seq)
        data = {
            key: [
                dataset.get_data_slice(part.seq_idx, key, part.seq_start_frame[key], part.seq_end_frame[key])
                if key in part.seq_start_frame.keys_set
                else dataset.get_data(part.seq_idx, key)
                for part in batch.seqs
            ]
            for key in dataset.get_data_keys()
        }
        tags = [dataset.get_tag(part.seq_idx) for part in batch.seqs]
        return FeedBatch(feed_dict=data, seq_tags=tags, num_frames=0, complete_frac=None)


def feed(description, resumed_at=None, **options):
    dataset = init_dataset(description)
    seed_global_random([EPOCH])
    dataset.init_seq_order(EPOCH)
    batches = dataset.generate_batches(**{"max_seqs": 2, "batch_size": 100, "max_total_num_seqs": 12, **options})
    try:
        with BatchFeeder(Maker(dataset), batches, resumed_at=resumed_at) as feeder:
            return list(feeder)
    finally:
        dataset.finish_epoch(free_resources=True)


def position(batches, random_state=None):
    return TrainingPosition(
        epoch=EPOCH, first_train_step=0, num_steps=0, num_seqs=0, batches=batches, elapsed_s=0.0, score_sums={},
        score_frames={}, random_state=random_state or GlobalRandomState.current(),
    )  # fmt: skip


def assert_same(one, other):
    assert [batch.seq_tags for batch in one] == [batch.seq_tags for batch in other]
    assert [batch.position for batch in one] == [batch.position for batch in other]
    for a, b in zip(one, other, strict=True):
        for key in a.feed_dict:
            for x, y in zip(a.feed_dict[key], b.feed_dict[key], strict=True):
                np.testing.assert_array_equal(x, y)


class Noise(CachedDataset2):
    """Draws from the global random states, as code of users does."""

    def __init__(self):
        super().__init__()
        self.num_outputs = {"data": (2, 2)}

    def init_seq_order(self, epoch=None, seq_list=None, seq_order=None):
        super().init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        self._num_seqs = random.randint(9, 11)
        return True

    def _collect_single_seq(self, seq_idx):
        noise = np.random.normal(size=(random.randint(2, 5), 2)).astype("float32")
        return DatasetSeq(seq_idx, noise, seq_tag=f"noise-{seq_idx}")


def own_chunks(dataset, seq_idx_start, **_kwargs):
    while dataset.is_less_than_num_seqs(seq_idx_start):
        length = dataset.get_seq_length(seq_idx_start)
        for start in range(0, int(length["data"]) - 1, 2):
            start = NumbersDict.constant_like(start, length)
            yield seq_idx_start, start, start + NumbersDict.constant_like(2, length)
        seq_idx_start += 1


def wrapped(class_name, **options):
    return lambda tmp_path: {"class": class_name, "dataset": hdf(tmp_path, seq_ordering="random"), **options}


MORE_CASES = {
    "own class": lambda _tmp_path: Noise(),
    "PostprocessingDataset": wrapped("PostprocessingDataset", map_seq=add_noise),
    "PostprocessingDataset, stream": wrapped("PostprocessingDataset", map_seq_stream=add_noise_to_all),
    "MultiProcDataset": lambda _tmp_path: {
        "class": "MultiProcDataset",
        "dataset": {"class": "PostprocessingDataset", "dataset": static(), "map_seq": add_global_noise},
        "num_workers": 2,
        "buffer_size": 2,
    },
    "chunks": lambda tmp_path: static(chunking=({"data": 2}, {"data": 1}), chunking_variance=0.5),
    "own chunks": lambda tmp_path: static(chunking=own_chunks),
    "context": lambda tmp_path: static(context_window=3),
    "sorted": lambda tmp_path: static(seq_ordering="laplace:2", partition_epoch=2, repeat_epoch=2),
}


@pytest.mark.parametrize("name", {**CASES, **MORE_CASES})
def test_all_data_sets(name, tmp_path, monkeypatch):
    if name not in MORE_CASES:
        stand_ins.install(monkeypatch)
    description = {**CASES, **MORE_CASES}[name](tmp_path)
    expected = feed(description)
    nums = {1, len(expected) // 2, len(expected)} if name != "MultiProcDataset" else {3}  # processes are slow to start
    for num in sorted(nums):
        assert_same(feed(description, position(expected[num - 1].position)), expected[num:])


@pytest.mark.parametrize(
    "options",
    [{"shuffle_batches": True}, {"seq_drop": 0.4}, {"recurrent_net": False, "batch_size": 7}, {"max_pad_size": 2}],
    ids=str,
)
def test_all_kinds_of_batches(options):
    description = static(seq_ordering="random")
    del description["output_dim"]
    description["data"] = [{"data": seq["data"], "seq_tag": seq["seq_tag"]} for seq in description["data"]]
    expected = feed(description, **options)
    assert_same(feed(description, position(expected[2].position), **options), expected[3:])


def test_other_batches_are_an_error():
    expected = feed(static())
    for options in ({"max_seqs": 3}, {"min_seq_length": 4}):
        with pytest.raises(PositionError, match="The epoch does not begin with the same 4 batches as before"):
            feed(static(), position(expected[3].position), **options)
    with pytest.raises(PositionError, match="The epoch does not begin with the same 100 batches"):
        feed(static(), position(BatchPosition(100, 0)))


def test_other_sequences_of_the_same_lengths_are_an_error():
    data = [{"data": np.zeros((3, 2), "float32"), "seq_tag": f"seq-{i}"} for i in range(12)]
    description = {"class": "StaticDataset", "data": data, "seq_ordering": "laplace:2", "random_seed_offset": 1}
    expected = feed(description)
    assert_same(feed(description, position(expected[1].position)), expected[2:])
    with pytest.raises(PositionError, match="The epoch does not begin with the same 2 batches as before"):
        feed({**description, "random_seed_offset": 2}, position(expected[1].position))


@pytest.mark.parametrize(("description", "is_restored"), [(static(), True), (None, False)])
def test_random_state_is_that_of_the_data_if_the_data_uses_it(description, is_restored):
    """Else it is that of whatever else used it, such as a function of the network."""
    state = GlobalRandomState.current()
    expected = feed(description or Noise())
    after = GlobalRandomState.current()
    seed_global_random([7])
    feed(description or Noise(), position(expected[-1].position, state))
    assert GlobalRandomState.current() == (state if is_restored else after)
