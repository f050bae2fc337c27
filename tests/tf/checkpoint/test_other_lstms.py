"""Checkpoints whose LSTMs had another unit."""

import itertools

import numpy
import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.log import log
from returnn.tf.checkpoint.average import write_checkpoint
from returnn.tf.checkpoint.earlier_names import by_names_of_today
from returnn.tf.checkpoint.files import CheckpointError
from returnn.tf.checkpoint.other_lstms import find_other_lstms
from returnn.tf.network import TFNetwork

UNITS = ("nativelstm2", "standardlstm", "basiclstm")
FRAMES = numpy.random.RandomState(1).normal(size=(2, 5, 4)).astype("float32")


def layer(unit):
    return {"output": {"class": "rec", "unit": unit, "n_out": 3, "from": "data"}}


def in_loop(unit):
    cell = {"class": "rec", "unit": unit, "n_out": 3, "from": ["data:source", "prev:output"]}
    if unit != "nativelstm2":
        cell = {**cell, "class": "rnn_cell", "unit": {"standardlstm": "StandardLSTM", "basiclstm": "BasicLSTM"}[unit]}
    return {"output": {"class": "rec", "from": "data", "unit": {"output": cell}}}


class Net:
    """A network and its session, within a context."""

    def __init__(self, net_dict):
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.net = TFNetwork(config=Config({"extern_data": {"data": {"dim": 4}}}), train_flag=False)
            self.net.construct_from_dict(net_dict)
            self.session = tf.compat.v1.Session(graph=self.graph)

    def __enter__(self):
        self.context = self.graph.as_default()
        self.context.__enter__()
        return self

    def __exit__(self, *exc):
        self.session.close()
        self.context.__exit__(*exc)

    def output(self):
        data = self.net.extern_data.data["data"]
        feed = {data.placeholder: FRAMES, data.get_sequence_lengths(): [5, 5]}
        output = self.net.get_default_output_layer().output.copy_as_batch_major()
        return self.session.run(output.placeholder, feed)


def values_of(net):
    random = numpy.random.RandomState(2)
    return {p.op.name: random.normal(size=p.shape.as_list()).astype("float32") for p in net.get_params_list()}


@pytest.mark.parametrize("make", [layer, in_loop])
@pytest.mark.parametrize(("old", "new"), list(itertools.permutations(UNITS, 2)))
def test_other_unit_computes_the_same(make, old, new, tmp_path, capsys):
    log.initialize(verbosity=[3])
    with Net(make(old)) as net:
        write_checkpoint(values_of(net.net), str(tmp_path / "net"))
        net.net.load_params_from_file(str(tmp_path / "net"), session=net.session)
        wanted = net.output()
    with Net(make(new)) as net:
        capsys.readouterr()
        net.net.load_params_from_file(str(tmp_path / "net"), session=net.session)
        said = capsys.readouterr().out
        assert "converted" in said
        assert "only in the checkpoint" not in said
        numpy.testing.assert_allclose(net.output(), wanted, rtol=1e-4, atol=1e-6)


CUDNN = "cudnn/params_canonical/rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell"
UNITS_OF_EARLIER_CELLS = (*UNITS, "lstmblock", "lstmblockfused")


def values_of_earlier_cell(scope, kernel="kernel", bias="bias", *, forget_bias_more=0.0):
    """:return: parameters as a checkpoint has them, and what a `standardlstm` with the same values computes"""
    with Net(layer("standardlstm")) as net:
        values = {name.rpartition("/")[2]: value for name, value in values_of(net.net).items()}
        for param in net.net.get_params_list():
            param.load(values[param.op.name.rpartition("/")[2]], net.session)
        wanted = net.output()
    more = numpy.repeat(numpy.array([0, 0, forget_bias_more, 0], "float32"), 3)  # gates i, j, f, o
    return {f"{scope}/{kernel}": values["kernel"], f"{scope}/{bias}": values["bias"] + more}, wanted


@pytest.mark.parametrize("unit", UNITS_OF_EARLIER_CELLS)
@pytest.mark.parametrize(
    ("scope", "params"),
    [
        ("rnn/lstm_cell", {}),
        ("rnn/basic_lstm_cell", {}),
        ("rnn/lstm_fused_cell", {}),
        ("lstm_fused_cell", {}),
        ("lstm_block_wrapper", {}),
        ("rnn/lstm_cell", {"kernel": "weights", "bias": "biases"}),
        ("basic_lstm_cell", {"kernel": "weights", "bias": "biases"}),
        (CUDNN, {"forget_bias_more": 1.0}),
    ],
)
def test_names_of_earlier_cells(scope, params, unit, tmp_path):
    values, wanted = values_of_earlier_cell(f"output/rec/{scope}", **params)
    write_checkpoint(values, str(tmp_path / "old"))
    with Net(layer(unit)) as net:
        net.net.load_params_from_file(str(tmp_path / "old"), session=net.session)
        numpy.testing.assert_allclose(net.output(), wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("unit", "cell"), [("gru", "gru_cell"), ("basicrnn", "basic_rnn_cell")])
@pytest.mark.parametrize("names", [("kernel", "bias"), ("weights", "biases")])
def test_earlier_names_of_other_cells(unit, cell, names, tmp_path):
    with Net(layer(unit)) as net:
        values = values_of(net.net)
        write_checkpoint(values, str(tmp_path / "net"))
        net.net.load_params_from_file(str(tmp_path / "net"), session=net.session)
        wanted = net.output()
    renamed = dict(zip(("kernel", "bias"), names, strict=True))
    old = {}
    for name, value in values.items():
        before, _, param = name.replace(f"rec/{cell}/", f"rec/rnn/{cell}/").rpartition("/")
        old[f"{before}/{renamed[param]}"] = value
    assert not set(old) & set(values)
    write_checkpoint(old, str(tmp_path / "old"))
    with Net(layer(unit)) as net:
        net.net.load_params_from_file(str(tmp_path / "old"), session=net.session)
        numpy.testing.assert_array_equal(net.output(), wanted)


def test_one_of_several_layers_of_cudnn_is_not_taken(tmp_path):
    values, _ = values_of_earlier_cell(f"output/rec/{CUDNN}")
    values |= {name.replace("cell_0", "cell_1"): value for name, value in values.items()}
    write_checkpoint(values, str(tmp_path / "old"))
    with Net(layer("nativelstm2")) as net, pytest.raises(CheckpointError, match="3 of 3 parameters are not in it"):
        net.net.load_params_from_file(str(tmp_path / "old"), session=net.session)


def test_names_of_today_go_first():
    names = {
        "a/rec/rnn/lstm_cell/kernel",
        "a/rec/lstm_cell/kernel",
        "rnn/my_cell/rec/W",
        "a/rec/rnn/gru_cell/gates/biases",
    }
    found = by_names_of_today(names)
    assert found == {name: name for name in names} | {"a/rec/gru_cell/gates/bias": "a/rec/rnn/gru_cell/gates/biases"}


def test_only_whole_lstms_are_converted(tmp_path):
    of_cudnn = [f"a/rec/CudnnRNNParamsToCanonical:{i}" for i in range(32)]
    missing = {"a/rec/W", "a/rec/W_re", "a/rec/b"}
    assert find_other_lstms(missing, of_cudnn[:16])
    assert not find_other_lstms(missing, of_cudnn)  # two layers, or two directions
    assert not find_other_lstms({"a/rec/W", "a/rec/W_re"}, {"a/rec/lstm_cell/kernel", "a/rec/lstm_cell/bias"})
    assert not find_other_lstms({"a/rec/W", "a/rec/W_re", "a/rec/b"}, {"a/rec/lstm_cell/kernel"})
    assert not find_other_lstms(
        {"a/rec/W", "a/rec/W_re", "a/rec/b"}, {"b/rec/lstm_cell/kernel", "b/rec/lstm_cell/bias"}
    )
    with Net(layer("nativelstm2")) as net:
        sizes = {"kernel": (4 + 5, 20), "bias": (20,)}
        values = {f"output/rec/lstm_cell/{key}": numpy.zeros(size, "float32") for key, size in sizes.items()}
        write_checkpoint(values, str(tmp_path / "net"))
        with pytest.raises(CheckpointError, match=r"(?s)'output/rec/W' has the shape.*'ignore_params'.*'output/rec/b'"):
            net.net.load_params_from_file(str(tmp_path / "net"), session=net.session)


def test_lstm_with_a_projection_is_not_converted(tmp_path):
    shapes = {"W": (4, 12), "W_re": (2, 12), "b": (12,)}
    values = {f"output/rec/{key}": numpy.zeros(shape, "float32") for key, shape in shapes.items()}
    write_checkpoint(values, str(tmp_path / "net"))
    with Net(layer("standardlstm")) as net, pytest.raises(CheckpointError, match=r"of no plain LSTM"):
        net.net.load_params_from_file(str(tmp_path / "net"), session=net.session)
