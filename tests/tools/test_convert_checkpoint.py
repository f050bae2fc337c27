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
from returnn.util.errors import UserError
from returnn.util.numbers.lstm_layouts import LAYOUTS, LstmParams, read_lstm

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


@pytest.mark.parametrize("kind", sorted(NAMES))
def test_the_folder_is_made(kind, tmp_path):
    path = tmp_path / "new" / "folder" / NAMES[kind]
    write_any_checkpoint(Checkpoint(_values(with_half=False), {}), str(path), kind=kind)
    assert read_checkpoint(str(path)).values


@pytest.mark.parametrize("kind", ["tf", "pt", "safetensors", "npz"])
def test_names_are_those_of_configs(kind, tmp_path):
    values = {"layer.W": numpy.ones(2, "float32")}
    write_any_checkpoint(Checkpoint(values, {}), str(tmp_path / f"net.003{'' if kind == 'tf' else f'.{kind}'}"))
    _assert_same(read_checkpoint(str(tmp_path / "net.003")).values, values)
    with pytest.raises(UserError, match="does not exist"):
        read_checkpoint(str(tmp_path / "net.004"))


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


def _lstm(layout, num_in=3, num_units=8):
    """:return: random parameters, both of two biases, too"""
    rng = numpy.random.RandomState(1)
    layout = LAYOUTS[layout]
    shapes = [(num_in, 4 * num_units), (num_units, 4 * num_units), *[(4 * num_units,)] * layout.num_biases]
    forward, recurrent, *biases = (rng.normal(size=shape).astype("float32") for shape in shapes)
    return dict(zip(layout.suffixes, layout.write(LstmParams(forward, recurrent, biases), 0.0), strict=True))


def _computed(values, layout, forget_bias=1.0):
    """:return: what the unit of an LSTM computes with: matrices, and the sum of biases"""
    read = read_lstm([values[name] for name in LAYOUTS[layout].suffixes], LAYOUTS[layout], forget_bias=forget_bias)
    common = LAYOUTS["native"].write(read, 0.0)
    return dict(zip(LAYOUTS["native"].suffixes, common, strict=True))


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(LAYOUTS, 2)))
def test_layouts_of_lstms_there_and_back(first, second):
    lstm = _lstm(first)
    values = {f"lstm/rec/{name}": value for name, value in lstm.items()} | {"other": numpy.ones(2)}
    for forget_bias in (0.0, 1.0):
        there = convert_lstms(values, first, second, forget_bias=forget_bias)
        back = convert_lstms(there.values, second, first, forget_bias=forget_bias)
        loses_sum = LAYOUTS[first].num_biases > LAYOUTS[second].num_biases
        rounds = bool(forget_bias) and LAYOUTS[first].adds_forget_bias != LAYOUTS[second].adds_forget_bias
        assert there.notes[0] == f"1 LSTM from {first} to {second}"
        if not (loses_sum or rounds):
            assert len(there.notes) == 1
            _assert_same(values, back.values)
            continue
        (note,) = there.notes[1:]
        assert note.startswith("the sum of the two biases" if loses_sum else "biases of forget gates are rounded")
        found = {name.removeprefix("lstm/rec/"): value for name, value in back.values.items() if name != "other"}
        for one, other in zip(_computed(lstm, first).values(), _computed(found, first).values(), strict=True):
            numpy.testing.assert_allclose(one, other, atol=5e-7, rtol=0)


FRONTEND = LAYOUTS["frontend"].suffixes
STACKS = [(1, 2), (2, 1), (2, 2), (3, 1), (3, 2)]  # number of layers, of directions


def _stack(num_layers, num_directions, *, bias=True, num_in=3):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        lstm = torch.nn.LSTM(num_in, 2, num_layers, bidirectional=num_directions == 2, bias=bias)
    return lstm, {f"enc.lstm.{name}": value.numpy() for name, value in lstm.state_dict().items()}


@pytest.mark.parametrize("target", [name for name in LAYOUTS if name != "torch"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("num_layers", "num_directions"), STACKS)
def test_all_layers_and_directions_there_and_back(num_layers, num_directions, bias, target):
    _, values = _stack(num_layers, num_directions, bias=bias)
    num = num_layers * num_directions
    there = convert_lstms(values, "torch", target, forget_bias=0.0)
    assert there.notes[0] == f"1 LSTM from torch to {target}, all {num} layers and directions"
    assert not [name for name in there.values if "weight_" in name and target != "frontend"]
    back = convert_lstms(there.values, target, "torch", forget_bias=0.0)
    again = convert_lstms(back.values, "torch", target, forget_bias=0.0)
    _assert_same(there.values, again.values)
    if bias and target == "cudnn":
        assert len(there.notes) == 1
        _assert_same(values, back.values)
        return
    matrices = {name: value for name, value in values.items() if "weight" in name}
    _assert_same(matrices, {name: value for name, value in back.values.items() if "weight" in name})
    if bias:
        assert there.notes[1:] == [f"the sum of the two biases is left, and not each of them, in {num} of {num}"]
    elif LAYOUTS[target].needs_biases:
        assert there.notes[1:] == [f"zeros as biases, as there were none, in {num} of {num}"]
    else:
        assert len(back.values) == len(values)


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations([x for x in LAYOUTS if x != "torch"], 2)))
def test_all_layers_and_directions_between_other_layouts(first, second):
    for num_layers, num_directions in STACKS:
        values = convert_lstms(_stack(num_layers, num_directions)[1], "torch", first).values
        there = convert_lstms(values, first, second, forget_bias=0.0).values
        back = convert_lstms(there, second, first, forget_bias=0.0).values
        assert sorted(back) == sorted(values)
        if first != "cudnn":
            _assert_same(values, back)


def test_layers_and_directions_by_themselves_compute_the_same():
    module, values = _stack(2, 2)
    parts = convert_lstms(values, "torch", "frontend").values
    x = torch.from_numpy(numpy.random.RandomState(1).normal(size=(5, 1, 3)).astype("float32"))
    with torch.no_grad():
        wanted, _ = module(x)
        for layer in ("l0", "l1"):
            outputs = []
            for direction in ("", "_reverse"):
                own = {name: torch.from_numpy(parts[f"enc.lstm.{layer}{direction}.{name}"]) for name in FRONTEND}
                single = torch.nn.LSTM(x.shape[-1], 2)
                weights = [own["ff_weight"], own["rec_weight"], own["bias"], torch.zeros_like(own["bias"])]
                single.load_state_dict(dict(zip(LAYOUTS["torch"].suffixes, weights, strict=True)))
                outputs.append(single(x.flip(0))[0].flip(0) if direction else single(x)[0])
            x = torch.cat(outputs, dim=-1)
    numpy.testing.assert_allclose(x, wanted, atol=1e-6)


def test_parts_of_cudnn_of_the_same_size_have_to_be_told():
    for num_layers, num_directions in ((1, 2), (2, 1)):
        values = _stack(num_layers, num_directions, num_in=2)[1]
        there = convert_lstms(values, "torch", "cudnn").values
        with pytest.raises(UserError, match="two layers, or one in two directions"):
            convert_lstms(there, "cudnn", "torch")
        _assert_same(values, convert_lstms(there, "cudnn", "torch", directions=num_directions).values)
    with pytest.raises(UserError, match="6 parts, whose sizes are of no layers in 1 direction"):
        convert_lstms(convert_lstms(_stack(3, 2)[1], "torch", "cudnn").values, "cudnn", "torch", directions=1)
    with pytest.raises(UserError, match="'--directions'"):
        convert_lstms(values, "torch", "cudnn", directions=1)


def test_several_lstms_beside_each_other():
    """Those whose names or sizes are not of one stack stay apart, and what an optimizer keeps stays."""
    single = {f"b.{name}": value for name, value in _lstm("torch").items()}
    values = {**_stack(2, 2)[1], **single, "enc.linear.weight": numpy.ones(3)}
    there = convert_lstms(values, "torch", "frontend")
    assert there.notes[0] == "2 LSTMs from torch to frontend, all 5 layers and directions"
    assert {"b.ff_weight", "enc.lstm.l1_reverse.rec_weight", "enc.linear.weight"} < set(there.values)
    assert sorted(convert_lstms(there.values, "frontend", "torch").values) == sorted(values)
    kept = {"optimize/x/lstm_cell/kernel/Adam": numpy.ones(3)}
    cell = {f"x/{name}": value for name, value in _lstm("standardlstm").items()}
    assert set(kept) < set(convert_lstms({**cell, **kept}, "standardlstm", "torch").values)
    alike = {
        f"x.l{i}.{name}": value for i in range(2) for name, value in _lstm("frontend", num_in=5, num_units=2).items()
    }
    assert "x.l1.weight_ih_l0" in convert_lstms(alike, "frontend", "torch").values


def test_what_no_other_layout_has_is_refused():
    lstm = torch.nn.LSTM(3, 4, proj_size=2)
    _, stack = _stack(2, 1)
    refused = {
        "torch": [
            {name: value.detach().numpy() for name, value in lstm.state_dict().items()},
            {name: value for name, value in stack.items() if "l0" not in name},
            {name: value for name, value in stack.items() if name != "enc.lstm.bias_hh_l1"},
        ],
        "standardlstm": [{**_lstm("standardlstm"), "lstm_cell/w_f_diag": numpy.ones(2)}],
        "cudnn": [{f"x/CudnnRNNParamsToCanonical:{i}": numpy.ones((2, 2)) for i in range(17)}],
        "native": [{**_lstm("native"), "x/W_re": numpy.ones((2, 8))}],
    }
    for layout, cases in refused.items():
        for values in cases:
            with pytest.raises(UserError, match="cannot be converted"):
                convert_lstms(values, layout, "frontend")


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
    converted = convert_lstms(values, "torch", layout).values
    numpy.testing.assert_allclose(_output_of_layer(converted, unit, x), wanted, atol=1e-6)


def test_layers_become_modules_and_back(tool, tmp_path):
    rng = numpy.random.RandomState(1)
    shapes = {
        "conv/W": (3, 2, 4), "conv/bias": (4,), "lstm/rec/W": (4, 8), "lstm/rec/W_re": (2, 8), "lstm/rec/b": (8,),
        "output/W": (2, 5), "output/b": (5,), "norm/scale": (2,), "norm/bias": (2,),
    }  # fmt: skip
    values = {name: rng.normal(size=shape).astype("float32") for name, shape in shapes.items()}
    write_any_checkpoint(Checkpoint(values, {"step": 3}), str(tmp_path / "net.001"))
    (tmp_path / "map").write_text(repr({"conv": "front.conv", "lstm": "lstm", "output": "out", "norm": "norm"}))
    names = [tmp_path / name for name in ("net.001", "net.pt", "net.002")]
    options = ["--layers_to_modules", tmp_path / "map"]
    assert tool("convert_checkpoint", *names[:2], *options)[0] == 0
    model = torch.load(names[1], weights_only=True)
    assert (model["step"], model["model"]["front.conv.filter"].shape) == (3, (3, 2, 4))
    hidden, inputs = Dim(2, name="hidden"), Dim(4, name="in")
    rf.select_backend_torch()
    lstm = rf.LSTM(inputs, hidden)
    for name, param in lstm.named_parameters():
        assert param.raw_tensor.shape == model["model"][f"lstm.{name}"].shape
    rf.select_backend_numpy()
    options = ["--modules_to_layers", tmp_path / "map"]
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
