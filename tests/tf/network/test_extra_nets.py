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


@pytest.mark.parametrize("name", ["extra.search:output", "extra.no_search:other"])
def test_no_layer_has_the_name_of_one_in_an_extra_network(name):
    message = f"layer '{name}': no layer can be called so: .*{name.partition(':')[2]!r}.*\n.*plain name"
    with pytest.raises(ConfigError, match=message):
        ConfigNet(TEXT.replace('"risk"', f'"{name}"'))
