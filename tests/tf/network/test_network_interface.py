"""What code outside of a config does with a network."""

import io

import numpy
import pytest
import tensorflow as tf

from returnn.log import wrap_log_streams
from returnn.tf.network import (
    DataNotFound,
    GetLayer,
    LayerNotFound,
    Subnetwork,
    TFNetworkParamsSerialized,
    help_on_tf_exception,
)
from tests.tf.network.old_config import ConfigNet

TEXT = """
extern_data = {"data": {"dim": 6}, "classes": {"dim": 5, "sparse": True}}
network = {
    "norm": {"class": "batch_norm", "from": "data"},
    "hidden": {"class": "linear", "activation": "tanh", "n_out": 4, "from": "norm", "L2": 0.1},
    "block": {"class": "subnetwork", "from": "hidden", "subnetwork": {
        "in": {"class": "linear", "activation": "relu", "n_out": 4, "from": "data"},
        "twice": {"class": "combine", "kind": "add", "from": ["in", "base:hidden"]},
        "output": {"class": "linear", "activation": None, "n_out": 4, "from": "twice"}}},
    "output": {"class": "softmax", "from": "block", "loss": "ce", "target": "classes"},
}
"""


@pytest.fixture
def net():
    net = ConfigNet(TEXT, train_flag=True)
    with net.graph.as_default():
        yield net


def test_parameters_from_one_network_to_another(net):
    serialized = net.net.get_params_serialized(net.session)
    assert set(serialized.values_dict) == {"norm", "hidden", "block", "output"}
    serialized.values_dict["output"]["b"] = numpy.arange(5.0)
    other = ConfigNet(TEXT)
    with other.graph.as_default():
        other.net.set_params_by_serialized(TFNetworkParamsSerialized(serialized.values_dict, 17), other.session)
        again = other.net.get_params_serialized(other.session)
    assert again.global_train_step == 17
    tf.nest.map_structure(numpy.testing.assert_array_equal, serialized.values_dict, again.values_dict)


def test_saving_and_loading_is_identity(net, tmp_path):
    before = net.net.get_param_values_dict(net.session)
    net.net.save_params_to_file(str(tmp_path / "model"), net.session)
    net.net.get_var_assigner(net.net.layers["output"].params["b"]).assign(numpy.ones(5), net.session)
    assert net.net.get_param_values_dict(net.session)["output"]["b"].tolist() == [1] * 5
    net.net.load_params_from_file(str(tmp_path / "model"), net.session)
    after = net.net.get_param_values_dict(net.session)
    tf.nest.map_structure(numpy.testing.assert_array_equal, before, after)


def test_an_assigner_is_made_once(net):
    param = net.net.layers["output"].params["b"]
    assert net.net.get_var_assigner(param) is net.net.get_var_assigner(param)


def test_which_parameters_are_trained(net):
    auxiliary = [param.op.name.split("/")[-1] for param in net.net.get_auxiliary_params()]
    assert len(auxiliary) == 2
    net.net.declare_train_params(hidden_layer_selection=["hidden"])
    assert {p.op.name.split("/")[0] for p in net.net.get_trainable_params()} == {"hidden", "output"}
    net.net.declare_train_params(hidden_layer_selection=["hidden"], with_output=False)
    assert {p.op.name.split("/")[0] for p in net.net.get_trainable_params()} == {"hidden"}
    net.net.declare_train_params(global_trainable=False)
    assert net.net.get_trainable_params() == []


def test_losses_and_constraints(net):
    losses, total, constraints = net.net.get_losses_initialized(with_total=True)
    assert list(losses) == ["output"]
    values = net.run([total, constraints, losses["output"].get_loss_value()])
    assert values[0] > 0
    weights = net.net.get_param_values_dict(net.session)["hidden"]
    assert values[1] == pytest.approx(0.1 * sum((value**2).sum() for value in weights.values()), rel=1e-5)
    assert net.net.get_used_targets() == {"classes"}


def test_what_a_step_computes(net):
    fetches = net.net.get_fetches_dict(should_train=True, should_eval=True, with_size=True)
    assert set(fetches) == {
        "size:data:0", "size:classes:0", "loss", "constraints",
        "cost:output", "error:output", "loss_norm_factor:output",
    }  # fmt: skip
    values = net.run(fetches)
    assert values["size:data:0"].tolist() == [7, 4, 5]
    assert 0 <= values["error:output"] <= 16
    assert net.net.get_fetches_dict() == {}


def test_lengths_of_targets_that_only_losses_use():
    net = ConfigNet(TEXT.replace('"from": "block"', '"from": "data", "n_out": 5'), eval_flag=True)
    with net.graph.as_default():
        assert "size:classes:0" in net.net.get_fetches_dict(should_eval=True, with_size=True)


def test_layers_of_a_subnetwork_one_by_one():
    net = ConfigNet(TEXT.replace('"from": "block"', '"from": "data"'))
    with net.graph.as_default():
        subnet = net.net.make_subnet("block", net.net.layers_desc["block"])
        assert isinstance(subnet, Subnetwork)
        assert subnet.have_layer("twice")
        assert not subnet.have_layer("trice")
        assert subnet.get_layer_class("in").layer_class == ("linear", "hidden", "forward")
        hidden = GetLayer(net.net)("hidden")
        twice = subnet.get_data("twice", GetLayer(net.net))
        assert hidden is net.net.layers["hidden"]
        assert subnet.layer is None
        whole = subnet.complete_construction_parent_subnet_layer()
        assert subnet.layer is whole
        assert subnet.construct_layer("twice").output.raw_tensor is twice.raw_tensor
        with pytest.raises(LayerNotFound, match=r"there is no layer 'block/twic'.\n  Did you mean 'twice'?"):
            subnet.get_layer_desc("twic")


def test_table_of_the_layers(net):
    stream = io.StringIO()
    with wrap_log_streams(stream):
        net.net.print_network_info("My network")
    text = stream.getvalue()
    assert text.startswith("My network layer topology:\n  extern data: data: [B, T|time")
    assert "layer 'block/in' (class 'linear') " in text
    assert text.endswith(f"number of parameters: {net.net.get_num_params()}\n")


def test_help_on_a_failed_operation(net):
    x = tf.constant([1.0, numpy.nan])
    out = tf.debugging.check_numerics(x, "wrong")
    feed = net.feed()
    with pytest.raises(tf.errors.InvalidArgumentError) as exc_info:
        net.session.run(out, feed)
    stream = io.StringIO()
    help_on_tf_exception(
        net.session, exc_info.value, out, feed, {"seq_tag": ["a"]}, extern_data=net.net.extern_data, file=stream
    )
    text = stream.getvalue()
    assert "(type CheckNumerics)" in text
    assert "shape (2,), float32, min nan, max nan, 1 not finite" in text
    assert "fed 'data': shape (3, 7, 6), float64" in text or "fed 'data': shape (3, 7, 6), float32" in text
    assert "seq_tag: ['a']" in text


def test_data_that_is_not_there_is_a_data_not_found(net):
    with pytest.raises(DataNotFound, match=r"there is no data 'classses'\.\n  Did you mean 'classes'\?"):
        net.net.get_extern_data("classses")
    with pytest.raises(DataNotFound, match="there is no data 'classses'"):
        net.net.get_layer("block").subnetwork.get_extern_data("classses")
    assert net.net.get_extern_data("seq_tag").dtype == "string"
