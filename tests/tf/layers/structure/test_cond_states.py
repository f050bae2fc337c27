"""What layers in the branches of a condition keep from frame to frame of a loop."""

from __future__ import annotations

import numpy
import pytest

from returnn.util.errors import ConfigError
from tests.tf.layers.rec.recurrent_net import RecurrentNet

EVEN = {
    "class": "eval",
    "from": ":i",
    "eval": "tf.equal(tf.math.floormod(source(0), 2), 0)",
    "out_type": {"dtype": "bool"},
}
OTHER = {"class": "linear", "n_out": 4, "from": "data:source", "activation": "tanh"}
DATA = numpy.random.RandomState(1).normal(size=(2, 6, 3)).astype("float32")
LENGTHS = (6, 4)


def in_loop(true_layer, false_layer=None):
    output = {"class": "cond", "condition": "even", "true_layer": true_layer, "false_layer": false_layer or OTHER}
    return {"output": {"class": "rec", "from": "data", "unit": {"even": EVEN, "output": output}}}


def summing(name, layer):
    """:return: the sum of all sources so far, in a subnetwork; `layer` is made of them"""
    inner = {"class": "combine", "kind": "add", "from": ["data", f"prev:{name}"], "n_out": 3}
    return {"class": "subnetwork", "from": "data:source", "subnetwork": {name: inner, "output": layer}}


def test_a_state_goes_on_in_the_frames_that_compute_its_layer():
    cell = {"class": "rnn_cell", "unit": "basicrnn", "n_out": 4, "from": "data:source"}
    found = RecurrentNet(in_loop(cell)).run(DATA, LENGTHS)
    kernel, bias = (next(x for name, x in found.params.items() if name.endswith(end)) for end in ("/kernel", "/bias"))
    state = numpy.zeros((2, 4))
    for t in range(0, 6, 2):
        state = numpy.tanh(numpy.concatenate([DATA[:, t], state], axis=1) @ kernel + bias)
        numpy.testing.assert_allclose(found.output[0, t], state[0], rtol=1e-5, atol=1e-6)
        if t < 4:
            numpy.testing.assert_allclose(found.output[1, t], state[1], rtol=1e-5, atol=1e-6)


def test_the_frame_before_of_a_layer_inside_is_the_last_one_that_was_computed():
    net = in_loop(
        summing("even_sum", {"class": "copy", "from": "even_sum"}),
        summing("odd_sum", {"class": "copy", "from": "odd_sum"}),
    )
    found = RecurrentNet(net).run(DATA, (6, 6)).output
    for first in (0, 1):
        numpy.testing.assert_allclose(found[:, first::2], numpy.cumsum(DATA[:, first::2], axis=1), rtol=1e-5, atol=1e-5)


def test_a_branch_can_be_what_there_was_before():
    net = in_loop({**OTHER, "from": ["data:source", "prev:output"]}, {"class": "copy", "from": "prev:output"})
    found = RecurrentNet(net).run(DATA, (6, 6)).output
    numpy.testing.assert_array_equal(found[:, 1::2], found[:, 0::2])
    assert numpy.abs(found[:, 2] - found[:, 0]).max() > 1e-3


@pytest.mark.parametrize("past", [{"class": "copy", "from": "prev:output"}, "prev:output"], ids=["dict", "name"])
@pytest.mark.parametrize("is_first", [False, True])
def test_what_there_was_before_looks_like_the_other_branch(past, is_first):
    new = {"class": "activation", "activation": "tanh", "from": "data:source"}
    found = RecurrentNet(in_loop(*((past, new) if is_first else (new, past)))).run(DATA, (6, 6)).output
    for t in range(6):
        last = t - t % 2 if not is_first else t - (t + 1) % 2
        expected = numpy.tanh(DATA[:, last]) if last >= 0 else numpy.zeros((2, 3))
        numpy.testing.assert_allclose(found[:, t], expected, rtol=1e-5, atol=1e-6)


def test_layers_of_both_branches_that_know_the_frame_before_need_different_names():
    both = summing("c", {"class": "copy", "from": "c"})
    with pytest.raises(ConfigError, match="both layers have a layer 'c' inside, which knows the frame before"):
        RecurrentNet(in_loop(both, both))


def test_a_condition_with_a_state_as_unit_of_a_mask():
    """The state goes on in frames where mask and condition are true."""
    cell = {"class": "rnn_cell", "unit": "basicrnn", "n_out": 4, "from": "data"}
    unit = {"class": "cond", "condition": "base:even", "true_layer": cell, "false_layer": {**OTHER, "from": "data"}}
    mean = {"class": "reduce", "mode": "mean", "axis": "F", "from": "data:source"}
    layers = {
        "even": EVEN,
        "mean": mean,
        "mask": {"class": "compare", "from": "mean", "kind": "greater", "value": 0.0},
        "output": {"class": "masked_computation", "mask": "mask", "from": "data:source", "unit": unit},
    }
    net = {"output": {"class": "rec", "from": "data", "unit": layers}}
    found = RecurrentNet(net, optimize_move_layers_out=False).run(DATA, (6, 6))
    kernel, bias = (next(x for name, x in found.params.items() if name.endswith(end)) for end in ("/kernel", "/bias"))
    params = {name.rpartition("/")[2]: value for name, value in found.params.items()}
    for b in range(2):
        state, wanted = numpy.zeros(4), numpy.zeros(4)
        for t in range(6):
            if DATA[b, t].mean() > 0:
                if t % 2 == 0:
                    state = wanted = numpy.tanh(numpy.concatenate([DATA[b, t], state]) @ kernel + bias)
                else:
                    wanted = numpy.tanh(DATA[b, t] @ params["W"] + params["b"])
            numpy.testing.assert_allclose(found.output[b, t], wanted, rtol=1e-5, atol=1e-6)
