"""Losses and regularization of the two layers of a "cond"."""

import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Tensor
from returnn.tf.layers.linear.linear import LinearLayer
from returnn.util.errors import ConfigError
from tests.tf.layers.test_common_options import LINEAR, Net

tf1 = tf.compat.v1
LOSS = {**LINEAR, "loss": "as_is", "loss_scale": 0.5, "L2": 0.1, "loss_opts": {"use_normalized_loss": True}}
INSIDE = {"class": "subnetwork", "from": "data", "subnetwork": {"aux": LOSS, "output": {**LINEAR, "from": "aux"}}}
NO_LOSS = {**LINEAR, "name_scope": "plain"}


def results(net_dict):
    """:return: losses, total, constraints"""
    net = Net(net_dict, train_flag=True)
    with net.graph.as_default(), rf.backend_ctx("tf"):
        net.session.run(tf1.global_variables_initializer())
        for param in net.net.get_params_list():  # the same values whatever the graph looks like
            count = param.shape.num_elements()
            net.session.run(param.assign(tf.reshape(tf.sin(tf.range(count, dtype=tf.float32)), param.shape)))
        losses, total, constraints = net.net.get_losses_initialized(with_total=True)
        values = {name: loss.get_loss_value() for name, loss in losses.items()}
        names, tensors = list(values), [*values.values(), total, constraints]
        *values, total, constraints = net.run(*tensors)
    return dict(zip(names, values, strict=True)), total, constraints


def cond(value, true_layer, false_layer, source="data"):
    """:return: layers with a condition that is only known when it is computed"""
    no_dims = {"dims": (), "dtype": "bool"}
    is_true = {"class": "eval", "eval": f"tf.equal(tf.shape(source(0))[0] * 0, {int(not value)})"}
    is_true = {**is_true, "from": source, "out_type": lambda name, **_: Tensor(name, **no_dims)}
    branches = {"condition": "is_true", "true_layer": true_layer, "false_layer": false_layer}
    return {"is_true": is_true, "layer": {"class": "cond", "from": [], "is_output_layer": True, **branches}}


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(("layer", "name"), [(LOSS, "layer"), (INSIDE, "layer/aux")], ids=["layer", "inside"])
def test_losses_of_the_layer_that_is_computed(layer, name, is_first):
    layers = (layer, NO_LOSS) if is_first else (NO_LOSS, layer)
    losses, total, constraints = results(cond(is_first, *layers))
    expected = results({"layer": {**layer, "is_output_layer": True}})
    assert list(losses) == list(expected[0]) == [name]
    assert losses[name] == pytest.approx(expected[0][name], rel=1e-5)
    assert total == pytest.approx(expected[1], rel=1e-5)
    assert constraints == pytest.approx(expected[2], rel=1e-5)
    assert total != 0


def test_losses_of_the_layer_that_is_not_computed_are_zero():
    assert results(cond(False, LOSS, NO_LOSS)) == ({"layer": 0.0}, 0.0, 0.0)


@pytest.mark.parametrize("value", [True, False])
def test_losses_of_the_same_name_are_one(value):
    other = {**LOSS, "activation": "tanh"}
    expected = results({"layer": {**(LOSS if value else other), "is_output_layer": True}})
    losses, total, _ = results(cond(value, LOSS, other))
    assert losses == {"layer": pytest.approx(expected[0]["layer"], rel=1e-5)}
    assert total == pytest.approx(expected[1], rel=1e-5)


def test_losses_of_the_same_name_with_other_scales():
    with pytest.raises(ConfigError, match="the losses 'layer' of both layers need the same 'scale' and norm"):
        results(cond(True, LOSS, {**LOSS, "loss_scale": 2.0}))


def test_no_losses_inside_of_a_loop():
    layers = [{**LOSS, "from": "data:source"}, {**NO_LOSS, "from": "data:source"}]
    unit = {**cond(True, *layers, source="data:source"), "output": {"class": "copy", "from": "layer"}}
    with pytest.raises(ConfigError, match="cannot have losses or regularization inside of a loop"):
        Net({"output": {"class": "rec", "from": "data", "unit": unit}}, train_flag=True)


def test_parameters_of_the_same_name_in_other_scopes_are_all_there():
    net = Net(cond(True, LINEAR, NO_LOSS)).net
    names = ["layer/W", "layer/b", "plain/W", "plain/b"]
    assert sorted(param.op.name for param in net.get_params_list()) == names


class TwoLosses(LinearLayer):
    """Has more losses than its options say."""

    layer_class = "two_losses"

    def get_losses_initialized(self, reduce_func=None):
        return 2 * super().get_losses_initialized(reduce_func)


def test_losses_that_are_not_in_the_net_dict():
    with pytest.raises(ConfigError, match=r"it has 2 losses, its options only say 1\.\n  Inside of"):
        results(cond(True, {**LOSS, "class": TwoLosses}, NO_LOSS))
