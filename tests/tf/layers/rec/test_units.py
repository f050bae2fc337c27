import numpy
import pytest

from returnn.tf.layers.rec.units.registry import get_unit_class, unit_names
from tests.tf.layers.rec.recurrent_net import RecurrentNet, sequences, valid, weights_for

ALIASES = ("lstm", "lstme", "lstmp", "lstmblock", "lstmblockfused", "cudnnlstm")
VARIANTS = {
    "standardlstm": [{"use_peepholes": True, "cell_clip": 0.3}, {"num_proj": 4, "proj_clip": 0.2}],
    "layernormvariantslstm": [
        {"global_norm": False, "global_norm_joined": True, "forget_bias": 1.0},
        {"global_norm": False, "per_gate_norm": True, "cell_norm_in_output": False},
        {"global_norm": False, "with_concat": True, "hidden_norm": True, "cell_norm": False},
    ],
    "zoneoutlstm": [{"zoneout_factor_cell": 0.2, "zoneout_factor_output": 0.1}],
    "nativelstm2": [{"forget_bias": 1.0}],
    "blocksparselstm": [{"block_size": 2, "connectivity": 1}],
    "basicrnn": [{"activation": "relu"}],
    "rhn": [{"depth": 2}],
}
CASES = [(unit, {}) for unit in unit_names() if unit not in ALIASES]
CASES += [(unit, opts) for unit, many in VARIANTS.items() for opts in many]
all_units = pytest.mark.parametrize(("unit", "opts"), CASES, ids=str)


def one(unit, opts=None, **options):
    return {"output": {"class": "rec", "unit": unit, "unit_opts": opts or {}, "n_out": 4, "from": "data", **options}}


def assert_close(actual, expected, tol=1e-5, name=""):
    if isinstance(expected, dict):
        assert sorted(actual) == sorted(expected)
        for key in expected:
            assert_close(actual[key], expected[key], tol, key)
    else:
        numpy.testing.assert_allclose(actual, expected, rtol=tol, atol=tol, err_msg=name)


@all_units
def test_padding_does_not_matter_and_a_batch_is_its_sequences(unit, opts):
    data, lengths = sequences()
    weights = weights_for(lengths, data.shape[1])
    with_garbage = numpy.where(weights[..., :1] != 0, data, numpy.nan)
    net = RecurrentNet(one(unit, opts), with_grads=True)
    many = net.run(with_garbage, lengths, weights=weights)
    total = {}
    for b, n in enumerate(lengths):
        alone = net.run(data[b : b + 1, :n], lengths[b : b + 1], weights=weights[b : b + 1, :n])
        assert_close(many.output[b, :n], alone.output[0])
        assert_close(many.grads["data"][b, :n], alone.grads.pop("data")[0], tol=1e-4)
        total = {name: total.get(name, 0) + grad for name, grad in alone.grads.items()}
    many.grads.pop("data")
    assert_close(many.grads, total, tol=1e-4)


@all_units
def test_backward_is_forward_on_reversed_sequences_also_unrolled(unit, opts):
    data, lengths = sequences(n_batch=2, max_len=3)
    weights = weights_for(lengths, data.shape[1])
    order = numpy.stack([[n - 1 - t if t < n else t for t in range(data.shape[1])] for n in lengths])[..., None]
    in_reverse = [numpy.take_along_axis(x, order, axis=1) for x in (data, weights)]
    forward = RecurrentNet(one(unit, opts), with_grads=True).run(in_reverse[0], lengths, weights=in_reverse[1])
    expected = numpy.take_along_axis(forward.output, order, axis=1)
    forward.grads["data"] = numpy.take_along_axis(forward.grads["data"], order, axis=1)
    for options in ({}, {"unroll": True, "max_seq_len": 4}):
        net = RecurrentNet(one(unit, opts, direction=-1, **options), with_grads=True)
        backward = net.run(data, lengths, weights=weights)
        assert_close(valid(backward.output, lengths), valid(expected, lengths))
        assert_close(backward.grads, forward.grads, tol=1e-4)


@all_units
def test_single_steps_one_after_the_other_are_the_sequence(unit, opts):
    data, _ = sequences(n_batch=2, max_len=3)
    whole = RecurrentNet(one(unit, opts)).run(data, [3, 3])
    names = get_unit_class(unit).state_names
    if unit == "nativelstm":
        return  # a part of its state cannot be set from outside
    states = {name: {"class": "slice", "axis": "F", "slice_start": 4 * i, "slice_end": 4 * i + 4, "from": "data"}
              for i, name in enumerate(names)}  # fmt: skip
    frame = {"class": "slice", "axis": "F", "slice_start": 8, "from": "data"}
    net_dict = {
        **{f"{name}_in_time": layer for name, layer in states.items()},
        **{name: {"class": "reduce", "mode": "sum", "axis": "T", "from": f"{name}_in_time"} for name in names},
        "frame_in_time": frame,
        "frame": {"class": "reduce", "mode": "sum", "axis": "T", "from": "frame_in_time"},
        **one(unit, opts, initial_state={name: name for name in names}),
        "new": {"class": "get_last_hidden_state", "from": "output", "is_output_layer": True},
    }
    net_dict["output"]["from"] = "frame"
    net = RecurrentNet(net_dict, fetch=("output", "new"), n_in=8 + 3)
    state = numpy.zeros((2, 8), "float32")
    for t in range(3):
        step = net.run(numpy.concatenate([state[:, None], data[:, t : t + 1]], axis=-1), [1, 1])
        assert_close(step.output, whole.output[:, t])
        state[:, : 4 * len(names)] = step.out["new"]


@pytest.mark.parametrize("unit", ["nativelstm2", "gru", "layernormvariantslstm"])
def test_gradients_are_finite_differences(unit):
    data, lengths = sequences(n_batch=2, max_len=3)
    weights = weights_for(lengths, 3)
    net = RecurrentNet(one(unit), with_grads=True)
    params = dict(net.params)
    base = net.run(data, lengths, weights=weights)
    rnd, eps = numpy.random.RandomState(3), 1e-2
    for name, value in params.items():
        way = rnd.normal(size=value.shape).astype("float32")
        ends = []
        for sign in (1, -1):
            net.set_params({**params, name: value + sign * eps * way})
            ends.append(net.run(data, lengths, weights=weights).output)
        numeric = numpy.sum((ends[0] - ends[1]) * weights) / (2 * eps)
        assert_close(numpy.sum(base.grads[name] * way), numeric, tol=1e-2, name=name)


def test_batch_without_frames():
    net = RecurrentNet({
        **one("nativelstm2"),
        "last": {"class": "get_last_hidden_state", "from": "output", "is_output_layer": True},
    }, fetch=("output", "last"), with_grads=True)  # fmt: skip
    empty = net.run(numpy.zeros((2, 0, 3), "float32"), [0, 0], weights=numpy.zeros((2, 0, 4), "float32"))
    assert empty.output.shape == (2, 0, 4)
    assert_close(empty.out["last"], numpy.zeros((2, 8)))


def test_parameters_that_are_not_trainable():
    net = RecurrentNet(one("gru", {"trainable": False}))
    assert net.net.get_trainable_params() == []
