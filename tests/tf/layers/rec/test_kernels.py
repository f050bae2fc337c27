"""Units that have a kernel: the same as their loops of TensorFlow, which run where nothing can be compiled."""

import numpy
import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.tf.frontend_low_level.kernels.native import get_operations
from returnn.tf.network import TFNetwork
from tests.tf.layers.rec.recurrent_net import RecurrentNet, sequences, weights_for

CASES = [
    ("nativelstm2", {"forget_bias": 1.0}),
    ("nativelstm", {}),
    ("nativelstmlowmem", {}),
    ("vanillalstm", {}),
    ("standardlstm", {}),
    ("standardlstm", {"use_peepholes": True, "forget_bias": 0.5}),
    ("basiclstm", {}),
    ("blocksparselstm", {"block_size": 2, "connectivity": 1}),
    ("gru", {}),
    ("rhn", {"depth": 3}),
    ("layernormvariantslstm", {}),
    ("layernormvariantslstm", {"cell_norm_in_output": False, "hidden_norm": True, "forget_bias": 1.0}),
    ("layernormvariantslstm", {"global_norm": False, "global_norm_joined": True, "with_concat": True}),
    ("layernormvariantslstm", {"global_norm": False, "per_gate_norm": True, "norm_shift": 0.1}),
    ("layernormvariantslstm", {"global_norm": False, "cell_norm": False}),
]
KERNELS = {"gru": "Gru", "rhn": "Rhn", "layernormvariantslstm": "LayerNormLstm"}  # of the others: the LSTM
WITHOUT_KERNEL = [
    ("standardlstm", {"cell_clip": 0.3}),
    ("standardlstm", {"activation": "relu"}),
    ("standardlstm", {"num_proj": 4}),
    ("zoneoutlstm", {"zoneout_factor_cell": 0.2}),
    ("gru", {"activation": "relu"}),
    ("layernormvariantslstm", {"activation": "relu"}),
]


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    if get_operations() is None:
        pytest.skip("there is no compiler")


def make_net(unit, opts, *, direction, **config):
    """:return: two layers, the second with the last state of the first one; and both parts of its last state"""
    layer = {"class": "rec", "unit": unit, "unit_opts": opts, "n_out": 4, "direction": direction}
    key = "c" if "lstm" in unit else "state"
    last = {"class": "get_last_hidden_state", "from": "second", "n_out": 4, "key": key}
    net_dict = {
        "first": {**layer, "from": "data", "initial_state": "var"},
        "second": {**layer, "from": "first", "initial_state": "first"},
        "last": last,
        "output": {"class": "combine", "kind": "add", "from": ["second", "last"]},
    }
    return RecurrentNet(net_dict, with_grads=True, **config)


def operations_of(net):
    return {op.type for op in net.graph.get_operations()}


@pytest.mark.parametrize(("unit", "opts"), CASES, ids=str)
@pytest.mark.parametrize("direction", [1, -1])
def test_kernel_is_the_loop(unit, opts, direction, monkeypatch):
    data, lengths = sequences()
    weights = weights_for(lengths, data.shape[1])
    by_kernel = make_net(unit, opts, direction=direction)
    monkeypatch.setenv("RETURNN_NATIVE", "0")
    by_loop = make_net(unit, opts, direction=direction)
    kernel = f"Returnn{KERNELS.get(unit, 'Lstm')}"
    assert f"{kernel}Grad" in operations_of(by_kernel)
    assert kernel not in operations_of(by_loop)
    assert ("ReturnnSparseProductGrad" in operations_of(by_kernel)) == ("sparse" in unit)
    results = [net.run(data, lengths, weights=weights) for net in (by_kernel, by_loop)]
    numpy.testing.assert_allclose(results[0].output, results[1].output, atol=1e-5, rtol=1e-5)
    assert results[0].grads.keys() == results[1].grads.keys()
    for name, grad in results[0].grads.items():
        numpy.testing.assert_allclose(grad, results[1].grads[name], atol=2e-5, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    ("unit", "opts"),
    [
        ("rhn", {"dropout": 0.5}),
        ("layernormvariantslstm", {"dropout_h": 0.5}),
        ("layernormvariantslstm", {"dropout": 0.5}),
    ],
    ids=str,
)
def test_dropout(unit, opts):
    """The kernel gets masks as the loop does: in training, entries are 0 or doubled, otherwise as they are."""
    net_dict = {"output": {"class": "rec", "unit": unit, "unit_opts": opts, "n_out": 4, "from": "data"}}
    data, lengths = sequences()
    outputs = [RecurrentNet(net_dict, train=train).run(data, lengths).output for train in (True, False)]
    assert numpy.isfinite(outputs[0]).all()
    assert numpy.abs(outputs[0] - outputs[1]).max() > 1e-3


@pytest.mark.parametrize(("unit", "opts"), WITHOUT_KERNEL, ids=str)
def test_options_that_the_kernel_does_not_know_take_the_loop(unit, opts):
    net_dict = {"output": {"class": "rec", "unit": unit, "unit_opts": opts, "n_out": 4, "from": "data"}}
    operations = operations_of(RecurrentNet(net_dict, with_grads=True))
    assert not any(name.startswith("Returnn") for name in operations)
    assert operations & {"While", "StatelessWhile"}


def test_half_precision_takes_the_loop():
    options = {"extern_data": {"data": {"dim": 3, "dtype": "float16"}}, "default_float_dtype": "float16"}
    net_dict = {"output": {"class": "rec", "unit": "nativelstm2", "n_out": 4, "from": "data"}}
    with tf.Graph().as_default() as graph:
        net = TFNetwork(config=Config({**options, "network": net_dict}), train_flag=True)
        net.construct_from_dict(net_dict)
        assert "ReturnnLstm" not in {op.type for op in graph.get_operations()}
