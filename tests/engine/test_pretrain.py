import pytest

from returnn.config import Config
from returnn.engine.pretrain import (
    Pretrain,
    WrapEpochValue,
    pretrain_from_config,
    resolve_epoch_values,
)
from returnn.util.errors import ConfigError

NET = {
    "in": {"class": "linear", "from": "data"},
    "h1": {"class": "linear", "from": ["in"]},
    "h2": {"class": "linear", "from": "h1"},
    "output": {"class": "softmax", "from": ["h2"]},
}


def _layers(net):
    return {name: layer.get("from") for name, layer in net.items()}


def test_from_output_adds_the_layers_at_the_output():
    pretrain = Pretrain(NET)
    assert pretrain.get_train_num_epochs() == 3
    assert _layers(pretrain.get_network_json_for_epoch(1)) == {"in": "data", "output": ["in"]}
    assert _layers(pretrain.get_network_json_for_epoch(2)) == {"in": "data", "h1": ["in"], "output": ["h1"]}
    for epoch in (3, 4, 100):
        assert pretrain.get_network_json_for_epoch(epoch) == NET
    assert pretrain.get_final_network_json() == NET


def test_from_input_adds_the_layers_at_the_input():
    pretrain = Pretrain(NET, construction_algo="from_input")
    assert _layers(pretrain.get_network_json_for_epoch(1)) == {"h2": ["data"], "output": ["h2"]}
    assert _layers(pretrain.get_network_json_for_epoch(2)) == {"h1": ["data"], "h2": "h1", "output": ["h2"]}
    assert pretrain.get_network_json_for_epoch(3) == NET


def test_layers_that_are_mentioned_elsewhere_stay():
    net = {**NET, "output": {"class": "rec", "from": "h2", "unit": {"att": {"class": "att", "base": "base:h1"}}}}
    first = Pretrain(net).get_network_json_for_epoch(1)
    assert _layers(first) == {"in": "data", "h1": ["in"], "output": ["in"]}


def test_two_directions_and_the_original_is_not_changed():
    net = {
        "fw0": {"from": "data"}, "bw0": {"from": "data"},
        "fw1": {"from": ["fw0", "bw0"]}, "bw1": {"from": ["fw0", "bw0"]},
        "output": {"from": ["fw1", "bw1"]},
    }  # fmt: skip
    first = Pretrain(net).get_network_json_for_epoch(1)
    assert _layers(first) == {"fw0": "data", "bw0": "data", "output": ["fw0", "bw0"]}
    assert net["output"] == {"from": ["fw1", "bw1"]}


@pytest.mark.parametrize(
    ("repetitions", "expected"),
    [
        (None, [1, 1, 1]),
        (2, [2, 2, 2]),
        ([3, 1], [3, 1, 1]),
        ({"default": 2, "final": 5}, [2, 2, 5]),
        ({"default": 2, 0: 4}, [4, 2, 2]),
    ],
)
def test_repetitions(repetitions, expected):
    pretrain = Pretrain(NET, repetitions=repetitions)
    assert pretrain.repetitions == expected
    sizes = [len(pretrain.get_network_json_for_epoch(epoch)) for epoch in range(1, sum(expected) + 1)]
    assert sizes == [size for size, times in zip([2, 3, 4], expected, strict=True) for _ in range(times)]


def test_custom_construction():
    def algo(idx, net):
        if idx >= 2:
            return None
        net["output"]["n_out"] = idx
        net["#repetition"] = idx + 1
        return net

    pretrain = Pretrain(NET, construction_algo=algo)
    assert pretrain.repetitions == [1, 2, 1]
    assert [pretrain.get_network_json_for_epoch(epoch)["output"]["n_out"] for epoch in (1, 2, 3)] == [0, 1, 1]
    for epoch in (4, 5):
        assert pretrain.get_network_json_for_epoch(epoch) == NET
    assert pretrain.get_final_network_json() == NET


def test_greedy_trains_only_what_is_new():
    pretrain = Pretrain(NET, greedy=True)
    assert pretrain.get_train_param_args_for_epoch(1) == {}
    assert pretrain.get_train_param_args_for_epoch(2) == {"layers": ["h1", "output"]}
    assert pretrain.get_network_json_for_epoch(2)["in"]["trainable"] is False
    assert "trainable" not in pretrain.get_network_json_for_epoch(2)["h1"]
    assert pretrain.get_network_json_for_epoch(4) == NET


def test_values_by_epoch():
    dim = object()
    net = {"output": {"dropout": WrapEpochValue(lambda epoch: epoch * 0.1), "unit": {"x": [dim, WrapEpochValue(str)]}}}
    resolved = resolve_epoch_values(net, 2)
    assert resolved == {"output": {"dropout": 0.2, "unit": {"x": [dim, "2"]}}}
    assert resolved["output"]["unit"]["x"][0] is dim
    pretrain = Pretrain(net, construction_algo="no_network_modifications", repetitions=3)
    assert pretrain.get_network_json_for_epoch(7)["output"]["dropout"] == pytest.approx(0.7)


def test_from_config():
    assert pretrain_from_config(Config({"network": NET})) is None
    assert pretrain_from_config(Config({"network": NET, "pretrain": "default"})).repetitions == [1, 1, 1]
    config = Config({"network": NET, "pretrain": {"repetitions": 2, "construction_algo": "from_input"}})
    assert pretrain_from_config(config).repetitions == [2, 2, 2]
    config = Config({"network": NET, "pretrain": True, "pretrain_greedy": True, "pretrain_copy_output_layer": False})
    config.add_line("pretrain_repetitions", "1,2-3")
    pretrain = pretrain_from_config(config)
    assert pretrain.greedy
    assert pretrain.copy_output_layer is False
    assert pretrain.repetitions == [1, 2, 3]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("defualt", "option 'pretrain': got 'defualt', but expected a dict, True, False or 'default'."),
        ({"repetition": 1}, "option 'pretrain': there is no option 'repetition'.\n  Did you mean 'repetitions'?"),
        (
            {"construction_algo": "from_inputs"},
            "option 'pretrain': there is no construction algorithm 'from_inputs'.\n  Did you mean 'from_input' or ",
        ),
        ({"repetitions": "x"}, "option 'pretrain': the repetitions of step 0 are 'x'.\n  Possible: a number of epochs"),
        ({"repetitions": {"default": 1, "final": -1}}, "option 'pretrain': the repetitions of step 2 are -1."),
        ({"repetitions": []}, "option 'pretrain': the repetitions of step 0 are []."),
        (
            {"output_layers": "outputs"},
            "option 'pretrain': there is no output layer 'outputs'.\n  Did you mean 'output'?",
        ),
    ],
)
def test_wrong_options(option, message):
    with pytest.raises(ConfigError) as info:
        pretrain_from_config(Config({"network": NET, "pretrain": option}))
    assert str(info.value).startswith(message)


def test_custom_construction_without_any_step():
    def algo(idx, net):
        return None

    with pytest.raises(ConfigError, match=r"option 'pretrain': algo returns None for the first step, index 0\."):
        Pretrain({}, construction_algo=algo)
    assert Pretrain(NET, construction_algo=algo).get_network_json_for_epoch(1) == NET


def test_networks_that_only_the_pretraining_makes():
    def algo(idx, net_dict):
        assert net_dict == {}
        return {"output": {"n_out": idx}} if idx < 2 else None

    pretrain = pretrain_from_config(Config({"pretrain": {"construction_algo": algo}}))
    assert [pretrain.get_network_json_for_epoch(epoch)["output"]["n_out"] for epoch in (1, 2, 3)] == [0, 1, 1]
    with pytest.raises(ConfigError, match="option 'network': a dict of layers is needed"):
        pretrain_from_config(Config({"pretrain": "default"}))
