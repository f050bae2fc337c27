import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.datasets import init_dataset
from returnn.tensor import Dim, batch_dim
from returnn.tf.network import ExternData
from returnn.tf.util.data import FeatureDim, SpatialDim
from returnn.util.errors import ConfigError
from tests.tf.network.old_config import ConfigNet


def extern_data(description=None, **config):
    if description is not None:
        config["extern_data"] = description
    with tf.Graph().as_default():
        data = ExternData()
        data.init_from_config(Config(config), auto_create_placeholders=True)
    return data


@pytest.mark.parametrize(
    "config",
    [
        {"extern_data": {"data": [40, 2], "classes": [5, 1]}},
        {"extern_data": {"data": (40, 2), "classes": (5, 1)}},
        {"extern_data": {"data": 40, "classes": 5}},
        {"extern_data": {"data": {"dim": 40}, "classes": {"dim": 5, "sparse": True}}},
        {"extern_data": {"data": {"shape": (None, 40)}, "classes": {"dim": 5, "shape": (None,), "sparse": True}}},
        {"num_inputs": 40, "num_outputs": 5},
        {"num_inputs": 40, "num_outputs": {"classes": 5}},
        {"num_inputs": 20, "window": 2, "num_outputs": {"classes": [5, 1]}},
        {"num_outputs": {"classes": (5, 1), "data": (40, 2)}},
        {"num_outputs": {"classes": {"dim": 5, "sparse": True}, "data": {"dim": 40}}},
    ],
    ids=str,
)
def test_all_forms_of_frames_and_labels(config):
    data = extern_data(**config)
    frames, labels = data.get_default_input_data(), data.get_default_target_data()
    assert (frames.batch_shape, frames.dim, frames.sparse, frames.dtype) == ((None, None, 40), 40, False, "float32")
    assert (labels.batch_shape, labels.dim, labels.sparse, labels.dtype) == ((None, None), 5, True, "int32")
    assert frames.available_for_inference
    assert not labels.available_for_inference
    assert frames.get_time_dim_tag() != labels.get_time_dim_tag()
    assert frames.placeholder.shape.as_list() == [None, None, 40]


def test_sparse_input():
    data = extern_data(num_inputs=40, num_outputs=5, sparse_input=True)
    assert (data.data["data"].sparse, data.data["data"].dim) == (True, 40)


def test_dims_can_be_given_as_objects():
    time, feature, labels = SpatialDim("time"), FeatureDim("feature", 40), FeatureDim("labels", 5)
    for key in ("dims", "dim_tags"):
        data = extern_data(
            {"data": {key: [batch_dim, time, feature]}, "classes": {key: [batch_dim, time], "sparse_dim": labels}}
        )
        assert data.data["data"].dims == (batch_dim, time, feature)
        assert data.data["classes"].sparse_dim == labels
    data = extern_data(
        {
            "data": {"dim": 40, "same_dim_tags_as": {"t": time}},
            "classes": {"dim": 5, "sparse": True, "same_dim_tags_as": {"T": time}},
        }
    )
    assert data.data["data"].get_time_dim_tag() == data.data["classes"].get_time_dim_tag() == time


@pytest.mark.parametrize("option", ["dims", "dim_tags"])
def test_a_batch_dim_that_the_config_has_made_is_the_batch(option):
    batch = Dim(kind=Dim.Types.Batch, description="batch", dimension=None)
    time, feature = SpatialDim("time"), FeatureDim("feature", 4)
    data = extern_data({"data": {option: [batch, time, feature]}, "classes": {"dim": 3, "sparse": True}})
    assert batch == batch_dim
    assert data.data["data"].dims[0] == data.data["classes"].dims[0]
    net_dict = {
        "mean": {"class": "reduce", "mode": "mean", "axis": "T", "from": "data"},
        "output": {"class": "combine", "kind": "add", "from": ["data", "mean"], "out_shape": {batch, time, feature}},
    }
    net = ConfigNet(Config({"extern_data": {"data": {option: [batch, time, feature]}}, "network": net_dict}))
    assert net.net.get_default_output_layer().output.dims_set == {batch_dim, time, feature}


def test_a_batch_of_fixed_size_is_not_the_batch():
    batch = Dim(3, name="batch", kind=Dim.Types.Batch)
    extern_data({"data": {"dim_tags": [batch, FeatureDim("feature", 4)]}})
    assert batch != batch_dim


def test_other_layouts_and_dtypes():
    data = extern_data(
        {
            "data": {"dim": 40, "batch_dim_axis": 1, "time_dim_axis": 0},
            "text": {"shape": (), "dtype": "string"},
            "speaker": {"shape": (), "dim": 7, "sparse": True, "available_for_inference": True},
            "vector": {"shape": (3,), "time_dim_axis": None},
        }
    )
    assert data.data["data"].is_time_major
    assert data.data["text"].placeholder.dtype == tf.string
    assert data.data["speaker"].available_for_inference
    assert data.data["vector"].feature_dim_or_sparse_dim.dimension == 3


def test_the_input_can_have_any_name():
    data = extern_data({"features": {"dim": 40}, "bpe": {"dim": 5, "sparse": True}}, target="bpe")
    assert (data.default_input, data.default_target) == ("features", "bpe")
    assert data.get_data("data") is data.data["features"]


@pytest.fixture
def vocab_file(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("{'a': 0, 'b': 1, '</s>': 2}", encoding="utf8")
    return str(path)


@pytest.mark.parametrize("options", [{}, {"dim": 3}, {"sparse": True}, {"dim": 3, "sparse": True, "shape": (None,)}])
def test_vocabulary_is_made_of_its_description(vocab_file, options):
    data = extern_data({"classes": {**options, "vocab": {"vocab_file": vocab_file, "unknown_label": None}}})
    labels = data.data["classes"]
    assert (labels.sparse, labels.dim, labels.batch_shape) == (True, 3, (None, None))
    assert labels.vocab.labels == ["a", "b", "</s>"]


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"data": "40"}, "extern_data: 'data': expected a dict of options, got '40'."),
        ({"data": {"dimm": 40}}, "extern_data: 'data': there is no option 'dimm'.\n  Did you mean 'dim' or 'dims'?"),
        (
            {"data": {"dim": 4, "shape": (None, 5)}},
            "extern_data: 'data': option 'dim' is 4, but 'extern_data:data' [B, T|time:data[?], F|feature:data(5)] has "
            "no feature dim of this size.\n"
            "  For labels: 'sparse': True. Otherwise 'shape' has the feature dim, too, such as (None, 40).",
        ),
        (
            {"data": (40, 2, 1)},
            "extern_data: 'data': expected two numbers, dim and number of axes, or a dict, got (40, 2, 1).",
        ),
        ({"data": {}}, "extern_data: 'data': one of 'dim', 'shape', 'dims' is needed, got {}."),
        ({"data": {"dim": "40"}}, "extern_data: 'data': option 'dim' has to be an integer, not '40'."),
        (
            {"data": {"dim": 4, "dtype": "flaot32"}},
            "extern_data: 'data': option 'dtype': there is no dtype 'flaot32'.\n  Did you mean 'float32'?",
        ),
        (
            {"data": {"dim": 4, "time_dim_axis": 3}},
            "extern_data: 'data': tensor 'extern_data:data': time_dim_axis is 3, but there are 3 axes.",
        ),
        (
            {"classes": {"dim": 4, "shape": (None,)}},
            "extern_data: 'classes': option 'dim' is 4, but 'extern_data:classes' [B, T|time:classes[?]] has no "
            "feature dim of this size.\n"
            "  For labels: 'sparse': True. Otherwise 'shape' has the feature dim, too, such as (None, 40).",
        ),
        (
            {"data": {"dim": 4, "vocab": {"class": "Utf8ByteTargets"}}},
            "extern_data: 'data': the dim is 4, but the vocabulary has 256 labels.",
        ),
    ],
    ids=str,
)
def test_wrong_descriptions(description, message):
    with pytest.raises(ConfigError) as exc_info:
        extern_data(description)
    assert str(exc_info.value) == message


def test_no_description():
    with pytest.raises(ConfigError, match="option 'extern_data' is required"):
        extern_data()


def test_vocabulary_errors_say_which_data():
    with pytest.raises(ConfigError, match=r"^extern_data: 'classes': vocabulary: there is no class 'Charactertargets'"):
        extern_data({"classes": {"vocab": {"class": "Charactertargets"}}})


COPY = 'extern_data = {"data": {"dim": 6}}\nnetwork = {"output": {"class": "copy", "from": "data:seq_tag"}}\n'


def test_tags_of_sequences_are_always_there():
    net = ConfigNet(COPY)
    assert net.net.get_used_data_keys() == {"seq_tag"}
    assert net.run().tolist() == ["seq-0", "seq-1", "seq-2"]
    assert net.run(values={"seq_tag": ["a", "b", "c"]}).tolist() == ["a", "b", "c"]


def test_a_dataset_says_what_its_data_looks_like():
    dataset = init_dataset({"class": "DummyDataset", "input_dim": 3, "output_dim": 4, "num_seqs": 2})
    data = ExternData()
    data.init_from_dataset(dataset, auto_create_placeholders=False)
    frames, labels = data.get_default_input_data(), data.get_default_target_data()
    assert (frames.batch_shape, frames.dim, frames.sparse) == ((None, None, 3), 3, False)
    assert (labels.batch_shape, labels.dim, labels.sparse) == ((None, None), 4, True)
    data.check_matched_dataset(dataset)


def test_texts_of_a_dataset_are_no_labels():
    class Words:
        """Each entry of a sequence is a word, as HDF files can have them."""

        get_data_keys = staticmethod(lambda: ["data"])
        is_data_sparse = staticmethod(lambda key: False)
        get_data_dim = staticmethod(lambda key: 1)
        get_data_dtype = staticmethod(lambda key: "|S5")
        description = "HDFDataset 'train'"

    with tf.Graph().as_default():
        data = ExternData()
        data.init_from_config(Config({"extern_data": {"data": {"dim": 5, "sparse": True}}}))
        with pytest.raises(ConfigError, match=r"but that of HDFDataset 'train' has texts\. A network takes numbers"):
            data.check_matched_dataset(Words())


def test_other_labels_of_the_same_number_are_a_warning(capsys):
    class Labels:
        """Labels of a vocabulary in another order."""

        get_data_keys = staticmethod(lambda: ["data"])
        is_data_sparse = staticmethod(lambda key: True)
        get_data_dim = staticmethod(lambda key: 3)
        description = "LmDataset 'dev'"
        labels = {"data": ["a", "c", "b"]}  # noqa: RUF012 - of a stand-in

    vocab = {"class": "Vocabulary", "vocab_file": None, "labels": ["a", "b", "c"], "unknown_label": None}
    with tf.Graph().as_default():
        data = ExternData()
        data.init_from_config(Config({"extern_data": {"data": {"vocab": vocab}}}))
        data.check_matched_dataset(Labels())
        assert "label 1 of 'data' is 'b', but 'c' in LmDataset 'dev'." in "".join(capsys.readouterr())
        Labels.labels = {"data": ["a", "b", "c"]}
        data.check_matched_dataset(Labels())
        assert not "".join(capsys.readouterr())


def test_other_numbers_of_labels_are_said_with_what_has_them():
    class Labels:
        """As many labels as a vocabulary of another size has."""

        get_data_keys = staticmethod(lambda: ["data"])
        is_data_sparse = staticmethod(lambda key: True)
        get_data_dim = staticmethod(lambda key: 3)
        get_data_dtype = staticmethod(lambda key: "int32")
        description = "LmDataset 'dev'"

    vocab = {"class": "Vocabulary", "vocab_file": None, "labels": ["a", "b"], "unknown_label": None}
    for entry, hint in (
        ({"dim": 5, "sparse": True}, r"like that is \{'data': \{\"dim\": 3, \"sparse\": True\}\}"),
        ({"dim": 5}, r"has 5 features, but that of LmDataset 'dev' has 3 labels"),
        ({"vocab": vocab}, r"has 2 labels, but .* has 3 labels\.\n  Here and there, the vocabulary has to be the same"),
    ):
        with tf.Graph().as_default():
            data = ExternData()
            data.init_from_config(Config({"extern_data": {"data": entry}}))
            with pytest.raises(ConfigError, match=hint):
                data.check_matched_dataset(Labels())
