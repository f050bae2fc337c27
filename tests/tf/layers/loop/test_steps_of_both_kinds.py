"""Layers of a step that depend on a loop or a search in part: what one of their inputs lacks, it has for all."""

import numpy
import pytest

from tests.tf.layers.layer_net import LayerNet, batch_of


def linear(source, n_out=5, **options):
    return {"class": "linear", "activation": "tanh", "n_out": n_out, "from": source, **options}


def in_nested_loop(layer, *, move_out):
    """:return: a loop over the labels, and in it one over the frames of "data"; the layer sees both"""
    inner = {"z": layer, "output": linear(["z", "prev:output"], name_scope="/inner")}
    return {
        "embedding": linear("data:ids"),
        "loop": {
            "class": "rec", "from": "embedding", "optimize_move_layers_out": move_out, "name_scope": "/loop",
            "unit": {
                "s": linear(["data:source", "prev:s"], n_out=6),
                "x": {"class": "rec", "from": "base:data", "unit": inner},
                "output": {"class": "reduce", "mode": "max", "axis": "T", "from": "x"},
            },
        },
    }  # fmt: skip


@pytest.mark.parametrize("first", ["data:source", "base:s"])
def test_frames_of_two_loops_are_joined(first):
    second = {"data:source": "base:s", "base:s": "data:source"}[first]
    batch = batch_of(padding={"float32": 0.0, "int32": 0})
    values = []
    for move_out in (True, False):
        net = LayerNet(in_nested_loop(linear([first, second], name_scope="/z"), move_out=move_out), fetch=("loop",))
        values.append(net.run(batch)["loop"])
    numpy.testing.assert_allclose(*values, rtol=1e-4, atol=1e-5)


def decoder(layers, source):
    """:return: a search, in which there are some layers"""
    return {
        "mean": {"class": "reduce", "mode": "mean", "axis": "T", "from": "data"},
        "loop": {
            "class": "rec", "from": [], "target": "ids", "max_seq_len": 4,
            "unit": {
                "embedding": linear("prev:output", n_out=6),
                **layers,
                "scores": {"class": "softmax", "n_out": 5, "from": ["embedding", source], "is_output_layer": True},
                "output": {"class": "choice", "from": "scores", "target": "ids", "beam_size": 3, "initial_output": 0},
                "end": {"class": "compare", "from": "output", "value": 0},
            },
        },
        "best": {"class": "decide", "from": "loop"},
    }  # fmt: skip


MEAN_OF_BATCH = {
    "middle": {"class": "reduce", "mode": "mean", "axis": ["B", "F"], "from": "embedding"},
    "flag": {"class": "compare", "kind": "greater", "value": 0.0, "from": "middle"},
}


@pytest.mark.parametrize("loss", [None, "ce"])
def test_a_condition_can_be_about_all_hypotheses_and_one_layer_about_none(loss):
    branch = {"class": "softmax", "n_out": 5, "from": "embedding", "target": "ids", "loss": loss}
    layers = {
        **MEAN_OF_BATCH,
        "x": {
            "class": "cond", "from": [], "condition": "flag", "true_layer": branch,
            "false_layer": linear("base:mean"),
        },
    }  # fmt: skip
    net = LayerNet(decoder(layers, "x"), fetch=("best", "loop"), search_flag=True)
    values = net.run(batch_of(padding={"float32": 0.0, "int32": 0}))
    assert values["best"].shape[0] == 3
    assert values["loop"].shape[0] == 3 * 3  # the hypotheses are more of the batch, to the config
    assert not net.net.get_losses_initialized()[0]


@pytest.mark.parametrize("search", [False, True])
@pytest.mark.parametrize("move_out", [False, True])
def test_a_running_mean_is_over_frames_of_loops_and_hypotheses(search, move_out):
    layers = {"x": {"class": "accumulate_mean", "exp_average": 0.1, "from": "embedding"}}
    net = decoder(layers, "x")
    net["loop"]["optimize_move_layers_out"] = move_out
    layers = LayerNet(net, fetch=("loop",), search_flag=search, train_flag=True)
    (mean,) = (param for param in layers.net.get_params_list() if param.op.name == "loop/rec/x/mean_1")
    assert mean.shape.as_list() == [6]
    assert layers.run(batch_of(padding={"float32": 0.0, "int32": 0}))["loop"].ndim == 2


def test_parameters_of_a_search_are_those_of_the_training():
    layers = {"x": linear("embedding", batch_norm={"masked_time": False, "param_version": 1})}
    shapes = []
    for options in ({"train_flag": True}, {"search_flag": True}):
        net = decoder(layers, "x")
        net["loop"]["optimize_move_layers_out"] = False
        params = LayerNet(net, fetch=("loop",), **options).net.get_params_list()
        shapes.append({param.op.name: param.shape.as_list() for param in params})
    assert shapes[0] == shapes[1]


def test_batch_norm_of_hypotheses_can_be_trained():
    layers = {"x": linear(["embedding", "prev:x"], batch_norm={"masked_time": False})}
    net = LayerNet(decoder(layers, "x"), fetch=("loop",), search_flag=True, train_flag=True)
    params = {param.op.name: param for param in net.net.get_params_list()}
    mean = params["loop/rec/x/batch_norm/v2_mean"]
    assert not net.session.run(mean).any()
    with net.graph.as_default():
        net.fetches["updates"] = net.net.get_post_control_dependencies()
    net.run(batch_of(padding={"float32": 0.0, "int32": 0}))
    assert numpy.isfinite(net.session.run(mean)).all()
    assert net.session.run(mean).any()


def test_of_a_search_without_frames_nothing_is_known_of_the_frames_before():
    layers = {"x": {**linear("prev:embedding"), "is_output_layer": True}}
    net = decoder(layers, "embedding")
    net["loop"]["unit"]["embedding"] = linear("output", n_out=6)
    net["loop"]["unit"]["scores"] = {"class": "softmax", "n_out": 5, "from": "prev:embedding"}
    net["loop"]["unit"]["end"] = {"class": "compare", "kind": "greater_equal", "from": "output", "value": 0}
    values = LayerNet(net, fetch=("loop", "loop/x"), search_flag=True).run(
        batch_of(padding={"float32": 0.0, "int32": 0})
    )
    assert values["loop"].shape == (9, 0)
    assert values["loop/x"].shape == (9, 0, 5)
