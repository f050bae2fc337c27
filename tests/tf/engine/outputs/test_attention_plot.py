import os

import numpy
import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.engine.report import attention_picture
from returnn.engine.report.attention_picture import (
    AttentionPlot,
    PictureAxis,
    draw_attention,
    picture_filename,
    short_dim_name,
)
from returnn.log import log
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tf.engine.outputs import attention_plot
from returnn.tf.engine.outputs.attention_plot import plot_attention
from returnn.util.errors import ConfigError
from returnn.view.page import make_readers

LETTERS, SOUNDS = ["</s>", "x", "y"], ["</s>", "X", "Y", "Z"]
SEQS = [
    {"data": numpy.array([1, 2, 1], "int32"), "classes": numpy.array([1, 3, 0], "int32"), "seq_tag": "x/1"},
    {"data": numpy.array([2, 2], "int32"), "classes": numpy.array([2, 0], "int32"), "seq_tag": "y"},
]
UNIT = {
    "output": {"class": "choice", "target": "classes", "beam_size": 2, "from": "prob", "initial_output": 0},
    "end": {"class": "compare", "from": "output", "value": 9},  # the search goes on to max_seq_len
    "phoneme": {"class": "linear", "activation": None, "n_out": 3, "from": "prev:output"},
    "energy": {
        "class": "dot",
        "from": ["base:encoder", "phoneme"],
        "red1": "F",
        "red2": "F",
        "var1": "T",
        "var2": None,
    },
    "weights": {"class": "softmax_over_spatial", "from": "energy"},
    "att": {"class": "generic_attention", "weights": "weights", "base": "base:encoder"},
    "prob": {"class": "softmax", "from": ["att", "phoneme"], "target": "classes", "loss": "ce"},
}


@pytest.fixture(autouse=True)
def log_to_stdout(capsys):
    log.initialize()
    yield
    tf.compat.v1.reset_default_graph()


@pytest.fixture
def pictures(monkeypatch):
    """:return: what is drawn, by name of the file"""
    found = {}

    def draw(filename, weights, **options):
        found[filename.rpartition("/")[2]] = (weights, options)

    monkeypatch.setattr(attention_plot, "draw_attention", draw)
    return found


def config(folder, **plot):
    return Config(
        {
            "task": "plot_attention",
            "data_to_plot": {"class": "StaticDataset", "data": SEQS, "output_dim": {"data": (3, 1), "classes": (4, 1)}},
            "extern_data": {
                "data": {"dim": 3, "sparse": True},
                "classes": {"dim": 4, "sparse": True, "available_for_inference": False},
            },
            "network": {
                "encoder": {"class": "rec", "unit": "lstm", "n_out": 3, "from": "data"},  # the time of the weights
                "output": {"class": "rec", "from": [], "target": "classes", "max_seq_len": 5, "unit": UNIT},
            },
            "model": str(folder / "net"),
            "allow_random_model_init": True,
            "attention_plot": {"layer": "output/weights", "data": "data_to_plot", **plot},
        }
    )


@pytest.mark.parametrize("search", [False, True])
def test_rows_are_distributions_over_the_source(search, tmp_path, pictures):
    plot_attention(config(tmp_path, search=search))
    assert set(pictures) == {"x_1.png", "y.png"}
    for name, (weights, options) in pictures.items():
        num_target = 5 if search else {"x_1.png": 3, "y.png": 2}[name]
        num_source = {"x_1.png": 3, "y.png": 2}[name]
        assert weights.shape == (1, num_target, num_source)
        assert len(options["target"].labels) == num_target
        numpy.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=1e-5)


def test_labels_and_names(tmp_path, pictures):
    plot_attention(config(tmp_path, labels={"data": LETTERS, "classes": SOUNDS}, names={"data": "letters"}, num_seqs=1))
    assert set(pictures) == {"x_1.png"}
    _, options = pictures["x_1.png"]
    assert options["source"] == PictureAxis("letters", ["x", "y", "x"])
    assert options["target"] == PictureAxis("classes", ["X", "Z", "</s>"])
    assert options["title"] == "x/1"
    assert short_dim_name(Dim(Tensor("lengths", [batch_dim], "int32"), name="time:var:extern_data:data")) == "time:data"


@pytest.mark.parametrize(
    ("folder", "epoch", "expected"),
    [
        (None, 5, "m/attention/epoch-005"),
        (None, 0, "m/attention"),
        ("pictures", 5, "pictures"),
        ("pictures/{epoch}", 5, "pictures/005"),
    ],
)
def test_pictures_of_several_epochs_are_there_together(folder, epoch, expected):
    assert AttentionPlot("output/weights", folder=folder).folder_of(Config({"model": "m/net"}), epoch) == expected


def test_the_view_knows_the_epoch_of_a_picture(tmp_path):
    for epoch in (1, 12):
        folder = AttentionPlot("output/weights").folder_of(Config({"model": str(tmp_path / "net")}), epoch)
        filename = picture_filename(folder, "corpus/seq")
        os.makedirs(folder)
        draw_attention(filename, numpy.eye(2), source=PictureAxis("x", None), target=PictureAxis("y", None))
    (reader,) = make_readers([str(tmp_path)])
    pictures = [(picture["name"], picture["is_attention"], picture["epoch"]) for picture in reader.read()["pictures"]]
    assert pictures == [("corpus_seq", True, 1), ("corpus_seq", True, 12)]


def test_pictures_are_beside_the_model(tmp_path, capsys):
    plot_attention(config(tmp_path))
    assert sorted(path.name for path in (tmp_path / "attention").iterdir()) == ["x_1.png", "y.png"]
    assert f"attention: wrote 2 pictures to {str(tmp_path / 'attention')!r}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("plot", "message"),
    [
        ({"layer": "output/weight"}, "layer 'output/weight': there is no layer 'weight'.\n  Did you mean 'weights'"),
        ({"layer": "encoder"}, "layer 'encoder': expected a layer of a loop, such as 'output/weights'"),
        ({"layer": "encoder/weights"}, "there is no layer 'encoder/weights'"),
        ({"layer": "output/att"}, "layer 'output/att': has .*\n  Expected attention weights: the batch, the steps"),
        ({"data": "nothing"}, "there is no data 'nothing'"),
        (
            {"layer": ["output/weights"]},
            "'layer' has to be a text, not .'output/weights'..\n  layer: the weights, one",
        ),
        ({"num_seqs": "3"}, "'num_seqs' has to be .*, not '3'"),
        ({"serch": True}, "there is no key 'serch'.\n  Did you mean 'search'"),
    ],
)
def test_wrong_options(plot, message, tmp_path):
    with pytest.raises(ConfigError, match=message) as info:
        plot_attention(config(tmp_path, **plot))
    assert len(str(info.value).splitlines()) <= 5


def test_missing_option_has_an_example():
    with pytest.raises(ConfigError, match="option 'attention_plot' is required"):
        plot_attention(Config({}))


@pytest.mark.parametrize("shape", [(2, 3), (4, 2, 3), (1, 100, 3)])
def test_picture_of_any_size(shape, tmp_path):
    labels = [str(i) for i in range(shape[-2])]
    file = tmp_path / "new folder" / "picture.png"
    source, target = PictureAxis("source", None), PictureAxis("target", labels)
    draw_attention(str(file), numpy.full(shape, 0.3), source=source, target=target, title="$title")
    assert file.read_bytes().startswith(b"\x89PNG")
    assert attention_picture._MAX_LABELS < 100
