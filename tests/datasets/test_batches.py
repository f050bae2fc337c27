"""Chunks and batches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from returnn.datasets.basic import shapes_for_batches
from returnn.datasets.core.batch import Batch
from returnn.datasets.core.batch_arrays import check_shape_of_seq
from returnn.datasets.core.chunking import parse_chunking
from returnn.datasets.core.data_check import empty_seqs_allowed
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.registry import init_dataset
from returnn.engine.batch import BatchSetGenerator, batch_to_raw_dict
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.util.errors import ConfigError
from returnn.util.numbers.numbers_dict import NumbersDict


def make_dataset(lens, **options):
    data = [
        {"data": np.arange(length * 2, dtype="float32").reshape(length, 2), "classes": np.arange(length // 2 + 1) % 7}
        for length in lens
    ]
    dataset = init_dataset({"class": "StaticDataset", "data": data, "output_dim": {"classes": (50, 1)}, **options})
    dataset.init_seq_order(1)
    return dataset


def all_batches(dataset, **limits):
    generator = dataset.generate_batches(**limits)
    batches = []
    while generator.has_more():
        batches += generator.peek_next_n(1)
        generator.advance(1)
    return batches


def test_sequences_without_frames_where_they_are_allowed():
    with pytest.raises(DataError, match="sequence 'seq-1': has no frames"):
        all_batches(make_dataset([3, 0, 2]), batch_size=3)
    dataset = make_dataset([3, 0, 2])
    with empty_seqs_allowed() as empty:
        batches = all_batches(dataset, batch_size=3)
        (frames, *_others) = (dataset.get_data_slice(1, "data", 0, 1), None)
    assert empty == {"seq-1"}
    assert [[int(part.seq_end_frame["data"]) for part in batch.seqs] for batch in batches] == [[3], [1], [2]]
    assert (frames.shape, frames.any()) == ((1, 2), False)
    assert [int(part.seq_end_frame["classes"]) for batch in batches for part in batch.seqs] == [2, 1, 2]


def test_sequences_without_frames_are_left_out_if_they_may_be_too_short():
    dataset = make_dataset([3, 0, 2])
    for _ in range(2):  # they are loaded again in the next epoch, and with the frames of other batches
        batches = all_batches(dataset, batch_size=3, min_seq_length={"data": 1})
        assert [part.seq_idx for batch in batches for part in batch.seqs] == [0, 2]
        dataset.load_seqs(0, 3)
        dataset.init_seq_order(epoch=2)
    with pytest.raises(DataError, match="sequence 'seq-1': has no frames"):
        all_batches(dataset, batch_size=3)
    with pytest.raises(DataError, match="sequence 'seq-1': has no frames"):
        all_batches(make_dataset([3, 0, 2]), batch_size=3, min_seq_length={"classes": 1})


lens_lists = st.lists(st.integers(1, 20), min_size=1, max_size=15)


@settings(deadline=None)
@given(lens_lists, st.integers(1, 60), st.integers(1, 6), st.integers(0, 20))
def test_batches_are_within_their_limits_and_as_large_as_possible(lens, batch_size, max_seqs, max_pad_size):
    dataset = make_dataset(lens)
    limits = {"batch_size": batch_size, "max_seqs": max_seqs, "max_pad_size": max_pad_size}
    batches = all_batches(dataset, **limits, used_data_keys=["data"])
    assert [part.seq_idx for batch in batches for part in batch.seqs] == list(range(len(lens)))

    def fits(seq_lens):
        padded = max(seq_lens) * len(seq_lens)
        return len(seq_lens) <= max_seqs and padded <= batch_size and padded - sum(seq_lens) <= max_pad_size

    for batch, next_batch in zip(batches, [*batches[1:], None], strict=True):
        seq_lens = [lens[part.seq_idx] for part in batch.seqs]
        assert fits(seq_lens) or len(seq_lens) == 1
        assert next_batch is None or not fits([*seq_lens, lens[next_batch.start_seq]])


@settings(deadline=None)
@given(lens_lists, st.integers(1, 25), st.integers(1, 25))
def test_chunks_cover_each_frame(lens, size, step):
    dataset = make_dataset(lens, chunking=({"data": size}, {"data": min(step, size)}))
    covered = {i: set() for i in range(len(lens))}
    for seq_idx, start, end in dataset.iterate_seqs():
        assert 0 < end["data"] - start["data"] <= size
        assert (start["classes"], end["classes"]) == (0, lens[seq_idx] // 2 + 1)
        covered[seq_idx] |= set(range(start["data"], end["data"]))
    assert covered == {i: set(range(length)) for i, length in enumerate(lens)}


@settings(deadline=None)
@given(lens_lists, st.integers(1, 30))
def test_frames_without_order_fill_each_batch(lens, batch_size):
    data = [{"data": np.zeros((length, 2), "float32"), "classes": np.zeros(length, "int32")} for length in lens]
    dataset = init_dataset({"class": "StaticDataset", "data": data})
    dataset.init_seq_order(1)
    batches = all_batches(dataset, batch_size=batch_size, recurrent_net=False)
    assert sum(batch.get_total_num_frames()["data"] for batch in batches) == sum(lens)
    assert all(batch.num_slices == 1 for batch in batches)
    assert all(batch.get_total_num_frames()["data"] == batch_size for batch in batches[:-1])


def test_chunking_by_key():
    dataset = make_dataset([10, 3], chunking=({"data": 4, "classes": 2}, {"data": 4, "classes": 2}))
    chunks = [(i, start.dict, end.dict) for i, start, end in dataset.iterate_seqs()]
    assert chunks[0] == (0, {"data": 0, "classes": 0}, {"data": 4, "classes": 2})
    assert chunks[2] == (0, {"data": 8, "classes": 4}, {"data": 10, "classes": 6})
    assert chunks[3] == (1, {"data": 0, "classes": 0}, {"data": 3, "classes": 2})


def starts(dataset):
    return [(i, int(start["data"])) for i, start, _ in dataset.iterate_seqs()]


def test_min_chunk_size_leaves_out_rests_but_no_whole_sequence():
    assert starts(make_dataset([10, 2], chunking={"data": 4}, min_chunk_size={"data": 3})) == [(0, 0), (0, 4), (1, 0)]
    dataset = make_dataset([11, 12], chunking={"data": 4}, min_chunk_size={"data": 3})
    assert starts(dataset) == [(0, 0), (0, 4), (1, 0), (1, 4), (1, 8)]


def test_chunking_by_attributes():
    dataset = make_dataset([11], min_chunk_size=0)
    dataset.chunk_size, dataset.chunk_step = {"data": 10}, 5
    assert starts(dataset) == [(0, 0), (0, 5), (0, 10)]
    dataset.chunk_size = dataset.chunk_step = 0
    assert starts(dataset) == [(0, 0)]


def test_what_is_said_once_about_a_sequence_is_whole_in_each_chunk():
    frames = np.zeros((9, 2), "float32")
    seqs = [{"data": frames, "classes": np.arange(9), "speaker": np.array([i]), "nothing": frames[:0]} for i in (3, 5)]
    dataset = init_dataset({"class": "StaticDataset", "data": seqs, "chunking": "4:2"})
    dataset.init_seq_order(1)
    chunks = list(dataset.iterate_seqs())
    assert [(int(start["data"]), int(end["data"])) for _, start, end in chunks[:5]] == [
        *[(0, 4), (2, 6), (4, 8), (6, 9), (8, 9)]
    ]
    assert {(int(start["speaker"]), int(end["speaker"]), int(end["nothing"])) for _, start, end in chunks} == {
        (0, 1, 0)
    }


def test_labels_end_where_there_are_no_more():
    """31 frames are 6 chunks, 15 labels of two frames each are 5: as many of both are full."""
    data = {"data": np.zeros((31, 2), "float32"), "classes": np.arange(15)}
    sizes = {"data": 12, "classes": 6}, {"data": 6, "classes": 3}
    dataset = init_dataset({"class": "StaticDataset", "data": [data], "chunking": sizes})
    dataset.init_seq_order(1)
    ranges = [(int(start["classes"]), int(end["classes"])) for _, start, end in dataset.iterate_seqs()]
    assert ranges == [(0, 6), (3, 9), (6, 12), (9, 15), (12, 15), (15, 15)]


def test_chunking_variance_is_the_same_again():
    dataset = make_dataset([50, 50], chunking={"data": 20}, chunking_variance=0.5)
    first = [(i, start.dict) for i, start, _ in dataset.iterate_seqs()]
    dataset.init_seq_order(1)
    assert [(i, start.dict) for i, start, _ in dataset.iterate_seqs()] == first
    assert {start["data"] for _, start in first} - {0, 20, 40}


def test_custom_chunking():
    def halves(dataset, seq_idx_start, recurrent_net, used_data_keys):
        length = dataset.get_seq_length(seq_idx_start)
        for start, end in [(0, 2), (2, 4)]:
            yield seq_idx_start, NumbersDict.constant_like(start, length), NumbersDict.constant_like(end, length)

    batches = all_batches(make_dataset([4, 9], chunking=halves), batch_size=100)
    assert [part.seq_start_frame["data"] for part in batches[0].seqs] == [0, 2]


def test_different_numbers_of_chunks_are_an_error():
    dataset = make_dataset([10], chunking=4)
    with pytest.raises(DataError) as info:
        list(dataset.iterate_seqs())
    assert str(info.value) == (
        "StaticDataset: sequence 'seq-0': option 'chunking' gives different numbers of chunks per data key:"
        " {'data': 3, 'classes': 2}.\n"
        "  The lengths are {'data': 10, 'classes': 6}. Give the sizes and steps by key, or 0 for keys to be left whole."
    )


@pytest.mark.parametrize(
    ("option", "size", "step"),
    [
        (None, 0, 0),
        ("0", 0, 0),
        (100, 100, 100),
        ("100", 100, 100),
        ("100:50", 100, 50),
        ((100, 50), 100, 50),
        ([100, 50], 100, 50),
    ],
)
def test_forms_of_chunking(option, size, step):
    chunking = parse_chunking(option, where="data set")
    assert (chunking.size, chunking.step) == (NumbersDict(size), NumbersDict(step))


@pytest.mark.parametrize("option", ["a", "10:0", (10, 0), -3, (1, 2, 3), ({"data": 4}, {"classes": 2}), 0.5])
def test_wrong_chunking(option):
    with pytest.raises(ConfigError, match=r"data set: option 'chunking': .* is not possible") as info:
        parse_chunking(option, where="data set")
    assert str(info.value).count("\n") < 5


def test_context_window_adds_frames_around():
    dataset = make_dataset([4, 5], context_window=3)
    (batch,) = all_batches(dataset, batch_size=100)
    part = batch.seqs[1]
    assert (part.seq_start_frame["data"], part.seq_end_frame["data"]) == (-1, 6)
    assert (part.seq_start_frame["classes"], part.seq_end_frame["classes"]) == (0, 3)
    dataset.load_seqs(0, 2)
    data = dataset.get_data_slice(1, "data", -1, 6)
    assert data[[0, -1]].tolist() == [[0, 0], [0, 0]]
    np.testing.assert_array_equal(data[1:-1], dataset.get_data(1, "data"))


def test_context_window_around_chunks_reaches_into_the_sequence():
    dataset = make_dataset([8], context_window={"data": 3}, chunking={"data": 4})
    (batch,) = all_batches(dataset, batch_size=100, used_data_keys=["data"])
    assert [(p.seq_start_frame["data"], p.seq_end_frame["data"]) for p in batch.seqs] == [(-1, 5), (3, 9)]


def test_window_puts_neighbours_into_one_frame():
    dataset = make_dataset([3], window=3)
    dataset.load_seqs(0, 1)
    assert dataset.get_data(0, "data").tolist() == [[0, 0, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5], [2, 3, 4, 5, 0, 0]]
    assert dataset.get_data_dim("data") == 6


def test_shuffled_frames_stay_together_over_the_keys():
    data = [
        {"data": np.full((n, 1), i, "float32") + np.arange(n)[:, None] * 10, "classes": np.arange(n)}
        for i, n in enumerate([5, 6, 7, 4])
    ]
    plain = sorted(value for seq in data[:2] for value in seq["data"][:, 0])
    dataset = init_dataset({"class": "StaticDataset", "data": data, "shuffle_frames_of_nseqs": 2})
    for start in (0, 1):
        dataset.init_seq_order(1)
        dataset.load_seqs(start, 4)
        seq_data = [(dataset.get_data(i, "data")[:, 0], dataset.get_data(i, "classes")) for i in range(start, 4)]
        for frames, labels in seq_data:
            np.testing.assert_array_equal(frames // 10, labels)
        if start == 0:
            first = seq_data
            assert sorted(value for frames, _ in seq_data[:2] for value in frames) == plain
        else:
            np.testing.assert_array_equal(first[1][0], seq_data[0][0])


def test_limits_on_sequences():
    dataset = make_dataset([3, 9, 5, 2, 7])
    batches = all_batches(dataset, batch_size=100, max_seq_length={"data": 7}, min_seq_length={"data": 3})
    assert [part.seq_idx for batch in batches for part in batch.seqs] == [0, 2, 4]
    batches = all_batches(dataset, batch_size=100, max_total_num_seqs=2)
    assert [part.seq_idx for batch in batches for part in batch.seqs] == [0, 1]
    kept = [part.seq_idx for batch in all_batches(dataset, batch_size=100, seq_drop=0.5) for part in batch.seqs]
    assert 0 < len(kept) < 5


def test_no_limit():
    dataset = make_dataset([3, 9, 5])
    (batch,) = all_batches(dataset, batch_size=100, max_seqs=-1, max_seq_length=None)
    assert (batch.start_seq, batch.end_seq, batch.get_num_seqs()) == (0, 3, 3)
    assert batch.get_all_slices_num_frames() == NumbersDict({"data": 27, "classes": 15}, broadcast_value=0)
    assert dataset.index_shape_for_batches([batch]) == (9, 3)


def test_shuffled_batches_are_the_same_again():
    dataset = make_dataset(range(1, 30))
    orders = []
    for _ in range(2):
        orders.append([batch.start_seq for batch in all_batches(dataset, batch_size=20, shuffle_batches=True)])
    assert orders[0] == orders[1] != sorted(orders[0])
    assert sorted(orders[0]) == [batch.start_seq for batch in all_batches(dataset, batch_size=20)]


def test_batches_can_be_used_again():
    dataset = make_dataset([3, 4, 5, 6])
    generator = BatchSetGenerator(dataset, iter([batch_of(i) for i in range(4)]), cache_whole_epoch=True)
    assert generator.completed_frac() == 0.0
    assert [batch.start_seq for batch in generator.peek_next_n(2)] == [0, 1]
    generator.advance(3)
    assert (generator.get_current_batch_idx(), generator.completed_frac()) == (3, 0.75)
    generator.reset()
    assert [batch.start_seq for batch in generator.peek_next_n(10)] == [0, 1, 2, 3]
    generator = BatchSetGenerator(dataset, iter([batch_of(0)]), cache_whole_epoch=False)
    generator.advance(1)
    with pytest.raises(ValueError, match="were not kept"):
        generator.reset()


def batch_of(seq_idx):
    batch = Batch()
    batch.add_sequence_as_slice(seq_idx, 0, 3)
    return batch


def test_batch_of_one_full_sequence():
    batch = Batch()
    batch.init_with_one_full_sequence(1, make_dataset([3, 8]))
    assert batch.get_total_num_frames() == NumbersDict({"data": 8, "classes": 5})


class Template:
    def __init__(self, batch_shape, dtype, batch_dim_axis=0, time_dim_axis=1):
        self.batch_shape = batch_shape
        self.dtype = dtype
        self.batch_dim_axis = batch_dim_axis
        self.time_dim_axis = time_dim_axis


class ExternData:
    def __init__(self, **data):
        self.data = data


@pytest.mark.parametrize("time_major", [False, True])
def test_padded_arrays(time_major):
    dataset = make_dataset([3, 5])
    axes = {"batch_dim_axis": int(time_major), "time_dim_axis": 1 - int(time_major)}
    extern_data = ExternData(
        data=Template((None, None, 2), "float32", **axes), classes=Template((None, None), "int32", **axes)
    )
    (batch,) = all_batches(dataset, batch_size=100)
    options = {"extern_data": extern_data, "data_keys": ["data", "classes"]}
    shapes = shapes_for_batches([batch], **options)
    assert shapes == {"data": [5, 2, 2] if time_major else [2, 5, 2], "classes": [3, 2] if time_major else [2, 3]}
    arrays = batch_to_raw_dict(batch, dataset=dataset, **options)
    assert {key: list(arrays[key].shape) for key in shapes} == shapes
    data = arrays["data"].swapaxes(0, 1) if time_major else arrays["data"]
    np.testing.assert_array_equal(data[0, :3], dataset.get_data(0, "data"))
    assert not data[0, 3:].any()
    assert arrays["data_seq_lens"].tolist() == [3, 5]
    assert arrays["classes_seq_lens"].tolist() == [2, 3]
    assert arrays["classes"].dtype == "int32"


@pytest.mark.parametrize("shape", [(None, None), (None, None, 3), (None, None, 2, 1)])
def test_sequences_of_other_shapes_are_an_error(shape):
    dataset = make_dataset([3, 5])
    extern_data = ExternData(data=Template(shape, "float32", batch_dim_axis=0, time_dim_axis=1))
    (batch,) = all_batches(dataset, batch_size=100)
    with pytest.raises(
        ConfigError, match=r"a sequence of the dataset has 'data' with the shape \[3, 2\], without batch"
    ):
        batch_to_raw_dict(batch, dataset=dataset, extern_data=extern_data, data_keys=["data"])


def test_tags_in_a_batch():
    dataset = make_dataset([3, 5])
    (batch,) = all_batches(dataset, batch_size=100)
    arrays = batch_to_raw_dict(
        batch,
        dataset=dataset,
        extern_data=ExternData(),
        data_keys=["seq_tag", "seq_idx", "data"],
        exclude_data_key=["data"],
    )
    assert arrays["seq_tag"].tolist() == ["seq-0", "seq-1"]
    assert arrays["seq_idx"].tolist() == [0, 1]
    assert set(arrays) == {"seq_tag", "seq_idx"}


def test_one_value_of_each_sequence_as_files_have_it():
    template = Tensor("cls", [batch_dim], "int32", sparse_dim=Dim(3, name="cls"))
    with pytest.raises(ConfigError, match=r"'shape': \(1,\) in extern_data\['cls'\] is one value for each sequence"):
        check_shape_of_seq(np.zeros(1, "int32"), template, "cls")
    check_shape_of_seq(np.zeros((), "int32"), template, "cls")
