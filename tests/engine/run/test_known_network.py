"""What a network computes is compared with what it computed in the training of its model."""

import pytest

from returnn.engine.run.known_network import NetworkIdentity

DEFAULTS = {"activation": "identity", "strides": 1}
PARAMS = ["lstm0/rec/W", "lstm1/rec/W", "lstm1/rec/W/Adam", "output/W"]
NET = {
    "noise": {"class": "eval", "eval": "source(0) + noise", "from": "data"},
    "lstm0": {"class": "rec", "unit": "lstm", "from": "noise"},
    "lstm1": {"class": "rec", "unit": "lstm", "from": ["lstm0"]},
    "loop": {"class": "rec", "from": [], "unit": {"s": {"class": "linear", "activation": "tanh", "from": "prev:s"}}},
    "conv": {"class": "conv", "strides": (2, 2), "padding": "same", "from": "lstm1"},
    "output": {"class": "softmax", "from": "lstm1", "loss": "ce", "dropout": 0.1},
}


def default_of(layer_class, option):
    return DEFAULTS.get(option)


def identity(net=NET, *, epoch=None, version=30, **changes):
    return NetworkIdentity.of({**net, **changes}, epoch=epoch, behavior_version=version, default_of=default_of)


def found(*, params=PARAMS, **changes):
    return identity().differences(identity(**changes), params=params)


def layer(name, **options):
    return {name: {**NET[name], **options}}


def loop(**options):
    return layer("loop", unit={"s": {**NET["loop"]["unit"]["s"], **options}})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        layer("output", loss=None, dropout=0, activation="identity", beam_size=4),
        layer("output", **{"from": ["lstm1"]}),
        layer("conv", strides=2, padding="SAME"),
        layer("conv", padding=None),  # what holds then is not known
        layer("lstm0", unit="nativelstm2"),  # the same computation
        {**layer("lstm0", **{"from": "data"}), "noise": None},  # a layer without parameters
        layer("output", **{"class": "linear", "activation": "tanh"}),  # another layer
        loop(**{"from": "base:lstm1"}),
        {"auxiliary": {"class": "softmax", "from": "lstm0", "loss": "ctc"}},
    ],
    ids=str,
)
def test_what_a_search_may_change(changes):
    assert found(**changes) == []


def test_other_options():
    changes = {**layer("conv", strides=(2, 1)), **loop(activation="relu"), **layer("output", activation="tanh")}
    assert found(**changes) == [
        "layer 'conv' (class 'conv'): option 'strides': was 2, and is [2, 1]",
        "layer 'loop/s' (class 'linear'): option 'activation': was 'tanh', and is 'relu'",
        "layer 'output' (class 'softmax'): option 'activation': was 'identity', and is 'tanh'",
    ]


def test_layer_with_parameters_that_is_gone():
    output = layer("output", **{"from": "lstm0"})
    assert found(lstm1=None, **output) == [
        "layer 'output' (class 'softmax'): option 'from': was ['lstm1'], and is ['lstm0']. There is no layer 'lstm1' "
        "now, which has trained parameters"
    ]
    assert found(lstm1=None, params=["output/W"], **output) == []
    assert found(**output) == []  # it is still there, for something else


def test_other_defaults():
    assert found(version=21) == ["option 'behavior_version': was 30, and is 21"]


def test_networks_of_other_epochs_are_not_compared():
    one, other = identity(epoch=3), identity(epoch=4, **layer("output", activation="tanh"))
    assert one.differences(other, params=PARAMS) == []


def test_many_differences_are_counted():
    net = {f"layer{i}": {"class": "linear", "from": "data", "activation": "tanh"} for i in range(9)}
    others = {name: {**desc, "activation": "relu"} for name, desc in net.items()}
    texts = identity(net).differences(identity(others), params=PARAMS)
    assert texts[4].startswith("layer 'layer4'")
    assert texts[5:] == ["4 more differences"]
