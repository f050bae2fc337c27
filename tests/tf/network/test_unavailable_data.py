"""Networks for inference: without targets, there are no layers that need them."""

import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.tf.graph_export import GraphMode, build_graph
from returnn.tf.layers.base import DataNotAvailableLayer
from returnn.tf.layers.structure.unavailable_data import TargetNotAvailable, require_available
from returnn.tf.network import ExternData, TFNetwork

EXTERN_DATA = {
    "data": {"dim": 6, "shape": (None, 6)},
    "classes": {"dim": 5, "shape": (None,), "sparse": True},
    "second": {"dim": 3, "shape": (None, 3)},
}
NETWORK = {
    "embedding": {"class": "linear", "from": "data:classes", "n_out": 4, "activation": None},
    "compared": {"class": "concat", "from": [("embedding", "F"), ("embedding", "F")], "is_output_layer": True},
    "cut": {"class": "split", "from": "compared", "size_splits": [6, 2]},
    "part": {"class": "copy", "from": "cut/1", "is_output_layer": True},
    "block": {
        "class": "subnetwork", "from": "compared", "is_output_layer": True,
        "subnetwork": {"output": {"class": "linear", "from": "data", "n_out": 3, "activation": None}},
    },
    "inner": {"class": "copy", "from": "block/output", "is_output_layer": True},
    "output": {"class": "softmax", "from": "data", "loss": "ce", "target": "classes"},
}  # fmt: skip
SEARCH = {
    "encoder": {"class": "reduce", "mode": "mean", "axis": "T", "from": "data"},
    "frames": {"class": "linear", "from": "data:second", "n_out": 4, "activation": "tanh"},
    "mean": {"class": "reduce", "mode": "mean", "axis": "T", "from": "frames"},
    "output": {"class": "rec", "from": [], "target": "classes", "max_seq_len": 3, "unit": {
        "label": {"class": "linear", "from": "prev:output", "n_out": 4, "activation": None},
        "embedded": {"class": "copy", "from": ["label", "base:encoder"]},
        "state": {"class": "linear", "from": "embedded", "n_out": 4, "activation": "tanh"},
        "probs": {"class": "softmax", "from": "state", "target": "classes", "loss": "ce"},
        "output": {"class": "choice", "from": "probs", "target": "classes", "beam_size": 2, "initial_output": 0},
        "end": {"class": "compare", "from": "output", "value": 0},
    }},
}  # fmt: skip


def config_of(network):
    return Config({"extern_data": EXTERN_DATA, "network": network, "behavior_version": 20})


def net_of(network):
    extern_data = ExternData()
    extern_data.init_from_config(config_of(network))
    extern_data.create_placeholders(with_targets=False)
    net = TFNetwork(config=config_of(network), extern_data=extern_data, train_flag=False, eval_flag=False)
    net.construct_from_dict(network)
    return net


def test_layers_without_their_data_say_what_they_would_look_like():
    with tf.Graph().as_default():
        net = net_of(NETWORK)
        for name, dim in {"data:classes": 5, "embedding": 4, "compared": 8, "part": 2, "block": 3, "inner": 3}.items():
            layer = net.get_layer(name)
            assert isinstance(layer, DataNotAvailableLayer)
            assert layer.output.placeholder is None
            assert not layer.output.available_for_inference
            assert layer.output.dim == dim
        assert net.get_layer("output").output.placeholder is not None
        assert [param.op.name for param in net.get_params_list()] == ["output/W", "output/b"]
        assert net.get_used_data_keys() == {"data"}


def test_sub_layers():
    with tf.Graph().as_default():
        cut = net_of(NETWORK).get_layer("cut")
        assert isinstance(cut.get_sub_layer("0"), DataNotAvailableLayer)
        assert cut.get_sub_layer("0").output.dim == 6
        assert cut.get_sub_layer("2") is None
        assert cut.represented_class.layer_class == "split"


@pytest.mark.parametrize("lstm", [
    {"class": "rec", "unit": "nativelstm2", "from": "embedding", "n_out": 3},
    {"class": "subnetwork", "from": "embedding", "subnetwork": {
        "output": {"class": "rec", "unit": "nativelstm2", "from": "data", "n_out": 3},
    }},
])  # fmt: skip
def test_hidden_states(lstm):
    network = {**NETWORK, "lstm": lstm, "state": {"class": "get_last_hidden_state", "from": "lstm", "n_out": 6}}
    network["state"]["is_output_layer"] = True
    network["next"] = {"class": "rec", "unit": "nativelstm2", "from": "data", "n_out": 3, "initial_state": "lstm"}
    network["next"]["is_output_layer"] = True
    with tf.Graph().as_default():
        net = net_of(network)
        for name, dim in {"lstm": 3, "state": 6, "next": 3}.items():
            layer = net.get_layer(name)
            assert isinstance(layer, DataNotAvailableLayer)
            assert layer.output.dim == dim
        assert not net.get_layer("state").output.have_time_axis()
        assert not net.get_layer("embedding").has_hidden_state()


def test_graph_for_inference_has_neither_targets_nor_what_needs_them():
    exported = build_graph(config_of(NETWORK), GraphMode())
    assert set(exported.outputs) == {"output", "output, lengths of axis 1"}
    assert [name for name in exported.inputs if "classes" in name] == []
    with_targets = build_graph(config_of(NETWORK), GraphMode(eval_flag=True))
    assert {"output", "compared", "part", "block", "inner", "loss output"} <= set(with_targets.outputs)


def test_output_that_needs_targets_has_them_as_inputs():
    network = {"output": {"class": "copy", "from": "data:classes"}, "other": {**NETWORK["output"], "target": None}}
    network["other"].update(n_out=3, is_output_layer=True, loss=None)
    exported = build_graph(config_of(network), GraphMode())
    assert {"classes", "data"} <= set(exported.inputs)
    assert {"output", "other"} <= set(exported.outputs)
    config = config_of(network)
    config.set("forward_output_layer", "other")
    exported = build_graph(config, GraphMode())
    assert "classes" not in exported.inputs
    assert "output" not in exported.outputs


WARNING = "the search needs 'classes', which is a target: it is an input of the graph"


def test_search_that_copies_the_target_has_it_as_input(caplog):
    network = {**SEARCH, "output": {"class": "copy", "from": "data:classes"}, "found": SEARCH["output"]}
    config = config_of(network)
    config.set("search_output_layer", ["output", "found"])
    assert "classes" in build_graph(config, GraphMode(search_flag=True)).inputs
    assert WARNING in caplog.text


def test_what_needs_targets_says_which():
    network = {"twice": {"class": "copy", "from": "data:classes"}, "output": {"class": "copy", "from": "twice"}}
    with tf.Graph().as_default(), pytest.raises(TargetNotAvailable) as info:
        require_available(net_of(network).get_layer("output"))
    assert info.value.keys == {"classes"}
    assert str(info.value) == (
        "layer 'output' (class 'copy'): needs 'data:classes', which is not there without targets.\n"
        "  If it is there, give this data the option 'available_for_inference': True in 'extern_data'."
    )


@pytest.mark.parametrize("choice", [{}, {"search": False}], ids=str)
def test_search_of_the_length_of_the_target_has_it_as_input(choice, caplog):
    unit = {**SEARCH["output"]["unit"], "output": {**SEARCH["output"]["unit"]["output"], **choice}}
    if not choice:
        unit.pop("end")
    loop = {**SEARCH["output"], "unit": unit, "max_seq_len": None}
    exported = build_graph(config_of({**SEARCH, "output": loop}), GraphMode(search_flag=True))
    assert {"data", "classes, lengths of axis 1"} <= set(exported.inputs)
    assert WARNING in caplog.text


def changed(unit=(), loop=(), **around):
    """:return: `SEARCH`, with other layers"""
    new = {**SEARCH, **around, "output": {**SEARCH["output"], "unit": {**SEARCH["output"]["unit"], **dict(unit)}}}
    new["output"].update(loop)
    return new


def linear(*sources, **options):
    return {"class": "linear", "from": list(sources), "n_out": 4, "activation": "tanh", **options}


NEED_SECOND = {  # network; whether it needs more than the lengths
    "inside of the loop": (changed({"state": linear("embedded", "base:mean")}), True),
    "before the loop": (changed({"moved": linear("base:mean"), "state": linear("embedded", "moved")}), True),
    "attention": (changed({
        "energy": {"class": "dot", "from": ["base:frames", "state"], "reduce": "F"},
        "weights": {"class": "softmax_over_spatial", "from": "energy"},
        "context": {"class": "generic_attention", "weights": "weights", "base": "base:frames"},
        "probs": {"class": "softmax", "from": ["state", "context"], "n_out": 5},
    }), True),
    "weights so far": (changed({
        "energy": {"class": "eval", "from": ["scores", "prev:sum"], "eval": "source(0) - source(1)"},
        "scores": {"class": "dot", "from": ["base:frames", "state"], "reduce": "F"},
        "weights": {"class": "softmax_over_spatial", "from": "energy"},
        "sum": {"class": "combine", "kind": "add", "from": ["prev:sum", "weights"]},
        "context": {"class": "generic_attention", "weights": "weights", "base": "base:frames"},
        "probs": {"class": "softmax", "from": ["state", "context"], "n_out": 5},
    }), True),
    "initial output": (changed({"state": linear("embedded", "prev:state", initial_output="base:mean")}), True),
    "initial state": (changed({"state": {
        "class": "rnn_cell", "unit": "standardlstm", "from": "embedded", "n_out": 4, "initial_state": "base:mean",
    }}), True),
    "data": (changed({
        "all": linear("base:data:second"),
        "state": linear("embedded", "one"),
        "one": {"class": "reduce", "mode": "max", "axis": "T", "from": "all"},
    }), True),
    "frames of the loop": (changed({"state": linear("embedded", "data:source")}, {"from": "frames"}), True),
    "its length": (changed(loop={"max_seq_len": "max_len_from('base:frames')"}), False),
    "subnetwork around": (changed({"state": linear("embedded", "base:sub")}, sub={
        "class": "subnetwork", "from": "encoder", "subnetwork": {"output": linear("data", "base:mean")},
    }), True),
    "subnetwork inside": (changed({"state": {
        "class": "subnetwork", "from": "embedded", "subnetwork": {"output": linear("data", "base:base:mean")},
    }}), True),
}  # fmt: skip


@pytest.mark.parametrize(("network", "needs_values"), NEED_SECOND.values(), ids=NEED_SECOND)
def test_inputs_of_a_search_are_all_data_that_it_needs(network, needs_values, caplog):
    exported = build_graph(config_of(network), GraphMode(search_flag=True))
    assert "second, lengths of axis 1" in exported.inputs
    assert ("second" in exported.inputs) == needs_values
    assert not any(name.startswith("classes") for name in exported.inputs)
    assert "target" not in caplog.text
