"""Models as net dicts and in Python: parameters of one, as those of the other, compute the same."""

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.config import Config
from returnn.tensor import Dim, Tensor, single_step_dim
from returnn.tf.network import TFNetwork
from returnn.tools.checkpoints.formats import Checkpoint, read_checkpoint, write_any_checkpoint
from returnn.tools.checkpoints.layer_modules import layers_to_modules, modules_to_layers, places_of
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import UserError

torch = pytest.importorskip("torch")

IN, SIZE, OUT, HEADS, BATCH, FRAMES = 3, 4, 5, 2, 2, 6
batch = Dim(BATCH, name="sequences")
NETWORK = {
    "conv": {
        "class": "conv", "from": "data", "filter_size": (3,), "padding": "same", "n_out": SIZE, "with_bias": True,
        "activation": None,
    },
    "bn": {"class": "batch_norm", "from": "conv", "masked_time": True},
    "att": {"class": "self_attention", "from": "bn", "num_heads": HEADS, "total_key_dim": SIZE, "n_out": SIZE},
    "proj": {
        "class": "linear", "from": "att", "n_out": SIZE, "activation": None,
        "batch_norm": {"masked_time": True},
    },
    "ln": {"class": "layer_norm", "from": "proj"},
    "blstm": {"class": "rec", "unit": "nativelstm2", "from": "ln", "n_out": SIZE},
    "loop": {
        "class": "rec", "from": "blstm", "is_output_layer": True,
        "unit": {
            "s": {"class": "rnn_cell", "unit": "LSTMBlock", "from": ["data:source", "prev:s"], "n_out": SIZE},
            "att": {
                "class": "self_attention", "from": "s", "num_heads": HEADS, "total_key_dim": SIZE, "n_out": SIZE,
                "attention_left_only": True,
            },
            "energy": {"class": "linear", "from": "att", "n_out": 1, "activation": None, "with_bias": False},
            "output": {"class": "linear", "from": ["s", "energy"], "n_out": OUT, "activation": "tanh"},
        },
    },
}  # fmt: skip
MAPPING = {
    "conv": "conv",
    "bn": "norms.0",
    "att": "att",
    "proj": "att.proj",
    "proj/batch_norm": "norms.1",
    "ln": "ln",
    "blstm": "lstm",
    "loop/rec/s": {"module": "cell", "lstm": "standardlstm"},
    "loop/rec/att": "causal",
    "loop/rec/energy/W": {"parameter": "energy", "without_axis": 1},
    "loop/rec/output": "output",
}


class Model(rf.Module):
    """What NETWORK is."""

    def __init__(self):
        super().__init__()
        self.in_dim, self.dim, out_dim = Dim(IN, name="in"), Dim(SIZE, name="features"), Dim(OUT, name="out")
        value_dim = Dim(SIZE, name="values")
        keys = {"key_dim_total": Dim(SIZE, name="keys"), "num_heads": HEADS, "att_dropout": 0.0}
        self.conv = rf.Conv1d(self.in_dim, self.dim, 3, padding="same")
        self.norms = rf.ModuleList(rf.BatchNorm(self.dim), rf.BatchNorm(self.dim))
        self.att = rf.SelfAttention(self.dim, None, value_dim_total=value_dim, with_bias=False, **keys)
        self.att.proj = rf.Linear(value_dim, self.dim)
        self.ln = rf.LayerNorm(self.dim)
        self.lstm = rf.LSTM(self.dim, self.dim)
        self.cell = rf.LSTM(self.dim + self.dim, self.dim)
        self.causal = rf.CausalSelfAttention(self.dim, None, value_dim_total=value_dim, with_bias=False, **keys)
        self.energy = rf.Parameter([value_dim])
        self.one = Dim(1, name="one")
        self.output = rf.Linear(self.dim + self.one, out_dim)

    def __call__(self, x, time):
        x, _ = self.conv(x, in_spatial_dim=time)
        x = self.ln(self.norms[1](self.att(self.norms[0](x), axis=time)))
        x, _ = self.lstm(x, state=self.lstm.default_initial_state(batch_dims=[batch]), spatial_dim=time)
        initial = self.cell.default_initial_state(batch_dims=[batch])
        s, _, _ = rf.scan(spatial_dim=time, xs=x, initial=initial, body=self._step)
        s.feature_dim = self.dim
        att, _ = self.causal(s, time)
        energy = rf.expand_dim(rf.matmul(att, self.energy, reduce=self.energy.dims[0]), self.one)
        return rf.tanh(self.output(rf.concat((s, self.dim), (energy, self.one))[0]))

    def _step(self, x, state):
        source, _ = rf.concat((x, self.dim), (state.h, self.dim))
        return self.cell(source, state=state, spatial_dim=single_step_dim)


def of_net(x, lengths, values=None):
    """:return: output of the net, and its parameters: random ones, or those given"""
    config = Config({"extern_data": {"data": {"dim": IN}}, "network": NETWORK, "behavior_version": 30})
    random = numpy.random.RandomState(1)
    BehaviorVersion.set(30)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        net = TFNetwork(config=config, train_flag=False)
        net.construct_from_dict(NETWORK)
        params = {param.name.split(":")[0]: param for param in net.get_params_list()}
        values = values or {
            name: random.uniform(0.5 if name.endswith("variance") else -1.0, 1.0, param.shape).astype("float32")
            for name, param in params.items()
        }
        assert set(values) == set(params)
        for name, param in params.items():
            param.load(values[name], session)
        data = net.extern_data.data["data"]
        feed = {data.placeholder: x, data.get_sequence_lengths(): lengths}
        output = net.get_layer("loop").output.copy_as_batch_major().placeholder
        return session.run(output, feed), values


def of_model(x, lengths, values):
    """:return: output of the model in Python"""
    rf.select_backend_torch()
    try:
        model = Model()
        params = dict(model.named_parameters())
        assert set(params) == set(values)
        for name, param in params.items():
            assert tuple(param.raw_tensor.shape) == values[name].shape, name
            param.raw_tensor.data = torch.tensor(values[name])
        time = Dim(Tensor("lengths", [batch], "int32", raw_tensor=torch.tensor(lengths, dtype=torch.int32)))
        source = Tensor("x", [batch, time, model.in_dim], "float32", raw_tensor=torch.tensor(x))
        source.feature_dim = model.in_dim
        with torch.no_grad(), rf.set_default_device_ctx("cpu"):
            rf.init_forward_step_run_ctx(epoch=1, step=0)
            out = model(source, time)
            return out.copy_transpose([batch, time, *(d for d in out.dims if d not in (batch, time))]).raw_tensor
    finally:
        rf.select_backend_numpy()


def test_layers_and_modules_compute_the_same(tool, tmp_path):
    random = numpy.random.RandomState(2)
    x, lengths = random.normal(size=(BATCH, FRAMES, IN)).astype("float32"), [FRAMES, FRAMES - 2]
    x[1, -2:] = 0  # padding, which a convolution sees in one of them
    wanted, values = of_net(x, lengths)
    write_any_checkpoint(Checkpoint(values), str(tmp_path / "net.001"))
    (tmp_path / "map").write_text(repr(MAPPING))
    status, out, _ = tool(
        "convert_checkpoint", tmp_path / "net.001", tmp_path / "net.pt", "--layers_to_modules", tmp_path / "map"
    )
    assert (status, out.splitlines()[1:]) == (
        0, ["  biases of forget gates are rounded, unless '--forget_bias 0', in 1 LSTM"],
    )  # fmt: skip
    found = of_model(x, lengths, read_checkpoint(str(tmp_path / "net.pt")).values)
    valid = numpy.arange(FRAMES) < numpy.array(lengths)[:, None]
    assert numpy.abs(wanted[valid]).max() > 0.1
    numpy.testing.assert_allclose(found.numpy()[valid], wanted[valid], atol=2e-6)
    status, *_ = tool(
        "convert_checkpoint", tmp_path / "net.pt", tmp_path / "back.001", "--modules_to_layers", tmp_path / "map"
    )
    assert status == 0
    back = read_checkpoint(str(tmp_path / "back.001")).values
    of_modules = read_checkpoint(str(tmp_path / "net.pt")).values
    in_tensorflow = {name.replace(".", "/"): value for name, value in of_modules.items()} | {"optimize/x": x}
    mapped = modules_to_layers(in_tensorflow, places_of(MAPPING))
    assert mapped.values.keys() == back.keys()
    assert mapped.notes[-1] == "without the state of the optimizer, 1 tensor"
    for name, value in values.items():
        if name != "loop/rec/s/rec/lstm_cell/bias":
            assert back[name].tobytes() == value.tobytes(), name
    numpy.testing.assert_allclose(of_net(x, lengths, back)[0][valid], wanted[valid], atol=2e-6)


def test_old_names_of_batch_norm():
    for names in ("bn/batch_norm/bn_bn_output_{}", "bn/batch_norm/{}", "bn/batch_norm/v2_{}"):
        values = {names.format(name): numpy.full((1, 1, 3), i) for i, name in enumerate(("mean", "variance", "gamma"))}
        found = layers_to_modules(values, places_of({"bn": "x"})).values
        assert {name: value.tolist() for name, value in found.items()} == {
            "x.running_mean": [0] * 3, "x.running_variance": [1] * 3, "x.gamma": [2] * 3,
        }  # fmt: skip


def test_what_does_not_fit():
    def error(convert, values, mapping):
        with pytest.raises(UserError) as info:
            convert(values, places_of(mapping))
        return str(info.value)

    one, two = numpy.ones(4), numpy.ones((2, 3))
    there, back = layers_to_modules, modules_to_layers
    assert error(there, {"a/W": one}, {"a": "x"}) == "mapping: 'a/W' with the shape (4,) has no name in 'x'."
    assert error(there, {"a/W": two, "b/W": two}, {"a": "x"}) == "mapping: it says nothing about 'b/W'."
    assert error(there, {"a/W": two}, {"b": "x"}) == "mapping: 'b' has no parameters.\n  There are: 'a/W'."
    assert error(there, {"a/W": two, "b/W": two}, {"a": "x", "b": "x"}).endswith(
        "several parameters would be 'x.weight'."
    )
    assert error(there, {"a/W": two}, {"a/W": {"parameter": "x", "without_axis": 1}}) == (
        "mapping: 'a/W' with the shape (2, 3): 'without_axis': 1 is of no axis of size 1."
    )
    assert error(there, {"a/W": two}, {"a": {"module": "x", "lstm": "nativ"}}).endswith("Did you mean 'native'?")
    assert error(there, {"a/W": two}, {"a": ["x"]}).startswith("mapping: 'a': expected the name of a module")
    assert error(there, {"a/W": two}, ["a"]).startswith("mapping: expected a dict from layers to modules")
    peepholes = {"a/rec/lstm_cell/kernel": numpy.ones((3, 8)), "a/rec/lstm_cell/bias": numpy.ones(8)}
    assert error(there, {**peepholes, "a/rec/lstm_cell/w_f_diag": one}, {"a": "x"}).endswith("w_f_diag'.")
    gru = {"a/rec/W": numpy.ones((2, 6)), "a/rec/W_re": numpy.ones((2, 6)), "a/rec/b": numpy.ones(6)}
    assert error(there, gru, {"a": "x"}).endswith("which are of no LSTM.")
    biased = {"x.qkv.weight": two, "x.qkv.bias": one}
    assert error(back, biased, {"a": "x"}).endswith("make the module with with_bias=False.")
