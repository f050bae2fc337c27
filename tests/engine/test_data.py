import functools

import numpy
import pytest

from returnn.config import Config
from returnn.datasets.hdf import HDFDataset
from returnn.datasets.hdf.hdf_writer import SimpleHDFWriter
from returnn.datasets.map import MapDatasetBase
from returnn.engine.data import (
    cache_byte_sizes,
    dataset_names,
    describe_data,
    load_dataset,
    load_task_dataset,
    warn_of_parts,
)
from returnn.engine.output_statistics import analyzed_dataset
from returnn.tf.network.extern_data import ExternData
from returnn.util.errors import ConfigError
from returnn.util.system.warn_once import forget_shown
from tests.datasets import corpus_cases, stand_ins

LENGTHS = (3, 9, 5, 7, 1)
DATA = {
    "class": "StaticDataset",
    "data": [{"data": numpy.zeros((n, 2), "float32")} for n in LENGTHS],
    "output_dim": {"data": (2, 2)},
}


def lengths(dataset):
    dataset.init_seq_order(epoch=1)
    result = []
    while dataset.is_less_than_num_seqs(len(result)):
        dataset.load_seqs(len(result), len(result) + 1)
        result.append(int(dataset.get_seq_length(len(result))["data"]))
    return result


def test_options_of_the_config_hold_for_training_data():
    config = Config({"train": DATA, "dev": DATA, "batching": "reverse", "chunking": "4:2", "window": 3})
    train = load_dataset(config, "train")
    assert (train.name, train.window) == ("train", 3)
    assert lengths(train) == list(LENGTHS)[::-1]
    assert train.chunk_size["data"] == 4
    assert train.chunk_step["data"] == 2


def test_data_for_evaluation_is_sorted_and_whole():
    config = Config({"dev": DATA, "batching": "reverse", "chunking": "4:2", "window": 3})
    dev = load_dataset(config, "dev")
    assert lengths(dev) == sorted(LENGTHS)
    assert not dev.chunk_size
    assert dev.window == 3  # the network sees the same kind of frames


class OfUnknownLengths(MapDatasetBase):
    def __init__(self):
        super().__init__(data_types={"data": {"shape": (None, 2)}})

    def __len__(self):
        return len(LENGTHS)

    def __getitem__(self, seq_idx):
        return DATA["data"][seq_idx]


UNKNOWN = {"class": "MapDatasetWrapper", "map_dataset": OfUnknownLengths}


@pytest.mark.parametrize(
    "data",
    [
        UNKNOWN,
        {"class": "PostprocessingDataset", "dataset": UNKNOWN, "map_seq": lambda seq, **_kwargs: seq},
        {"class": "CombinedDataset", "datasets": {"a": UNKNOWN}, "data_map": {("a", "data"): "data"}},
        {
            "class": "DistributeFilesDataset",
            "files": ["a"],
            "get_sub_epoch_dataset": lambda files: DATA,
        },
    ],
    ids=lambda data: data["class"],
)
def test_data_for_evaluation_whose_lengths_nobody_knows_is_not_sorted(data, monkeypatch):
    stand_ins.install(monkeypatch)
    assert lengths(load_dataset(Config({"dev": data}), "dev")) == list(LENGTHS)
    with pytest.raises(ConfigError, match=r"option 'seq_ordering': (this order|'sorted' is not possible)"):
        lengths(load_dataset(Config({"dev": {**data, "seq_ordering": "sorted"}}), "dev"))


def test_evaluation_in_chunks():
    config = Config({"dev": DATA, "chunking": "4:2", "chunk_eval": True})
    assert load_dataset(config, "dev").chunk_size["data"] == 4


def test_what_is_no_training_is_about_all_of_the_data(tmp_path, capsys):
    part = {**DATA, "partition_epoch": 2}
    config = Config({"train": part, "dev": part, "eval": "config:part", "part": part, "forward_data": lambda: part})
    config.set("search_data", "train")
    assert len(lengths(load_dataset(config, "train"))) < len(LENGTHS)
    for dataset in (
        analyzed_dataset(config),
        load_dataset(config, "eval", whole=True),
        load_task_dataset(config, "search_data"),
        load_task_dataset(config, "forward_data"),
    ):
        assert sorted(lengths(dataset)) == sorted(LENGTHS)
    warn_of_parts(config)
    assert "data 'dev': with 'partition_epoch' 2, each epoch is evaluated on another part" in capsys.readouterr().out


def test_what_is_no_training_is_about_the_audio_as_it_is(tmp_path, capsys):
    plain = corpus_cases.ogg_zip(tmp_path)
    changed = {**plain, "audio": {**(plain.get("audio") or {}), "random_permute": {"rnd_zoom_switch": 0.0}}}
    in_another = {"class": "MetaDataset", "datasets": {"a": changed}, "data_map": {"data": ("a", "data")}}
    text = "'random_permute' changes the audio by chance, also here, where nothing is trained"
    for data in (plain, changed, in_another, lambda: changed, "config:more"):
        config = Config({"train": data, "dev": data, "more": changed, "forward_data": "train", "search_data": data})
        load_dataset(config, "train")
        load_dataset(config, "dev")
        assert text not in capsys.readouterr().out
        for load in (
            functools.partial(load_task_dataset, config, "forward_data"),
            functools.partial(load_task_dataset, config, "search_data"),
            functools.partial(analyzed_dataset, config),
            functools.partial(load_dataset, config, "dev", whole=True),
        ):
            forget_shown()
            load()
            assert (text in capsys.readouterr().out) == (data is not plain)


def faster(audio, random_state):
    return audio[:: random_state.randint(1, 3)]


def louder(audio):
    return audio * 2


def with_noise(seq, *, rng, **_others):
    return seq


def unchanged(seq, **_others):
    return seq


@pytest.mark.parametrize(
    ("option", "function", "is_told"),
    [
        ("pre_process", faster, True),
        ("post_process", faster, True),
        ("pre_process", louder, False),
        ("pre_process", len, False),
        ("map_seq", with_noise, True),
        ("map_seq", unchanged, False),
    ],
)
def test_functions_with_a_random_state_are_told_where_nothing_is_trained(tmp_path, capsys, option, function, is_told):
    data = corpus_cases.ogg_zip(tmp_path)
    if option == "map_seq":
        data = {"class": "PostprocessingDataset", "dataset": data, "map_seq": function}
    else:
        data = {**data, "audio": {**(data.get("audio") or {}), option: function}}
    forget_shown()
    load_dataset(Config({"train": data}), "train")
    assert "gets a random state" not in capsys.readouterr().out
    load_task_dataset(Config({"train": data, "forward_data": "train"}), "forward_data")
    text = f"the function {option!r} gets a random state, and may change the data by it, also here, where nothing is"
    assert (text in capsys.readouterr().out) is is_told


@pytest.mark.parametrize("name", ["train", "dev"])
def test_options_of_the_data_set_win(name):
    config = Config({name: {**DATA, "seq_ordering": "default", "chunking": 6}, "batching": "reverse", "chunking": 4})
    dataset = load_dataset(config, name)
    assert lengths(dataset) == list(LENGTHS)
    assert dataset.chunk_size["data"] == 6


def test_names_and_further_data_for_evaluation():
    config = Config({"dev": DATA, "eval": None, "eval_datasets": {"devtrain": DATA}})
    assert dataset_names(config) == ["dev", "devtrain"]
    assert load_dataset(config, "devtrain").name == "devtrain"
    assert load_dataset(config, "train") is None


def test_further_data_without_names():
    with pytest.raises(ConfigError) as info:
        dataset_names(Config({"eval_datasets": "dev"}))
    assert str(info.value) == (
        "option 'eval_datasets': got 'dev', but expected a dict.\n"
        "  Further data sets for evaluation, by name, such as {'a': \"config:data_of('a')\"}."
    )


@pytest.mark.parametrize("name", ["train", "dev"])
def test_missing_option_of_a_data_set_names_what_the_config_gives(name):
    parts = {"class": "MetaDataset", "data_map": {"data": ("a", "data")}, "datasets": {"a": {"class": "LmDataset"}}}
    missing = {"class": "DummyDataset", "input_dim": 2, "output_dim": 3}
    for data, given in ((missing, "input_dim, output_dim"), (parts, "none")):
        with pytest.raises(ConfigError, match=rf"is missing\.\n  Given: {given}\.$"):
            load_dataset(Config({name: data, "batching": "random"}), name)


def test_data_as_function_or_text():
    assert lengths(load_dataset(Config({"train": lambda: DATA, "batching": "sorted"}), "train")) == sorted(LENGTHS)
    text = "DummyDataset:input_dim=2,output_dim=3,num_seqs=4"
    assert len(lengths(load_dataset(Config({"train": text}), "train"))) == 4


def test_data_of_a_task():
    config = Config({"eval": DATA, "train": {**DATA, "name": "other"}, "search_data": "train", "batching": "reverse"})
    assert load_task_dataset(config, "forward_data").name == "eval"
    assert lengths(load_task_dataset(config, "search_data")) == sorted(LENGTHS)
    config.set("search_data", DATA)
    assert load_task_dataset(config, "search_data").name == "search_data"


@pytest.mark.parametrize(
    "description", [{**DATA, "seq_ordering": "reverse"}, "config:{**mine, 'seq_ordering': 'reverse'}"]
)
def test_the_order_that_a_description_has_comes_first(description):
    config = Config({"forward_data": description, "mine": DATA})
    assert lengths(load_task_dataset(config, "forward_data")) == list(reversed(LENGTHS))


def test_missing_data_of_a_task():
    with pytest.raises(ConfigError) as info:
        load_task_dataset(Config({"search_data": "devv"}), "search_data")
    assert str(info.value) == (
        "option 'search_data': there is no data 'devv'.\n"
        "  It has to be the name of a data set, or the description of one."
    )
    with pytest.raises(ConfigError) as info:
        load_task_dataset(Config({"train": DATA, "dev": DATA}), "search_data")
    assert str(info.value) == (
        "option 'search_data': it is not set, and there is no data 'eval'.\n"
        "  It has to be the name of a data set, or the description of one. There are: 'train', 'dev';"
        " such as search_data = 'dev'."
    )
    with pytest.raises(ConfigError, match=r"There are: 'train', 'dev', 'test'; such as search_data = 'test'\."):
        load_task_dataset(Config({"train": DATA, "dev": DATA, "test": DATA, "search_data": "tst"}), "search_data")


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        (None, (0, 0, 0)),
        ("0", (0, 0, 0)),
        (1000, (500, 500, 0)),
        ("2K", (1024, 1024, 0)),
        (["1M", "5"], (2**20, 5, 0)),
        (["1G", "5", "6B"], (2**30, 5, 6)),
    ],
)
def test_cache_sizes(option, expected):
    config = Config({"train": DATA, "dev": DATA})
    if option is not None:
        config.set("cache_size", option)
    assert tuple(cache_byte_sizes(config).values()) == expected


@pytest.mark.parametrize("option", ["much", ["1", "2", "3", "4"]])
def test_wrong_cache_size(option):
    with pytest.raises(ConfigError, match="Expected up to three sizes such as '512M'"):
        cache_byte_sizes(Config({"cache_size": option, "train": DATA}))


def test_cache_size_reaches_the_data_set(tmp_path):
    file = str(tmp_path / "data.hdf")
    with SimpleHDFWriter(file, dim=2, ndim=2) as writer:
        writer.insert_batch(numpy.zeros((1, 3, 2), "float32"), {0: numpy.array([3])}, ["seq"])
    for description in ({"class": "HDFDataset", "files": [file]}, file):
        dataset = load_dataset(Config({"train": description, "cache_size": "1K"}), "train")
        assert isinstance(dataset, HDFDataset)
        assert dataset.cache_byte_size_total_limit == 1024


def test_dummy_data_needs_no_files():
    config = Config({
        "train": {"class": "HDFDataset", "files": ["missing.hdf"]},
        "extern_data": {"data": {"dim": 3, "shape": (None, 3)}, "classes": {"dim": 5, "sparse": True}},
        "use_dummy_datasets": True,
        "dummy_dataset_num_seqs": 7,
    })  # fmt: skip
    dataset = load_dataset(config, "train")
    assert (dataset.get_data_dim("data"), dataset.is_data_sparse("classes")) == (3, True)
    assert len(lengths(dataset)) == 7
    config.set("train_dummy_dataset_num_seqs", 2)
    assert len(lengths(load_dataset(config, "train"))) == 2
    config.set("extern_data", None)
    with pytest.raises(ConfigError, match="option 'use_dummy_datasets': 'extern_data' is needed"):
        load_dataset(config, "train")


FRAMES = {"class": "DummyDataset", "input_dim": 3, "output_dim": 4, "num_seqs": 2}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_outputs": 4},
        {"num_outputs": {"classes": [4, 1]}},
        {"extern_data": {"data": {"dim": 3}, "classes": {"dim": 4, "shape": (None,)}}},
        {"extern_data": {"data": {"dim": 3, "shape": (None,)}, "classes": {"dim": 4, "sparse": True}}},
    ],
    ids=str,
)
@pytest.mark.parametrize("option", ["train", "dev"])
def test_what_old_configs_leave_open_the_data_set_says(options, option):
    config = Config({**options, option: FRAMES})
    describe_data(config)
    found = ExternData()
    found.init_from_config(config)
    frames, labels = found.get_default_input_data(), found.get_default_target_data()
    assert (frames.batch_shape, frames.dim, frames.sparse) == ((None, None, 3), 3, False)
    assert (labels.batch_shape, labels.dim, labels.sparse) == ((None, None), 4, True)
    assert frames.available_for_inference
    assert not labels.available_for_inference


def test_what_a_config_says_needs_no_data_set():
    given = {"data": {"dim": 3}, "classes": {"dim": 4, "sparse": True}}
    config = Config({"extern_data": given, "train": {"class": "NoSuchDataset"}})
    describe_data(config)
    assert config.typed_dict["extern_data"] is given
    config = Config({"num_inputs": 3, "num_outputs": 4, "train": {"class": "NoSuchDataset"}})
    describe_data(config)
    assert "extern_data" not in config.typed_dict


def test_dims_that_a_data_set_does_not_have_are_not_taken_from_it():
    config = Config({"extern_data": {"data": {"dim": 3}, "classes": {"dim": 5, "shape": (None,)}}, "train": FRAMES})
    describe_data(config)
    with pytest.raises(ConfigError, match="extern_data: 'classes': option 'dim' is 5"):
        ExternData().init_from_config(config)
