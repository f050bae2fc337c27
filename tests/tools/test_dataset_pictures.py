"""Pictures of data: what is drawn of which kind of data, and into which files."""

import sys

import numpy
import pytest

from returnn.datasets.static import StaticDataset
from returnn.tools import dataset_pictures
from returnn.tools.dataset_pictures import DataPictures, section_of_lengths, section_of_seq
from tests.tools.conftest import load_tool

_SEQS = [
    {
        "data": numpy.sin(numpy.arange(length) / 3).astype("float32")[:, None],
        "mel": numpy.ones((length // 100, 3), "float32"),
        "alignment": numpy.array([0] * 4 + [1] * (length // 100 - 4), "int32"),
        "text": numpy.array([1, 1, 0], "int32"),
        "speaker": numpy.array(7, "int32"),
    }
    for length in (2000, 1000, 1500)
]
DATA = {
    "class": "StaticDataset",
    "data": _SEQS,
    "output_dim": {"data": (1, 2), "mel": (3, 2), "alignment": (2, 1), "text": (2, 1), "speaker": (9, 0)},
}


@pytest.fixture
def drawn_texts():
    """Draws a panel: its texts, from left to right."""
    figure_module = pytest.importorskip("matplotlib.figure")

    def draw(panel):
        axes = figure_module.Figure().add_subplot()
        panel.draw(axes)
        return [(text.get_position()[0], text.get_text()) for text in axes.texts]

    return draw


@pytest.fixture
def dataset():
    """The data above, with names of labels."""
    dataset = StaticDataset(data=_SEQS, output_dim=DATA["output_dim"])
    dataset.labels["text"] = ["no", "yes"]
    dataset.init_seq_order(1)
    dataset.load_seqs(0, 2)
    return dataset


def test_audio_then_features_then_labels_under_them(dataset, drawn_texts):
    panels = {panel.name: panel for panel in section_of_seq(dataset, 0, dataset.get_data_keys()).panels}
    assert list(panels)[:3] == ["data", "frequency /\nsample rate", "mel"]
    assert sorted(list(panels)[3:]) == ["alignment", "speaker", "text"]
    assert drawn_texts(panels["alignment"]) == [(2.0, "0"), (12.0, "1")]  # each below its frames
    assert drawn_texts(panels["text"]) == [(0.5, "yes"), (1.5, "yes"), (2.5, "no")]  # the same twice is two labels
    assert drawn_texts(panels["speaker"]) == [(0.5, "7")]


def test_short_audio_has_no_spectrogram(dataset):
    assert [panel.name for panel in section_of_seq(dataset, 1, ["data"]).panels] == ["data"]


def test_many_labels_are_a_curve(drawn_texts):
    labels = numpy.arange(100, dtype="int32") % 7
    dataset = StaticDataset(data=[{"classes": labels}], output_dim={"classes": (7, 1)})
    dataset.init_seq_order(1)
    dataset.load_seqs(0, 1)
    (panel,) = section_of_seq(dataset, 0, ["classes"]).panels
    assert drawn_texts(panel) == []


def test_histogram_of_lengths():
    figure = pytest.importorskip("matplotlib.figure").Figure()
    (panel,) = section_of_lengths({"text": [3, 3, 5]}).panels
    axes = figure.add_subplot()
    panel.draw(axes)
    assert axes.get_title() == "3 sequences, 3 to 5, mean 3.7"
    assert [bar.get_height() for bar in axes.patches] == [2, 0, 1]


def test_sequence_without_labels(tmp_path):
    pytest.importorskip("matplotlib")
    data = [{"data": numpy.zeros((1, 3), "float32"), "text": numpy.zeros(0, "int32")}]
    dataset = StaticDataset(data=data, output_dim={"data": (3, 2), "text": (2, 1)})
    dataset.init_seq_order(1)
    dataset.load_seqs(0, 1)
    pictures = DataPictures(str(tmp_path / "x.png"), ["data", "text"], num_seqs=1)
    pictures.add(dataset, 0)
    assert pictures.write() == [str(tmp_path / "x.png")]


@pytest.fixture
def sections(monkeypatch):
    """What is written, instead of writing it: titles and names of the panels, by name of the file."""
    written = {}

    def write(filename, parts):
        written[filename] = [(part.title, [panel.name for panel in part.panels]) for part in parts]

    load_tool("dump-dataset")  # which has the function by name
    monkeypatch.setattr(dataset_pictures, "write_sections", write)
    return written


PLAIN = "Task12AXDataset:num_seqs=5"
LENGTHS = ("lengths of sequences", ["data", "classes"])


def test_plot_into_a_folder(tool, sections, tmp_path):
    pytest.importorskip("matplotlib")
    status, out, _ = tool("dump-dataset", PLAIN, "--plot", tmp_path, "--plot_seqs", 2, "--verbosity", 1)
    assert status == 0
    assert sections == {
        str(tmp_path / "0.png"): [("seq-0", ["data", "classes"])],
        str(tmp_path / "1.png"): [("seq-1", ["data", "classes"])],
        str(tmp_path / "lengths.png"): [LENGTHS],
    }
    assert out.split("\n")[:3] == [f"wrote {filename}" for filename in sections]
    assert out.split("\n")[3].startswith("5 sequences")


def test_plot_into_a_file(tool, sections, tmp_path):
    pytest.importorskip("matplotlib")
    picture = str(tmp_path / "x.svg")
    assert tool("dump-dataset", PLAIN, "--plot", picture, "--plot_seqs", 1, "--verbosity", 1)[0] == 0
    assert sections == {picture: [("seq-0", ["data", "classes"]), LENGTHS]}
    assert tool("dump-dataset", PLAIN, "--plot", picture, "--key", "data", "--endseq", 0, "--verbosity", 1)[0] == 0


def test_pictures_are_written(tool, tmp_path):
    pytest.importorskip("matplotlib")
    assert tool("dump-dataset", PLAIN, "--plot", tmp_path / "x.png", "--verbosity", 1)[0] == 0
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    assert tool("dump-dataset", PLAIN, "--plot", tmp_path / "x", "--verbosity", 1)[0] == 0
    assert sorted(path.name for path in (tmp_path / "x").iterdir()) == [*(f"{i}.png" for i in range(4)), "lengths.png"]


def test_plot_without_matplotlib(tool, monkeypatch, tmp_path):
    monkeypatch.delitem(sys.modules, "matplotlib", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    status, out, err = tool("dump-dataset", PLAIN, "--plot", tmp_path / "x.png", "--verbosity", 1)
    assert (status, out) == (1, "")
    assert err == "error: The package 'matplotlib' is needed for --plot.\n  pip install matplotlib\n"
