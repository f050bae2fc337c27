import numpy
import pytest

from returnn.tf.network.extra_nets import depends_on_choice
from returnn.util.errors import ConfigError
from tests.tf.network.old_config import ConfigNet

TEXT = """
extern_data = {"data": {"dim": 6}, "classes": {"dim": 5, "sparse": True}}
network = {
    "encoder": {"class": "linear", "activation": "tanh", "n_out": 4, "dropout": 0.3, "from": "data"},
    "summary": {"class": "reduce", "mode": "mean", "axis": "T", "from": "encoder"},
    "output": {"class": "rec", "from": [], "target": "classes", "max_seq_len": "max_len_from('base:encoder')", "unit": {
        "embedding": {"class": "linear", "activation": None, "n_out": 3, "from": "prev:output", "initial_output": 0},
        "s": {"class": "rnn_cell", "unit": "LSTMBlock", "n_out": 4, "from": ["embedding", "base:summary"]},
        "prob": {"class": "softmax", "from": "s", "loss": "ce", "target": "classes"},
        "output": {"class": "choice", "from": "prob", "beam_size": 3, "target": "classes", "initial_output": 0},
        "end": {"class": "compare", "from": "output", "value": 0}}},
    "risk": {"class": "copy", "from": "extra.search:output", "target": "classes", "loss": "expected_loss",
        "loss_opts": {"loss_kind": "error", "loss": {"class": "edit_distance"}}},
}
"""


@pytest.fixture(scope="module")
def net():
    return ConfigNet(TEXT, train_flag=True, with_loss=True)


def test_minimum_bayes_risk_training_beside_cross_entropy(net):
    assert sorted(net.net.get_losses_initialized()[0]) == ["output/prob", "risk"]
    hypotheses, labels = net.run(["extra.search:output", "output"])
    assert (len(hypotheses), len(labels)) == (9, 3)
    gradients = net.run(net.gradients)
    with net.graph.as_default():
        assert len(gradients) == len(net.net.get_trainable_params())
    assert all(numpy.isfinite(gradient).all() for gradient in gradients)


def test_parameters_are_those_of_the_network(net):
    extra = net.net.extra_nets["extra.search"]
    assert extra.search_flag
    assert not net.net.search_flag
    assert extra.get_layer("encoder") is net.net.get_layer("encoder")
    assert extra.get_layer("output") is not net.net.get_layer("output")
    own, other = ({p.op.name for p in n.get_params_list()} for n in (net.net, extra))
    assert other <= own
    assert "output/rec/prob/W" in other


def test_extra_network_by_function():
    net = ConfigNet(TEXT.replace('"risk"', '"#risk"'))
    with net.graph.as_default():
        extra = net.net.construct_extra_net(net.config.typed_dict["network"], ["output"], search_flag=True)
        again = net.net.make_extra_net("extra.search")
    assert extra is again
    assert list(net.net.extra_nets) == ["extra.search"]


def test_what_depends_on_a_choice():
    net_dict = {
        "a": {"class": "linear", "from": "data"},
        "loop": {"class": "rec", "unit": {"output": {"class": "choice"}}, "from": "a"},
        "after": {"class": "eval", "from": ["loop/s"]},
        "target": {"class": "softmax", "target": "layer:after"},
        "b": {"class": "copy", "from": "target"},
    }
    found = [name for name in net_dict if depends_on_choice(name, net_dict)]
    assert found == ["loop", "after", "target", "b"]


def extra_entry(name, **options):
    """:return: the config with an entry for a layer of an extra network"""
    return TEXT.rstrip().removesuffix("}") + f"    {name!r}: {options!r},\n}}\n"


def test_layer_with_options_of_its_own_in_an_extra_network():
    options = {"class": "reduce", "mode": "max", "axis": "T", "from": "encoder"}
    net = ConfigNet(extra_entry("extra.search:summary", **options), train_flag=False, with_loss=True)
    mean, largest = net.run(["summary", "extra.search:summary"])
    assert (mean < largest).all()
    extra = net.net.extra_nets["extra.search"]
    assert extra.get_layer("encoder") is net.net.get_layer("encoder")
    assert extra.layers["output"] is not net.net.layers["output"]
    assert {p.op.name for p in extra.get_params_list()} <= {p.op.name for p in net.net.get_params_list()}


@pytest.mark.parametrize("user", [None, {"class": "copy", "from": "extra.search:best", "is_output_layer": True}])
def test_layer_that_only_an_extra_network_has(user):
    text = extra_entry("extra.search:best", **{"class": "decide", "from": "output", "is_output_layer": user is None})
    if user is not None:
        text = text.replace("    'extra.", f"    'user': {user!r},\n    'extra.")
    net = ConfigNet(text, with_loss=True, train_flag=True)
    assert "best" in net.net.extra_nets["extra.search"].layers
    assert "best" not in net.net.layers


def test_loss_of_a_layer_of_an_extra_network():
    with pytest.raises(
        ConfigError, match=r"layer 'extra.search:best': option 'loss': .*\n.*'from': 'extra.search:best'"
    ):
        ConfigNet(extra_entry("extra.search:best", **{"class": "decide", "from": "output", "loss": "edit_distance"}))
