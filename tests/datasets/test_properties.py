"""What has to hold for each data set."""

from __future__ import annotations

import inspect
import pickle
from collections import Counter

import numpy as np
import pytest

from returnn.config import Config
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.core.registry import get_dataset_class, init_dataset, known_dataset_classes
from returnn.engine.data import load_dataset
from returnn.util.errors import ConfigError

from . import stand_ins
from .cases import CASES, WITHOUT_ORDER
from .corpus_checks import assert_equal_seqs

_MAX_SEQS = 40
_BASE_CLASSES = {"Dataset", "CachedDataset", "CachedDataset2", "GeneratingDataset", "SingleStreamPipeDataset"}
_BASE_CLASSES |= {
    "StereoDataset",
    "SprintDatasetBase",  # whose sequences come from a thread, see `test_sprint`; `ExternSprintDataset` is one
}
_MORE_SOURCES = {  # data keys that are neither "data" nor targets
    "TranslationFactorsDataset": {"pos"},
    "ConfusionNetworkDataset": {"sparse_inputs", "sparse_weights"},
}
_ORDERS = [
    *("default", "reverse", "random", "random:3", "sorted", "sorted_reverse", "laplace", "laplace:3", "laplace:.4"),
    *("sort_bin_shuffle:3", "sort_bin_shuffle_x2:.4"),
]

_made: list[Dataset] = []  # by the test that runs

all_cases = pytest.mark.parametrize("name", CASES)
cases_with_order = pytest.mark.parametrize("name", [name for name in CASES if name not in WITHOUT_ORDER])


@pytest.fixture(autouse=True)
def no_other_processes(monkeypatch):
    stand_ins.install(monkeypatch)
    yield
    while _made:
        _made.pop().finish_epoch(free_resources=True)


def make(name, tmp_path, **options) -> Dataset:
    _made.append(init_dataset({**CASES[name](tmp_path), **options}))
    return _made[-1]


def seqs_from(dataset, start=0):
    seqs = []
    for seq_idx in range(start, start + _MAX_SEQS):
        if not dataset.is_less_than_num_seqs(seq_idx):
            break
        dataset.load_seqs(seq_idx, seq_idx + 1)
        data = {key: dataset.get_data(seq_idx, key) for key in dataset.get_data_keys()}
        seqs.append((dataset.get_tag(seq_idx), data))
    return seqs


def seqs_of_epoch(dataset, epoch=1):
    dataset.init_seq_order(epoch)
    return seqs_from(dataset)


def lengths_of(data):
    return {key: len(array) if array.ndim else 1 for key, array in data.items()}


def test_each_class_has_a_case():
    classes = {name.split(",")[0] for name in CASES}
    assert classes | _BASE_CLASSES == set(known_dataset_classes())


@all_cases
def test_an_epoch_is_the_same_again(name, tmp_path):
    dataset = make(name, tmp_path)
    first = seqs_of_epoch(dataset)
    assert first
    assert_equal_seqs(seqs_of_epoch(dataset), first)
    dataset.init_seq_order(2)
    assert_equal_seqs(seqs_of_epoch(dataset), first)
    assert_equal_seqs(seqs_of_epoch(make(name, tmp_path)), first)


@all_cases
def test_an_epoch_can_be_entered_anywhere(name, tmp_path):
    all_seqs = seqs_of_epoch(make(name, tmp_path))
    for start in (1, len(all_seqs) // 2, len(all_seqs) - 1):
        dataset = make(name, tmp_path)
        dataset.init_seq_order(1)
        end = len(all_seqs)
        assert_equal_seqs(seqs_from(dataset, start)[: end - start], all_seqs[start:])
        assert_equal_seqs(seqs_from(dataset, 0), all_seqs)  # and back again


@all_cases
def test_data_is_as_declared(name, tmp_path):
    dataset = make(name, tmp_path)
    for _, data in seqs_of_epoch(dataset):
        for key, array in data.items():
            assert array.ndim == dataset.get_num_axes(key)
            dtype = dataset.get_data_dtype(key)
            assert array.dtype.kind == "U" if dtype == "string" else array.dtype == dtype
            shape = dataset.get_data_shape(key)
            assert len(shape) == max(array.ndim - 1, 0)
            assert all(size in (None, actual) for size, actual in zip(shape, array.shape[1:], strict=True))
            if dataset.is_data_sparse(key):
                assert not array.size or 0 <= array.min() <= array.max() < dataset.get_data_dim(key)
    assert set(dataset.get_target_list()) == set(dataset.get_data_keys()) - {"data"} - _MORE_SOURCES.get(name, set())


@all_cases
def test_lengths_agree_with_the_data(name, tmp_path):
    lengths_before, dataset = make(name, tmp_path), make(name, tmp_path)
    lengths_before.init_seq_order(1)
    for seq_idx, (_, data) in enumerate(seqs_of_epoch(dataset)):
        assert lengths_before.get_seq_length(seq_idx).dict == lengths_of(data)


@all_cases
def test_several_sequences_can_be_loaded_at_once(name, tmp_path):
    one_by_one = seqs_of_epoch(make(name, tmp_path))
    dataset = make(name, tmp_path)
    dataset.init_seq_order(1)
    dataset.load_seqs(1, 4)
    assert dataset.is_cached(1, 4)
    for seq_idx in (3, 1, 2):
        for key, array in one_by_one[seq_idx][1].items():
            np.testing.assert_array_equal(dataset.get_data(seq_idx, key), array)


@all_cases
def test_slices_are_padded_with_zeros(name, tmp_path):
    dataset = make(name, tmp_path)
    dataset.init_seq_order(1)
    dataset.load_seqs(0, 1)
    for key in dataset.get_data_keys():
        data = dataset.get_data(0, key)
        if not data.ndim:
            continue
        padded = np.concatenate([np.zeros_like(data[:1]), np.zeros_like(data[:1]), data, np.zeros_like(data[:1])])
        if len(data):
            np.testing.assert_array_equal(dataset.get_data_slice(0, key, -2, len(data) + 1), padded)


@all_cases
def test_copy_for_another_process_is_equal(name, tmp_path):
    if name in ("MapDatasetWrapper", "MetaDataset"):
        pytest.skip("holds functions of the test")
    dataset = make(name, tmp_path)
    _made.append(pickle.loads(pickle.dumps(dataset)))
    assert_equal_seqs(seqs_of_epoch(_made[-1]), seqs_of_epoch(dataset))


@all_cases
def test_batches_cover_all_frames_once(name, tmp_path):
    if name == "AnythingDataset":
        pytest.skip("is infinite")
    dataset = make(name, tmp_path)
    seqs = seqs_of_epoch(dataset)
    batches = dataset.generate_batches(batch_size=200, max_seqs=3)
    seen = []
    while batches.has_more():
        (batch,) = batches.peek_next_n(1)
        assert batch.num_slices <= 3
        assert batch.num_slices == 1 or batch.get_all_slices_num_frames().max_value() <= 200
        dataset.load_seqs(batch.start_seq, batch.end_seq)
        for part in batch.seqs:
            assert part.frame_length.dict == lengths_of(seqs[part.seq_idx][1])
            seen.append(part.seq_idx)
        batches.advance(1)
    assert seen == list(range(len(seqs)))
    assert batches.completed_frac() == pytest.approx(1.0)


@cases_with_order
@pytest.mark.parametrize("seq_ordering", _ORDERS)
def test_orders_are_permutations(name, seq_ordering, tmp_path):
    if not make(name, tmp_path).supports_seq_order_sorting() and seq_ordering[:4] in ("sort", "lapl"):
        pytest.skip("lengths are not known")
    plain = dict(seqs_of_epoch(make(name, tmp_path, fixed_random_seed=1)))
    ordered = seqs_of_epoch(make(name, tmp_path, fixed_random_seed=1, seq_ordering=seq_ordering))
    assert Counter(tag for tag, _ in ordered) == Counter(plain.keys())
    if name != "SiameseHDFDataset":  # draws in the order of the epoch
        assert_equal_seqs(ordered, [(tag, plain[tag]) for tag, _ in ordered])


@all_cases
def test_lengths_of_what_can_be_sorted_can_be_had(name, tmp_path):
    dataset = make(name, tmp_path)
    if not dataset.supports_seq_order_sorting():
        return
    try:
        num_seqs = dataset.get_total_num_seqs()
    except NotImplementedError:
        num_seqs = 3
    assert all(dataset.get_estimated_seq_length(i) >= 0 for i in range(num_seqs))


@all_cases
def test_an_evaluation_takes_any_data_without_a_word_about_its_order(name, tmp_path, capsys):
    dataset = load_dataset(Config({"dev": CASES[name](tmp_path)}), "dev")
    _made.append(dataset)
    assert seqs_of_epoch(dataset)
    assert "seq_ordering" not in capsys.readouterr().out


@cases_with_order
@pytest.mark.parametrize("options", [{}, {"seq_ordering": "random"}], ids=str)
def test_parts_of_an_epoch_are_the_whole(name, options, tmp_path):
    whole = seqs_of_epoch(make(name, tmp_path, **options))
    dataset = make(name, tmp_path, partition_epoch=3, **options)
    parts = [seqs_of_epoch(dataset, epoch) for epoch in (1, 2, 3)]
    assert all(parts)
    if name == "SiameseHDFDataset":
        assert [tag for part in parts for tag, _ in part] == [tag for tag, _ in whole]
    else:
        assert_equal_seqs([seq for part in parts for seq in part], whole)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@cases_with_order
def test_next_epoch_is_shuffled_anew(name, tmp_path):
    dataset = make(name, tmp_path, seq_ordering="random", fixed_random_seed=None)
    orders = {tuple(tag for tag, _ in seqs_of_epoch(dataset, epoch)) for epoch in range(1, 6)}
    assert len(orders) > 1


@cases_with_order
def test_repeat_epoch(name, tmp_path):
    tags = [tag for tag, _ in seqs_of_epoch(make(name, tmp_path))]
    dataset = make(name, tmp_path, repeat_epoch=2, partition_epoch=2)
    assert [tag for tag, _ in seqs_of_epoch(dataset)] == tags
    assert [tag for tag, _ in seqs_of_epoch(dataset, 2)] == tags


@cases_with_order
def test_shards_together_are_the_whole(name, tmp_path):
    tags = [tag for tag, _ in seqs_of_epoch(make(name, tmp_path))]
    shards = [seqs_of_epoch(make(name, tmp_path, _num_shards=2, _shard_index=i)) for i in range(2)]
    assert [tag for shard in shards for tag, _ in shard] == tags


@cases_with_order
def test_filter_by_tags(name, tmp_path):
    tags = [tag for tag, _ in seqs_of_epoch(make(name, tmp_path))]
    (tmp_path / "filter.txt").write_text(f"{tags[3]}\n{tags[1]}\n")
    dataset = make(name, tmp_path, seq_list_filter_file=str(tmp_path / "filter.txt"))
    assert {tag for tag, _ in seqs_of_epoch(dataset)} == {tags[1], tags[3]}


@cases_with_order
def test_sequences_can_be_given_by_tag_and_by_index(name, tmp_path):
    dataset = make(name, tmp_path)
    tags = [tag for tag, _ in seqs_of_epoch(dataset)]
    dataset.init_seq_order(1, seq_list=[tags[4], tags[0]])
    assert [tag for tag, _ in seqs_from(dataset)] == [tags[4], tags[0]]
    dataset.init_seq_order(1, seq_order=[3, 3, 1])
    assert [tag for tag, _ in seqs_from(dataset)] == [tags[3], tags[3], tags[1]]


@all_cases
def test_unknown_option_is_an_error(name, tmp_path):
    with pytest.raises(ConfigError, match=r"there is no option 'chunkin'\.\n  Did you mean 'chunking'"):
        make(name, tmp_path, chunkin="100:50")


@pytest.mark.parametrize("name", sorted(known_dataset_classes()))
def test_each_option_has_a_sentence(name):
    documentation = "".join(base.__dict__["__init__"].__doc__ or "" for base in _with_init(get_dataset_class(name)))
    for base in _with_init(get_dataset_class(name)):
        for param in list(inspect.signature(base.__init__).parameters.values())[1:]:
            if param.kind not in (param.VAR_KEYWORD, param.VAR_POSITIONAL):
                assert f":param {param.name}:" in documentation, f"{base.__name__}.{param.name}"


def _with_init(cls):
    return [base for base in cls.__mro__[:-1] if "__init__" in base.__dict__]
