"""Files with attention weights."""

import h5py
import numpy
import pytest

import returnn.__main__ as rnn
from returnn.tools.attention_weights import with_options
from returnn.util.backend_engine import BackendEngine

SEQS = [
    {"data": numpy.array([1, 2, 1], "int32"), "classes": numpy.array([1, 3, 0, 1], "int32"), "seq_tag": "x/1"},
    {"data": numpy.array([2, 2], "int32"), "classes": numpy.array([2, 0], "int32"), "seq_tag": "y"},
]
ENERGY = {"class": "dot", "from": ["base:encoder", "label"], "red1": "F", "red2": "F", "var1": "T", "var2": None}
UNIT = {
    "output": {"class": "choice", "target": "classes", "beam_size": 2, "from": "prob", "initial_output": 0},
    "end": {"class": "compare", "from": "output", "value": 9},  # the search goes on to max_seq_len
    "label": {"class": "linear", "activation": None, "n_out": 3, "from": "prev:output"},
    "energy": ENERGY,
    "att_weights": {"class": "softmax_over_spatial", "from": "energy"},
    "att": {"class": "generic_attention", "weights": "att_weights", "base": "base:encoder"},
    "prob": {"class": "softmax", "from": ["att", "label"], "target": "classes", "loss": "ce", "dropout": 0.1},
}
NET = {
    "encoder": {"class": "linear", "activation": "tanh", "n_out": 3, "from": "data"},
    "output": {"class": "rec", "from": [], "target": "classes", "max_seq_len": 5, "unit": UNIT},
}


@pytest.fixture
def config(tmp_path):
    """A model with random parameters, as of epoch 1."""
    path = tmp_path / "my.config"
    dim = {"data": (3, 1), "classes": (4, 1)}
    seqs = [{key: value if isinstance(value, str) else value.tolist() for key, value in seq.items()} for seq in SEQS]
    path.write_text(
        "#!rnn.py\nimport numpy\n"
        f"_seqs = {seqs!r}\n"
        "for _seq in _seqs:\n    _seq.update({k: numpy.array(_seq[k], 'int32') for k in ('data', 'classes')})\n"
        f"train = {{'class': 'StaticDataset', 'data': _seqs, 'output_dim': {dim!r}}}\n"
        "extern_data = {'data': {'dim': 3, 'sparse': True},\n"
        "  'classes': {'dim': 4, 'sparse': True, 'available_for_inference': False}}\n"
        f"network = {NET!r}\nmodel = {str(tmp_path / 'net')!r}\nbehavior_version = 21\n",
        encoding="utf8",
    )
    assert rnn.main(["rnn.py", str(path), "++task", "initialize_model", "-v", "1"]) == 0
    for file in tmp_path.glob("net.000.*"):
        file.rename(str(file).replace(".000.", ".001."))
    yield path
    BackendEngine.selected_engine = None


def load(path):
    return numpy.load(path, allow_pickle=True).item()


def test_weights_of_references_and_of_a_search(tool, config, tmp_path):
    status, out, err = tool("get-attention-weights", config, "--dump_dir", tmp_path / "a", "--layers", "att_weights")
    assert (status, err) == (0, "")
    assert out.endswith(f"wrote {tmp_path / 'a'}: 2 sequences\n")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["x%2F1.npy", "y.npy"]
    x, y = load(tmp_path / "a" / "x%2F1.npy"), load(tmp_path / "a" / "y.npy")
    assert (x["seq_tag"], x["encoder_len"], y["seq_tag"], y["encoder_len"]) == ("x/1", 3, "y", 2)
    assert (x["att_weights"].size, y["att_weights"].size) == (4 * 3, 2 * 2)
    axis = x["att_weights"].shape.index(3)
    numpy.testing.assert_allclose(x["att_weights"].sum(axis=axis), numpy.ones(4), rtol=1e-5)
    options = ["--do_search", "--beam_size", 3, "--num_seqs", 1, "--output_format", "hdf"]
    more = ["--layers", "att_weights", "--layers", "energy", "--output_file", tmp_path / "b.hdf"]
    status, out, err = tool("get-attention-weights", config, *options, *more)
    assert (status, err) == (0, "")
    with h5py.File(tmp_path / "b.hdf") as file:
        assert list(file["seqTags"]) == [b"x/1"]
        sizes = file["targets/data/sizes"][:]
        assert numpy.prod(sizes) == len(file["inputs"]) == 5 * 3
        assert file["targets/data/encoder_len"][:].tolist() == [3]
        axis = sizes.tolist().index(3)
        weights = file["inputs"][:].reshape(sizes)
        energy = file["targets/data/energy"][:].reshape(file["targets/data/sizes:energy"][:])
    assert sorted(energy.shape) == sorted(sizes) == [3, 5]
    exp = numpy.exp(energy if energy.shape == weights.shape else energy.T)
    numpy.testing.assert_allclose(exp / exp.sum(axis, keepdims=True), weights, rtol=1e-4)


def test_some_sequences(tool, config, tmp_path):
    for folder, options in {
        "a": ["--seq_list", "y"],
        "b": ["--min_seq_len", "{'classes': 3}"],
        "c": ["--train_flag", "--dropout", 0, "--epoch", 1],
    }.items():
        assert tool("get-attention-weights", config, "--dump_dir", tmp_path / folder, *options)[::2] == (0, "")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["y.npy"]
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["x%2F1.npy"]
    same = [load(tmp_path / folder / "y.npy")["att_weights"] for folder in ("a", "c")]
    numpy.testing.assert_allclose(*same, rtol=1e-5)


def test_options_of_layers():
    net = with_options(NET, dropout=0.5, beam_size=7)
    assert net["output"]["unit"]["output"]["beam_size"] == 7
    assert net["output"]["unit"]["prob"]["dropout"] == 0.5
    assert with_options(NET) == NET
    assert NET["output"]["unit"]["prob"]["dropout"] == 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "format 'npy': option '--dump_dir' says where to, and '--output_file' nothing."),
        (["--output_format", "hdf", "--dump_dir", "x"], "format 'hdf': option '--output_file' says where to, and"),
        (["--output_format", "png"], "option '--output_format': there is no format 'png'.\n  Possible: hdf, npy."),
        (["--dump_dir", "x", "--dropout", 0.1], "option '--dropout': without '--train_flag', there is no dropout."),
        (["--dump_dir", "x", "--min_seq_len", "a b"], "option '--min_seq_len': 'a b' is no number or dict."),
        (["--dump_dir", "x", "--reset_epoch_wise_filter", "{}"], "option '--reset_epoch_wise_filter': only None is"),
    ],
)
def test_wrong_options(tool, options, message):
    status, _, err = tool("get-attention-weights", "my.config", *options)
    assert status == 1
    assert err.startswith(f"error: {message}")


def test_wrong_layers(tool, config, tmp_path):
    options = [config, "--dump_dir", tmp_path / "a"]
    assert "there is no layer 'att_weigths'" in tool("get-attention-weights", *options, "--layers", "att_weigths")[2]
    assert tool("get-attention-weights", *options, "--enc_layer", "enc")[2].startswith(
        "error: layer 'enc': there is no layer 'enc'."
    )
