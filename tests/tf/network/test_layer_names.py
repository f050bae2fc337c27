import pytest

from returnn.config import Config
from returnn.tensor import batch_dim
from returnn.tf.util.data import FeatureDim, SpatialDim
from returnn.util.errors import ConfigError
from tests.tf.network.old_config import ConfigNet

LINEAR = {"class": "linear", "activation": None, "n_out": 3}
SUBNET = {
    "class": "subnetwork",
    "from": "data",
    "subnetwork": {
        "a": {**LINEAR, "from": "data"},
        "of_base": {"class": "copy", "from": "base:x"},
        "of_dots": {"class": "copy", "from": "../x"},
        "of_root": {"class": "copy", "from": "root:x"},
        "labels_of_base": {"class": "copy", "from": "base:data:classes"},
        "labels": {"class": "copy", "from": "data:classes"},
        "inner": {
            "class": "subnetwork",
            "from": "a",
            "subnetwork": {
                "of_outermost": {"class": "copy", "from": "base:base:x"},
                "of_around": {"class": "copy", "from": "base:a"},
                "output": {"class": "copy", "from": "data"},
            },
        },
        "output": {"class": "combine", "kind": "add", "from": ["a", "inner"]},
    },
}
EXTERN_DATA = {"data": {"dim": 6}, "classes": {"dim": 5, "sparse": True}}


def net_of(net_dict, *, extern_data=None, **flags):
    config = Config({"extern_data": extern_data or EXTERN_DATA, "network": net_dict, "behavior_version": 21})
    return ConfigNet(config, **flags)


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("data:data", "data"),
        ("s/of_base", "x"),
        ("s/of_dots", "x"),
        ("s/of_root", "x"),
        ("s/inner/of_outermost", "x"),
        ("s/inner/of_around", "s/a"),
        ("s/inner", "s/a"),
        ("s/labels", "data:classes"),
        ("s/labels_of_base", "data:classes"),
        ("s/../x", "x"),
    ],
)
def test_names(name, same):
    net_dict = {
        "#comment": "is no layer",
        "#config": {"batch_size": 5},
        "x": {**LINEAR, "from": "data"},
        "s": SUBNET,
        "one": {"class": "copy", "from": name, "is_output_layer": True},
        "other": {"class": "copy", "from": same, "is_output_layer": True},
        "output": {"class": "copy", "from": "x"},
    }
    one, other = net_of(net_dict).run(["one", "other"])
    assert one.tolist() == other.tolist()


def param_names(net_dict):
    return sorted(param.op.name for param in net_of(net_dict).net.get_params_list())


@pytest.mark.parametrize("path", ["s/a", "s/n/b"])
def test_a_subnetwork_of_which_one_layer_is_used_is_made_as_a_whole(path):
    nested = {"class": "subnetwork", "from": "a", "subnetwork": {"b": {**LINEAR, "from": "data"}}}
    nested["subnetwork"]["output"] = {**LINEAR, "from": "data"}
    inside = {"a": {**LINEAR, "from": "data"}, "n": nested, "not_needed": {"class": "no_such_class"}}
    inside["output"] = {**LINEAR, "from": ["a", "base:x"]}
    subnet = {"class": "subnetwork", "from": "data", "subnetwork": inside}
    net_dict = {"x": {**LINEAR, "from": path}, "s": subnet, "output": {"class": "copy", "from": "x"}}
    names = {"x/W", "x/b", "s/a/W", "s/a/b", "s/output/W", "s/output/b"}
    if path == "s/n/b":
        names |= {"s/n/b/W", "s/n/b/b", "s/n/output/W", "s/n/output/b"}
    assert param_names(net_dict) == sorted(names)


def test_losses_of_a_subnetwork_of_which_one_layer_is_used():
    inside = {"a": {**LINEAR, "from": "data"}, "output": {**LINEAR, "from": "data", "loss": "as_is"}}
    subnet = {"class": "subnetwork", "from": "data", "subnetwork": inside}
    net = net_of({"s": subnet, "output": {"class": "copy", "from": "s/a"}}, with_loss=True)
    assert list(net.net.get_losses_initialized()[0]) == ["s/output"]


def test_layers_of_a_subnetwork_have_own_parameters_whatever_it_reuses():
    inside = {"a": {**LINEAR, "from": "data"}, "output": {"class": "copy", "from": "a"}}
    subnet = {"class": "subnetwork", "from": "data", "subnetwork": inside}
    names = ["output/a/W", "output/a/b", "s/a/W", "s/a/b"]
    assert param_names({"s": subnet, "output": {**subnet, "reuse_params": "s"}}) == names  # "s" is made for that alone
    assert param_names({"output": {**subnet, "name_scope": "s"}}) == ["s/a/W", "s/a/b"]


@pytest.mark.parametrize("target", ["layer:best", "layer:base:best", "layer:s/best", "registered"])
def test_targets_from_layers(target):
    best = {"class": "reduce", "mode": "argmax", "axis": "F", "from": "data"}
    soft = {"class": "softmax", "from": "data", "loss": "ce", "n_out": 6}
    inner = {"best": best, "output": {**soft, "target": target}} if "base" in target else {"best": best}
    subnet = {
        "class": "subnetwork",
        "from": "data",
        "subnetwork": {"output": {"class": "copy", "from": "data"}, **inner},
    }
    net_dict = {
        "s": subnet,
        "best": {**best, "register_as_extern_data": "registered"},
        "output": {"class": "copy", "from": "s"} if "base" in target else {**soft, "target": target},
    }
    net = net_of(net_dict, with_loss=True)
    assert net.run(net.loss) > 0
    assert len(net.gradients) == 2
    assert net.net.get_used_data_keys() == {"data"}


def test_dims_by_object_and_by_description():
    time, feature, out = SpatialDim("time"), FeatureDim("feature", 6), FeatureDim("out", 3)
    extern_data = {"data": {"dims": [batch_dim, time, feature]}}
    mean = {"class": "reduce", "mode": "mean", "from": "data", "is_output_layer": True}
    descriptions = [time, "T", "stag:time", "spatial", "dyn:0", ["T"]]
    net_dict = {f"mean{i}": {**mean, "axis": axis} for i, axis in enumerate(descriptions)}
    net_dict["a"] = {"class": "linear", "in_dim": feature, "out_dim": out, "from": "data"}
    net_dict["output"] = {"class": "dot", "from": ["a", "a"], "reduce": out}
    values = net_of(net_dict, extern_data=extern_data).run([f"mean{i}" for i in range(len(descriptions))])
    assert all(value.tolist() == values[0].tolist() for value in values)


@pytest.mark.parametrize(
    ("net_dict", "message"),
    [
        ({"output": {"class": "copy", "from": "data:class"}}, "layer 'output': there is no data 'class'."),
        (
            {"fwd": {**LINEAR, "from": "data"}, "output": {"class": "copy", "from": "fw"}},
            "layer 'output': there is no layer 'fw'.\n  Did you mean 'fwd'?",
        ),
        (
            {"x": {**LINEAR, "from": "data"}, "s": SUBNET, "output": {"class": "copy", "from": "s/outputs"}},
            "layer 'output': there is no layer 's/outputs'.\n  Did you mean 'output'?",
        ),
        (
            {"output": {"class": "copy", "from": "base:x"}},
            "layer 'output': layer name 'base:x': this is the outermost network, there is none around it.",
        ),
        (
            {"output": {"class": "copy", "from": "prev:x"}},
            "layer 'output': layer name 'prev:x': 'prev:' means the frame before, but this is not inside of a loop.",
        ),
        (
            {"output": {"class": "copy", "from": "extra.serch:output"}},
            "layer name 'extra.serch:...': an extra network is 'extra.search' or 'extra.no_search'.",
        ),
        ({"output": {"from": "data"}}, "layer 'output': the option 'class' is required."),
        ({"output": ["data"]}, "layer 'output': expected a dict of options, got ['data']."),
    ],
    ids=str,
)
def test_wrong_names(net_dict, message):
    with pytest.raises(ConfigError) as exc_info:
        net_of(net_dict)
    assert str(exc_info.value).startswith(message)
    assert len(str(exc_info.value).splitlines()) <= 5


def test_a_layer_that_nothing_needs_is_not_made():
    net = net_of({"x": {**LINEAR, "from": "data"}, "output": {"class": "copy", "from": "data"}})
    with pytest.raises(ConfigError, match="the layer 'x' was not made, as nothing needs it"):
        net.net.get_layer("x")
