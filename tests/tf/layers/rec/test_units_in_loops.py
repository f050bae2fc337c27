import numpy
import pytest

from returnn.tf.layers.rec.units import lstm_cells, native_lstm
from tests.tf.layers.rec.recurrent_net import RecurrentNet, sequences, valid, weights_for
from tests.tf.layers.rec.test_units import all_units, assert_close


def loop(unit, *, optimize=True, **options):
    step = {"class": "rec", "unit": unit, "n_out": 4, "from": "data:source", **options}
    subnet = {"s": step, "output": {"class": "copy", "from": "s"}}
    return {"output": {"class": "rec", "from": "data", "unit": subnet, "optimize_move_layers_out": optimize}}


@all_units
def test_inside_of_a_loop_is_over_all_frames(unit, opts):
    data, lengths = sequences(max_len=4)
    weights = weights_for(lengths, 4)
    train = unit != "zoneoutlstm"  # which is random in training
    results = [
        RecurrentNet(net_dict, with_grads=train, train=train).run(data, lengths, weights=weights)
        for net_dict in (loop(unit, unit_opts=opts, optimize=False), loop(unit, unit_opts=opts))
    ]
    assert_close(valid(results[0].output, lengths), valid(results[1].output, lengths))
    assert_close(results[0].grads, results[1].grads, tol=1e-4)


@pytest.mark.parametrize(("unit", "opts"), [("standardlstm", {"use_peepholes": True}), ("nativelstm2", {})])
def test_steps_by_kernel_are_those_by_operations(monkeypatch, unit, opts):
    data, lengths = sequences(max_len=4)
    results = []
    for by_kernel in (True, False):
        if not by_kernel:
            for module in (native_lstm, lstm_cells):
                monkeypatch.setattr(module, "is_in_loop", lambda: False)
        net = RecurrentNet(loop(unit, unit_opts=opts, optimize=False), with_grads=True, train=True)
        results.append(net.run(data, lengths, weights=weights_for(lengths, 4)))
    assert results[0].grads
    assert_close(results[0].output, results[1].output)
    assert_close(results[0].grads, results[1].grads, tol=1e-4)


@pytest.mark.parametrize("initial", ["var", "ones", {"c": 0.5, "h": "ones"}, {"c": "base:vec_c", "h": 0}], ids=str)
def test_initial_state_inside_of_a_loop(initial):
    data, lengths = sequences(max_len=4)
    vec = numpy.random.RandomState(1).normal(size=(3, 5)).astype("float32")
    results = []
    for optimize in (True, False):
        net_dict = loop("nativelstm2", initial_state=initial, optimize=optimize)
        net_dict["vec_c"] = {"class": "linear", "activation": None, "from": "data:vec", "n_out": 4}
        net = RecurrentNet(net_dict, with_grads=True, train=True)
        if initial == "var":
            assert {"output/rec/s/initial_c", "output/rec/s/initial_h"} < set(net.variables)
        results.append(net.run(data, lengths, vec=vec, weights=weights_for(lengths, 4)))
    assert_close(valid(results[0].output, lengths), valid(results[1].output, lengths))
    assert_close(results[0].grads, results[1].grads, tol=1e-4)


def test_names_of_initial_states_of_cells():
    step = {"class": "rnn_cell", "unit": "lstmblock", "n_out": 4, "from": "data:source", "initial_state": "var"}
    unit = {"s": step, "output": {"class": "copy", "from": "s"}}
    net = RecurrentNet({"output": {"class": "rec", "from": "data", "unit": unit}})
    assert {"output/rec/s/rec/initial_c", "output/rec/s/rec/initial_h"} < set(net.variables)


def test_previous_output_before_the_first_frame_is_the_initial_state():
    data, _ = sequences(n_batch=2, max_len=1)
    step = {"class": "rnn_cell", "unit": "lstmblock", "n_out": 4, "from": ["data:source", "prev:s"]}
    subnet = {
        "s": {**step, "initial_state": {"c": 0.0, "h": 0.7}},
        "output": {"class": "copy", "from": "prev:s"},
        "keep": {"class": "copy", "from": "s", "is_output_layer": True},
    }
    result = RecurrentNet({"output": {"class": "rec", "from": "data", "unit": subnet}}).run(data, [1, 1])
    numpy.testing.assert_allclose(result.output, 0.7)


@pytest.mark.parametrize(
    ("unit", "opts"), [("rhn", {"dropout": 0.5, "depth": 1}), ("layernormvariantslstm", {"dropout_h": 0.5})]
)
def test_what_is_dropped_is_the_same_for_all_frames(unit, opts):
    data = numpy.zeros((1, 40, 3), "float32")
    step = {"class": "rec", "unit": unit, "unit_opts": opts, "n_out": 4, "from": "data:source"}
    subnet = {"s": {**step, "initial_state": "ones"}, "output": {"class": "copy", "from": "s"}}
    net_dict = {"output": {"class": "rec", "from": "data", "unit": subnet, "optimize_move_layers_out": False}}
    net = RecurrentNet(net_dict, train=True)
    frames = net.run(data, [40]).output[0]
    numpy.testing.assert_allclose(frames[-1], frames[-2], atol=1e-3)  # a constant mask and input lead to a fixed point


def test_a_source_from_outside_is_the_same_in_each_frame():
    data, lengths = sequences(max_len=4)
    vec = numpy.random.RandomState(1).normal(size=(3, 5)).astype("float32")
    subnet = {
        "s": {"class": "rec", "unit": "gru", "n_out": 4, "from": "base:data:vec"},
        "output": {"class": "combine", "kind": "add", "from": ["s", "data:source"]},
    }
    results = []
    for optimize in (True, False):
        net_dict = {
            "x": {"class": "linear", "activation": None, "from": "data", "n_out": 4},
            "output": {"class": "rec", "from": "x", "unit": subnet, "optimize_move_layers_out": optimize},
        }
        results.append(RecurrentNet(net_dict).run(data, lengths, vec=vec))
    assert_close(valid(results[0].output, lengths), valid(results[1].output, lengths))


@pytest.mark.parametrize(("unit", "key"), [("lstmblock", "h"), ("gru", "*"), ("basicrnn", 0)])
def test_hidden_state_of_the_frame_before(unit, key):
    data, lengths = sequences(max_len=4)
    subnet = {
        "before": {"class": "get_last_hidden_state", "from": "prev:s", "key": key, "n_out": 4},
        "s": {"class": "rnn_cell", "unit": unit, "n_out": 4, "from": ["data:source", "before"]},
        "difference": {"class": "combine", "kind": "sub", "from": ["before", "prev:s"], "is_output_layer": True},
        "output": {"class": "copy", "from": "s"},
    }
    net_dict = {"output": {"class": "rec", "from": "data", "unit": subnet}}
    net = RecurrentNet(net_dict, fetch=("output", "output/difference"))
    result = net.run(data, lengths)
    numpy.testing.assert_array_equal(valid(result.out["output/difference"], lengths), 0.0)
    assert numpy.abs(result.output).max() > 0


@pytest.mark.parametrize("source", ["data:source", "prev:output"])
@pytest.mark.parametrize("name", ["s", "prev:s"])
def test_hidden_state_is_the_same_wherever_it_is_computed(source, name):
    data, lengths = sequences(max_len=4, n_in=4)
    subnet = {
        "s": {"class": "rec", "unit": "nativelstm2", "n_out": 4, "from": source, "initial_state": {"c": 0.3, "h": 0.1}},
        "c": {"class": "get_last_hidden_state", "from": name, "key": "c", "is_output_layer": True},
        "output": {"class": "combine", "kind": "add", "from": ["s", "data:source"]},
    }
    results = []
    for optimize in (True, False):
        net_dict = {"output": {"class": "rec", "from": "data", "unit": subnet, "optimize_move_layers_out": optimize}}
        net = RecurrentNet(net_dict, fetch=("output/c", "output"), n_in=4, with_grads=True, train=True)
        results.append(net.run(data, lengths, weights=weights_for(lengths, 4)))
    for fetched in ("output/c", "output"):
        assert_close(*(valid(result.out[fetched], lengths) for result in results))
    assert_close(results[0].grads, results[1].grads, tol=1e-4)
    if name == "prev:s":
        numpy.testing.assert_allclose(results[0].out["output/c"][:, 0], 0.3)
