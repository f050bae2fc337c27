"""Checkpoints of all formats, layouts and names, and back: bit for bit the same."""

import itertools

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.config import Config
from returnn.tensor import Dim
from returnn.tf.network import TFNetwork
from returnn.tools.checkpoints.convert_lstms import convert_lstms
from returnn.tools.checkpoints.formats import Checkpoint, read_checkpoint, write_any_checkpoint
from returnn.util.numbers.lstm_layouts import LAYOUTS, LstmParams

torch = pytest.importorskip("torch")
ml_dtypes = pytest.importorskip("ml_dtypes")

NAMES = {"tf": "net.001", "tf1": "net.001.ckpt1", "pt": "net.pt", "safetensors": "net.safetensors", "npz": "net.npz"}


def _values(*, with_half=True):
    rng = numpy.random.RandomState(1)
    values = {
        "layer/W": rng.normal(size=(2, 3)).astype("float32"),
        "layer/b": rng.normal(size=3),
        "count": numpy.array(7, "int64"),
        "labels": numpy.arange(4, dtype="int32").reshape(2, 2),
        "mask": numpy.array([True, False]),
        "empty": numpy.zeros((0, 2), "float32"),
    }
    if with_half:
        values["half"] = rng.normal(size=(2, 1)).astype("float16")
        values["brain"] = rng.normal(size=5).astype(ml_dtypes.bfloat16)
    return values


def _assert_same(one, other):
    assert sorted(one) == sorted(other)
    for name, value in one.items():
        assert (value.dtype, value.shape) == (other[name].dtype, other[name].shape), name
        assert value.tobytes() == other[name].tobytes(), name


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(NAMES, 2)))
def test_from_each_format_to_each_other_one_and_back(tool, tmp_path, first, second):
    checkpoint = Checkpoint(_values(with_half="tf1" not in (first, second)), {"step": 12})
    num_values = sum(value.size for value in checkpoint.values.values())
    paths = [tmp_path / NAMES[first], tmp_path / NAMES[second], tmp_path / f"again.{NAMES[first]}"]
    write_any_checkpoint(checkpoint, str(paths[0]), kind=first)
    for source, target, kind in ((*paths[:2], second), (*paths[1:], first)):
        status, out, err = tool("convert_checkpoint", source, target, "--format", kind)
        assert (status, err) == (0, "")
        assert out == f"wrote {target}: {len(checkpoint.values)} tensors, {num_values} values\n"
    again = read_checkpoint(str(paths[2]))
    _assert_same(checkpoint.values, again.values)
    assert again.info == {"step": 12}


def test_others_read_what_is_written(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    checkpoint = Checkpoint({**_values(), "layer/W": numpy.ones((2, 3), "float32")}, {"epoch": 3})
    for kind, name in NAMES.items():
        values = {k: v for k, v in checkpoint.values.items() if kind != "tf1" or k not in ("brain", "half")}
        write_any_checkpoint(Checkpoint(values, checkpoint.info), str(tmp_path / name), kind=kind)
    read = {
        "tf": tf.train.load_checkpoint(str(tmp_path / NAMES["tf"])).get_tensor,
        "tf1": tf.train.load_checkpoint(str(tmp_path / NAMES["tf1"])).get_tensor,
        "pt": torch.load(tmp_path / NAMES["pt"], weights_only=True)["model"].__getitem__,
        "safetensors": safetensors.load_file(tmp_path / NAMES["safetensors"]).__getitem__,
        "npz": numpy.load(tmp_path / NAMES["npz"]).__getitem__,
    }
    for kind, get in read.items():
        numpy.testing.assert_array_equal(get("layer/W"), numpy.ones((2, 3)), err_msg=kind)
    safetensors.save_file({"x": torch.tensor([1.5, 2.0], dtype=torch.bfloat16)}, tmp_path / "theirs.safetensors")
    assert read_checkpoint(str(tmp_path / "theirs.safetensors")).values["x"].tolist() == [1.5, 2.0]


def _lstm(layout, num_in=3, num_units=2):
    rng = numpy.random.RandomState(1)
    shapes = [(num_in, 4 * num_units), (num_units, 4 * num_units), (4 * num_units,)]
    params = LstmParams(*(rng.normal(size=shape).astype("float32") for shape in shapes))
    return dict(zip(LAYOUTS[layout].suffixes, LAYOUTS[layout].write(params, 0.0), strict=True))


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(LAYOUTS, 2)))
def test_layouts_of_lstms_there_and_back(first, second):
    values = {f"lstm/rec/{name}": value for name, value in _lstm(first).items()} | {"other": numpy.ones(2)}
    there = convert_lstms(values, first, second, forget_bias=0.0)
    _assert_same(values, convert_lstms(there, second, first, forget_bias=0.0))
    back = convert_lstms(convert_lstms(values, first, second), second, first)
    for name, value in values.items():
        numpy.testing.assert_allclose(back[name], value, atol=2e-7)


def _output_of_layer(values, unit, x):
    network = {"lstm": {"class": "rec", "unit": unit, "n_out": 2, "from": "data", "is_output_layer": True}}
    config = Config({"extern_data": {"data": {"dim": 3}}, "network": network, "behavior_version": 21})
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        net = TFNetwork(config=config, train_flag=False)
        net.construct_from_dict(network)
        for param in net.get_params_list():
            param.load(values[param.name.split(":")[0].removeprefix("lstm/rec/")], session)
        data = net.extern_data.data["data"]
        feed = {data.placeholder: x, data.get_sequence_lengths(): [x.shape[1]] * len(x)}
        return session.run(net.get_layer("lstm").output.copy_as_batch_major().placeholder, feed)


@pytest.mark.parametrize(("layout", "unit"), [("native", "nativelstm2"), ("standardlstm", "standardlstm")])
def test_an_lstm_of_pytorch_gives_the_same_in_a_layer(layout, unit):
    module = torch.nn.LSTM(3, 2, batch_first=True)
    x = numpy.random.RandomState(1).normal(size=(2, 5, 3)).astype("float32")
    with torch.no_grad():
        wanted = module(torch.from_numpy(x))[0].numpy()
        values = {name: value.numpy() for name, value in module.state_dict().items()}
    converted = convert_lstms(values, "torch", layout)
    numpy.testing.assert_allclose(_output_of_layer(converted, unit, x), wanted, atol=1e-6)


def test_layers_become_modules_and_back(tool, tmp_path):
    rng = numpy.random.RandomState(1)
    shapes = {
        "conv/W": (3, 2, 4), "conv/bias": (4,), "lstm/rec/W": (4, 8), "lstm/rec/W_re": (2, 8), "lstm/rec/b": (8,),
        "output/W": (2, 5), "output/b": (5,), "norm/scale": (2,), "norm/bias": (2,),
    }  # fmt: skip
    values = {name: rng.normal(size=shape).astype("float32") for name, shape in shapes.items()}
    write_any_checkpoint(Checkpoint(values, {"step": 3}), str(tmp_path / "net.001"))
    (tmp_path / "there").write_text(repr({"conv": "front.conv", "lstm": "lstm", "output": "out", "norm": "norm"}))
    (tmp_path / "back").write_text(repr({"front.conv": "conv", "lstm": "lstm", "out": "output", "norm": "norm"}))
    names = [tmp_path / name for name in ("net.001", "net.pt", "net.002")]
    options = ["--lstm", "native", "frontend", "--layers_to_modules", tmp_path / "there"]
    assert tool("convert_checkpoint", *names[:2], *options)[0] == 0
    model = torch.load(names[1], weights_only=True)
    assert (model["step"], model["model"]["front.conv.filter"].shape) == (3, (3, 2, 4))
    hidden, inputs = Dim(2, name="hidden"), Dim(4, name="in")
    rf.select_backend_torch()
    lstm = rf.LSTM(inputs, hidden)
    for name, param in lstm.named_parameters():
        assert param.raw_tensor.shape == model["model"][f"lstm.{name}"].shape
    rf.select_backend_numpy()
    options = ["--lstm", "frontend", "native", "--modules_to_layers", tmp_path / "back"]
    assert tool("convert_checkpoint", *names[1:], *options, "--rename", "^zzz|^", "")[2].startswith("error: ")
    assert tool("convert_checkpoint", *names[1:], *options)[0] == 0
    again = read_checkpoint(str(names[2])).values
    _assert_same(values, again)


def test_mean_of_several_formats_with_other_names(tool, tmp_path):
    for i, kind in enumerate(NAMES):
        values = {"old/W": numpy.full(2, float(i), "float32"), "old/count": numpy.array(i), "opt/m": numpy.ones(1)}
        write_any_checkpoint(Checkpoint(values, {"step": i}), str(tmp_path / NAMES[kind]), kind=kind)
    files = [tmp_path / name for name in NAMES.values()]
    options = ["--rename", "^old/", "new/", "--exclude", "^opt/"]
    out = tool("convert_checkpoint", *files, tmp_path / "mean.npz", *options)[1]
    assert out == f"wrote {tmp_path / 'mean.npz'}: 2 tensors, 3 values, the mean of 5\n"
    mean = read_checkpoint(str(tmp_path / "mean.npz"))
    assert (mean.values["new/W"].tolist(), mean.values["new/count"].item(), mean.info) == ([2.0, 2.0], 4, {"step": 4})


def test_what_is_wrong(tool, tmp_path):
    def error(*args):
        return tool("convert_checkpoint", *args)[2]

    source, target = tmp_path / "a.npz", tmp_path / "b.npz"
    assert error(source, target) == f"error: checkpoint {str(source)!r} does not exist.\n"
    source.write_bytes(b"x")
    assert error(source, target).startswith(f"error: checkpoint {str(source)!r}: cannot be read: ")
    broken = tmp_path / "a.safetensors"
    broken.write_bytes(b"x" * 20)
    assert error(broken, target).startswith(f"error: checkpoint {str(broken)!r}: the file is damaged: ")
    values = {"a": numpy.ones(2), "b": numpy.ones(2), "lstm/W": numpy.ones((2, 3)), "lstm/W_re": numpy.ones((1, 4))}
    write_any_checkpoint(Checkpoint({**values, "lstm/b": numpy.ones(4)}), str(source))
    assert error(source, target, "--lstm", "native", "torch") == (
        "error: option '--lstm': 'lstm/' has the shapes (2, 3), (1, 4), (4,), which are of no LSTM.\n"
    )
    assert error(source, target, "--lstm", "cudnn", "torch").startswith(
        "error: option '--lstm': no LSTM has the layout 'cudnn', with "
    )
    assert error(source, target, "--lstm", "nativ", "torch").endswith("Did you mean 'native'?\n")
    assert error(source, target, "--rename", "^[ab]$", "c") == "error: 'a' and 'b' would both be 'c'.\n"
    assert error(source, target, "--rename", "x(", "c").startswith("error: option '--rename': 'x(', 'c': ")
    wanted = "error: option '--rename': 'zz' is in no name, such as 'a'.\n"
    assert error(source, target, "--rename", "zz", "c") == wanted
    (tmp_path / "map").write_text("{'c': 'd'}")
    assert error(source, target, "--layers_to_modules", tmp_path / "map").startswith(
        "error: mapping: 'c' has no parameters.\n"
    )
    half = tmp_path / "half.npz"
    write_any_checkpoint(Checkpoint({"a": numpy.ones(2, "float16")}), str(half))
    assert error(half, target, "--format", "tf1").endswith("'a' is of float16, which the first format does not have.\n")
    assert not target.exists()
