from __future__ import annotations

import ast
import inspect
import itertools
import textwrap

import numpy as np
import pytest

from returnn.config import Config, global_config_ctx
from returnn.datasets.basic import (
    convert_data_dims,
    extend_dataset_dict_from_parent_dataset,
    set_config_extern_data_from_dataset,
)
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.core.dataset_order import RANDOM_SEED_OFFSET_ENV_VAR
from returnn.datasets.core.registry import (
    get_dataset_class,
    init_dataset,
    init_dataset_via_str,
    known_dataset_classes,
)
from returnn.datasets.generating import DummyDataset, Task12AXDataset
from returnn.tensor import Dim
from returnn.util.errors import ConfigError
from tests.datasets.cases import static, write_hdf

DUMMY = {"class": "DummyDataset", "input_dim": 3, "output_dim": 5, "num_seqs": 4}


class MyDataset(DummyDataset):
    """As somebody defines it in a config."""


def test_forms_of_a_dataset():
    dataset = init_dataset(DUMMY)
    assert isinstance(dataset, DummyDataset)
    assert init_dataset(dataset) is dataset
    assert isinstance(init_dataset(lambda: DUMMY), DummyDataset)
    assert init_dataset(None) is None
    assert init_dataset({}) is None
    assert isinstance(init_dataset({**DUMMY, "class": MyDataset}), MyDataset)
    assert get_dataset_class(f"{__name__}.MyDataset") is MyDataset
    assert get_dataset_class("NoDataset") is None


@pytest.mark.parametrize("name", known_dataset_classes())
def test_what_a_class_sets_itself_is_no_option(name):
    """Such an option would be listed in its help, and be given to the base class twice."""
    cls = get_dataset_class(name)
    for base in cls.__mro__:
        init = vars(base).get("__init__")
        if init is None or not base.__module__.startswith("returnn."):
            continue
        own = inspect.signature(init).parameters
        calls = [
            node for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(init)))) if isinstance(node, ast.Call)
        ]
        for call in (call for call in calls if ast.unparse(call.func) == "super().__init__"):
            names = [keyword.arg for keyword in call.keywords]
            given = {option for option in names if option is not None and option not in own}
            assert None not in names or given <= set(base.fixed_options), base


def test_an_option_that_the_class_sets_itself():
    class Own(Task12AXDataset):
        def __init__(self, input_dim, **kwargs):
            super().__init__(num_seqs=input_dim, **kwargs)

    with pytest.raises(ConfigError, match="class 'Task12AXDataset': there is no option 'input_dim'"):
        init_dataset({"class": "Task12AXDataset", "num_seqs": 3, "input_dim": 9})
    assert init_dataset({"class": Own, "input_dim": 9}).get_total_num_seqs() == 9


def test_options_from_elsewhere():
    dataset = init_dataset(DUMMY, extra_kwargs={"num_seqs": 7}, default_kwargs={"num_seqs": 9, "seq_len": 6})
    assert dataset.get_total_num_seqs() == 7
    assert dataset.seq_len == 6


def test_dataset_as_text(tmp_path):
    dataset = init_dataset_via_str("Task12AXDataset:num_seqs=10, seq_ordering='random'")
    assert isinstance(dataset, Task12AXDataset)
    assert dataset.seq_ordering == "random"
    filename = write_hdf(tmp_path / "a.hdf")
    assert init_dataset(str({**DUMMY, "num_seqs": 8})).get_total_num_seqs() == 8
    assert init_dataset(f"{filename},{filename}").get_total_num_seqs() == 22
    assert init_dataset_via_str(filename, cache_byte_size=100).cache_byte_size_total_limit == 100


def test_dataset_from_an_expression_of_the_config():
    config = Config({"get_data": lambda num_seqs: {**DUMMY, "num_seqs": num_seqs}})
    dataset = init_dataset_via_str("config:get_data(8)", config=config)
    assert dataset.get_total_num_seqs() == 8
    with pytest.raises(ConfigError, match=r"data set 'config:get_dat\(8\)': NameError: name 'get_dat' is not defined"):
        init_dataset_via_str("config:get_dat(8)", config=config)


def test_expressions_without_a_config_are_of_the_global_one():
    with global_config_ctx(Config({"my_data": {**DUMMY, "num_seqs": 8}})):
        assert init_dataset("config:my_data").get_total_num_seqs() == 8
        union = init_dataset({"class": "ConcatDataset", "datasets": ["config:my_data", "config:my_data"]})
    assert union.get_total_num_seqs() == 16
    with pytest.raises(ConfigError, match="data set 'config:my_data': NameError: name 'my_data' is not defined"):
        init_dataset("config:my_data")


def test_training_options_of_the_config():
    config = Config(
        {"batching": "random", "chunking": "10:5", "window": 3, "min_chunk_size": 4, "chunking_variance": 0.5}
    )
    kwargs = {"window": 5}
    Dataset.kwargs_update_from_config(config, kwargs)
    assert kwargs == {
        "window": 5, "seq_ordering": "random", "chunking": "10:5", "min_chunk_size": 4, "chunking_variance": 0.5
    }  # fmt: skip
    dataset = DummyDataset.from_config(config, input_dim=3, output_dim=5, num_seqs=4)
    assert dataset.chunk_size["data"] == 10
    assert dataset.window == 3


@pytest.mark.parametrize(
    ("options", "chunking"),
    [
        ({"chunking": "10:5"}, "0"),
        ({"chunking": "10:5", "chunk_eval": True}, "10:5"),
        ({"chunking": "10:5", "on_size_limit": "chunk", "batch_size": 500}, 500),
        ({}, "0"),
    ],
)
def test_options_for_evaluation(options, chunking):
    kwargs = Dataset.get_default_kwargs_eval(Config(options))
    assert kwargs == {"chunking": chunking, "seq_ordering": "sorted", "shuffle_frames_of_nseqs": 0}
    assert init_dataset(DUMMY, default_kwargs=kwargs).seq_ordering == "sorted"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {**DUMMY, "class": "DumyDataset"},
            "there is no class 'DumyDataset'.\n  Did you mean 'DummyDataset'",
        ),
        ({"num_seqs": 3}, "data set: 'class' is missing, got only ['num_seqs']."),
        (
            {**DUMMY, "name": "train", "seq_orderin": "random"},
            "'train' (class 'DummyDataset'): there is no option 'seq_orderin'.\n  Did you mean 'seq_ordering'",
        ),
        (
            {"class": "DummyDataset", "input_dim": 3, "output_dim": 5},
            "class 'DummyDataset': option 'num_seqs' is missing.\n  Given: input_dim, output_dim.",
        ),
        (
            {**DUMMY, "seq_ordering": "sortd"},
            "there is no seq_ordering 'sortd'.\n  Did you mean 'sorted'",
        ),
        ({**DUMMY, "partition_epoch": 0}, "DummyDataset: option 'partition_epoch' has to be a positive number, got 0."),
        ({**DUMMY, "partition_epoch": "2"}, "option 'partition_epoch' has to be a positive number, got '2'."),
        (
            {**DUMMY, "context_window": 0},
            "option 'context_window': 0 of 'data' is not a positive number.",
        ),
        ({**DUMMY, "num_seqs": float("inf"), "seq_ordering": "random"}, "need a finite number of sequences."),
        ("{'class': x}", "data set \"{'class': x}\": is no dict of literals: line 1: 'x' is no literal."),
        (17, "data set: expected a dict with 'class', got a int: 17."),
        ("Task12AXDataset:num_seqs=", "data set 'Task12AXDataset:num_seqs=': invalid syntax"),
    ],
)
def test_errors(options, message):
    with pytest.raises(ConfigError) as info:
        init_dataset(options)
    assert message in str(info.value)
    assert str(info.value).count("\n") < 5


def test_parts_take_name_and_seed_of_the_whole():
    parent = init_dataset({**DUMMY, "name": "train", "random_seed_offset": 7})
    options = extend_dataset_dict_from_parent_dataset({"class": "HDFDataset"}, parent)
    assert options == {"class": "HDFDataset", "name": "train/HDFDataset", "random_seed_offset": 7}
    assert extend_dataset_dict_from_parent_dataset({"class": "HDFDataset"}, None) == {"class": "HDFDataset"}


def test_seed_offset_gives_other_orders(monkeypatch):
    def order(**options):
        dataset = init_dataset({**DUMMY, "num_seqs": 30, "seq_ordering": "random", **options})
        dataset.init_seq_order(1)
        return list(dataset.get_current_seq_order())

    assert order(random_seed_offset=3) != order()
    monkeypatch.setenv(RANDOM_SEED_OFFSET_ENV_VAR, "3")
    assert order() == order(random_seed_offset=3)
    assert order(fixed_random_seed=5) == order(fixed_random_seed=5, random_seed_offset=9)


@pytest.mark.parametrize(
    ("dims", "expected"),
    [
        (5, {"classes": (5, 1)}),
        ({"data": 3, "classes": 5}, {"data": (3, 2), "classes": (5, 1)}),
        ({"data": [3, 1]}, {"data": (3, 1)}),
        ({"data": {"dim": 3, "sparse": True}}, {"data": (3, 1)}),
        ({"data": {"dim": 3, "shape": (None, None, 3)}}, {"data": (3, 3)}),
        ({"data": {"shape": (None, 4)}}, {"data": (4, 2)}),
        ({"data": {"shape": (None,)}}, {"data": (None, 1)}),
        ({"data": {"dim": 3, "sparse": True, "shape": (None, 2)}}, {"data": (3, 2)}),
        ({"data": {"sparse_dim": 5}}, {"data": (5, 1)}),
        ({"data": {"sparse_dim": Dim(6, name="labels")}}, {"data": (6, 1)}),
    ],
)
def test_forms_of_dims(dims, expected):
    assert convert_data_dims(dims) == expected


def test_dims_as_dicts_can_stay():
    options = {"dim": 3, "sparse": True}
    assert convert_data_dims({"x": options}, leave_dict_as_is=True) == {"x": options}


def test_extern_data_of_a_dataset():
    config = Config()
    set_config_extern_data_from_dataset(config, init_dataset(static()))
    assert config.typed_value("extern_data") == {
        "data": {"shape": (None, 3), "dim": 3, "dtype": "float32"},
        "classes": {"shape": (None,), "dim": 5, "sparse": True, "dtype": "int32"},
    }


def test_what_is_not_known_is_no_crash():
    dataset = Dataset()
    for what in ("get_all_tags", "get_total_num_seqs", "get_current_seq_order", "get_num_timesteps"):
        with pytest.raises(NotImplementedError, match=r"Dataset: .* is not known"):
            getattr(dataset, what)()
    assert dataset.estimated_num_seqs is None
    assert dataset.len_info() == "Dataset, unknown total seqs, unknown total timesteps"
    fracs = [dataset.get_complete_frac(i) for i in range(0, 10_000, 1000)]
    assert all(0 < a < b < 1 for a, b in itertools.pairwise(fracs))
    assert dataset.get_complete_frac(3, allow_only_lr_suitable=True) is None
    assert Dataset(estimated_num_seqs=8).get_complete_frac(3) == 0.5


def test_weights_leave_out_sequences_by_chance():
    dataset = init_dataset({**DUMMY, "num_seqs": 200})
    dataset.init_seq_order(1)
    dataset.weights = {f"seq-{i}": 0.25 for i in range(100)}
    taken = [dataset.sample(i) for i in range(200)]
    assert all(taken[100:])
    assert 10 < sum(taken[:100]) < 40
    assert taken == [dataset.sample(i) for i in range(200)]


def test_labels_as_text():
    dataset = init_dataset("Task12AXDataset:num_seqs=1")
    assert dataset.can_serialize_data("classes")
    assert dataset.serialize_data("classes", np.array([0, 1, 0])) == "LRL"
    dataset.labels["words"] = ["hello", "world"]
    assert dataset.serialize_data("words", np.array([1, 0])) == "world hello"
    assert dataset.serialize_data("words", np.array(1)) == "world"


def test_a_file_that_is_not_there_is_said_with_the_data_set(tmp_path):
    (tmp_path / "train.txt").touch()
    with pytest.raises(ConfigError) as info:
        init_dataset({"class": "LmDataset", "corpus_file": str(tmp_path / "tain.txt"), "orth_vocab": {}, "name": "dev"})
    assert str(info.value) == (
        f"data set 'dev' (class 'LmDataset'): Cannot open the file '{tmp_path}/tain.txt': No such file or directory.\n"
        f"  Did you mean '{tmp_path}/train.txt'?"
    )
