"""Targets of losses inside of layers in a loop: one label for each frame, although their time dim is another one."""

import numpy
import pytest

from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of

BATCH = batch_of(padding={"float32": 0.0, "int32": 0})
LABELS = {"class": "softmax", "n_out": 5, "loss": "ce", "target": "ids", "forward_weights_init": 0.1}


def layers_around(kind):
    """:return: a layer with a loss in a condition that holds, or in a mask"""
    if kind == "cond":
        largest = {"class": "reduce", "mode": "max", "axes": ["B", "T"], "from": "base:data:ids"}
        flag = {"class": "compare", "from": "largest", "kind": "less", "value": 100}
        yes, no = {**LABELS, "from": "data:source"}, {"class": "linear", "n_out": 5, "from": "data:source"}
        x = {"class": "cond", "condition": "flag", "from": [], "true_layer": yes, "false_layer": no}
        return {"largest": largest, "flag": flag, "x": x}
    mean = {"class": "reduce", "mode": "mean", "axis": "F", "from": "data:source"}
    mask = {"class": "compare", "from": "mean", "kind": "greater", "value": 0.0}
    x = {"class": "masked_computation", "mask": "mask", "from": "data:source", "unit": {**LABELS, "from": "data"}}
    return {"mean": mean, "mask": mask, "x": {**x, "is_output_layer": True}}


TARGETS = {  # as the time step says them; the labels have a time dim of their own
    "data": ("ids", {}),
    "layer around": ("layer:base:labels", {}),
    "copy of a layer around": ("layer:t", {"t": {"class": "copy", "from": "base:labels"}}),
    "copy of data": ("layer:t", {"t": {"class": "copy", "from": "base:data:ids"}}),
}


@pytest.mark.parametrize("kind", ["plain", "cond"])
@pytest.mark.parametrize("move", [True, False])
@pytest.mark.parametrize("target", TARGETS)
def test_sequence_in_each_frame_has_one_label_for_it(target, move, kind):
    key, unit = TARGETS[target]
    if kind == "plain":
        unit = {**unit, "x": {**LABELS, "from": "data:source"}}
        unit["x"]["target"] = key
    else:
        unit = {**unit, **layers_around(kind)}
        unit["x"]["true_layer"]["target"] = key
    unit["output"] = {"class": "copy", "from": "x"}
    loop = {"class": "rec", "from": "data", "optimize_move_layers_out": move, "unit": unit}
    loss, expected = loss_in_loop({"labels": {"class": "copy", "from": "data:ids"}, "loop": loop})
    numpy.testing.assert_allclose(loss, expected[frames_that_count(kind)].sum(), rtol=1e-4)


def test_sequence_as_target_of_a_layer_without_frames_is_an_error():
    mean = {"class": "reduce", "mode": "mean", "axis": "T", "from": "data"}
    with pytest.raises(ConfigError, match="has sequences over"):
        loss_in_loop({"loop": mean, "x": {**LABELS, "from": "loop"}})


def frames_that_count(kind):
    """:return: [B, T], bool"""
    valid = numpy.arange(5)[None] < numpy.array(LENGTHS)[:, None]
    return valid & (BATCH["data"].mean(-1) > 0) if kind == "mask" else valid


@pytest.mark.parametrize("kind", ["cond", "mask"])
@pytest.mark.parametrize("move", [True, False])
def test_each_frame_is_compared_with_its_label(kind, move):
    unit = {**layers_around(kind), "output": {"class": "copy", "from": "data:source"}}
    loop = {"class": "rec", "from": "data", "optimize_move_layers_out": move, "unit": unit}
    if kind == "cond":
        unit["output"]["from"] = "x"
    loss, expected = loss_in_loop({"loop": loop})
    numpy.testing.assert_allclose(loss, expected[frames_that_count(kind)].sum(), rtol=1e-4)


@pytest.mark.parametrize("num_subnets", [1, 2])
@pytest.mark.parametrize("move", [True, False])
def test_labels_that_a_mask_leaves_are_those_of_networks_inside_of_it(move, num_subnets):
    """The source of such a network is not: "data" is its own, or, without one, what it is outside."""
    unit = layers_around("mask")
    inside = {**LABELS, "from": "data"}
    for name in ["x", "y"][:num_subnets]:
        layers = {name: inside, "output": {"class": "copy", "from": name}}
        inside = {"class": "subnetwork", "from": "data", "subnetwork": layers}
    unit = {**unit, "x": {**unit["x"], "unit": inside}, "output": {"class": "copy", "from": "data:source"}}
    loss, expected = loss_in_loop(
        {"loop": {"class": "rec", "from": "data", "optimize_move_layers_out": move, "unit": unit}}
    )
    numpy.testing.assert_allclose(loss, expected[frames_that_count("mask")].sum(), rtol=1e-4)


def loss_in_loop(net_dict):
    """:return: the loss of the network, and what it is in each frame, whether it counts or not: [B, T]"""
    net = LayerNet(net_dict, fetch=("loop",), train_flag=True)
    with net.graph.as_default():
        net.fetches = net.net.get_objective()
        (weights,) = [param for param in net.net.get_params_list() if param.shape == (6, 5) and "x/W" in param.op.name]
        values = numpy.random.RandomState(3).normal(size=(6, 5))
        net.session.run(weights.assign(values))
    logits = BATCH["data"] @ values
    scores = logits - numpy.log(numpy.exp(logits).sum(-1, keepdims=True))
    of_labels = numpy.take_along_axis(scores, BATCH["ids"][..., None], axis=-1)[..., 0]
    return net.run(BATCH), -of_labels
