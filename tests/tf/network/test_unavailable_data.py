"""Networks for inference: without targets, there are no layers that need them."""

import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.tf.graph_export import GraphMode, build_graph
from returnn.tf.layers.base import DataNotAvailableLayer
from returnn.tf.network import ExternData, TFNetwork
from returnn.util.errors import ConfigError

EXTERN_DATA = {
    "data": {"dim": 6, "shape": (None, 6)},
    "classes": {"dim": 5, "shape": (None,), "sparse": True},
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


def test_output_that_needs_targets_is_an_error_in_search():
    network = {"output": {"class": "copy", "from": "data:classes"}}
    with pytest.raises(ConfigError) as info:
        build_graph(config_of(network), GraphMode(search_flag=True))
    assert str(info.value) == (
        "layer 'output' (class 'copy'): needs 'data:classes', which is not there without targets.\n"
        "  If it is there, give this data the option 'available_for_inference': True in 'extern_data'."
    )


def test_loop_that_needs_targets_is_an_error():
    unit = {"output": {"class": "linear", "from": "data:classes", "n_out": 3}}
    with pytest.raises(ConfigError) as info:
        build_graph(
            config_of({"output": {"class": "rec", "from": [], "target": "classes", "unit": unit}}),
            GraphMode(search_flag=True),
        )
    assert "layer 'output' (class 'rec'): the target 'classes' is not there without targets" in str(info.value)


def test_choice_that_takes_the_target_is_an_error_without_it():
    choice = {"class": "choice", "from": "prob", "beam_size": 2, "search": False, "target": "classes"}
    unit = {
        "output": {**choice, "initial_output": 0},
        "prob": {"class": "softmax", "from": "prev:output", "target": "classes"},
        "end": {"class": "compare", "from": "output", "value": 0},
    }
    network = {"output": {"class": "rec", "from": [], "target": "classes", "max_seq_len": 3, "unit": unit}}
    with pytest.raises(ConfigError) as info:
        build_graph(config_of(network), GraphMode(search_flag=True))
    assert "layer 'output' (class 'rec'): the target 'classes' is not there without targets" in str(info.value)
    assert "classes" in build_graph(config_of(network), GraphMode()).inputs
