"""Options of all layer and loss classes: documented, and checked before anything is computed."""

import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.config.option_types import annotation_of, fits
from returnn.tf.layers.core.loss import Loss, make_loss
from returnn.tf.layers.options.layer_options import check_options, options_of, public_options_of
from returnn.tf.layers.options.registry import (
    get_layer_class,
    get_layer_class_name_list,
    get_loss_class,
    get_loss_class_name_list,
)
from returnn.tf.network import TFNetwork
from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import construct

INTERNAL = ("self", "name", "network", "output", "sources", "rec_previous_layer", "base_network")
LAYERS = sorted({get_layer_class(name) for name in get_layer_class_name_list()}, key=lambda cls: cls.__name__)
LOSSES = sorted({get_loss_class(name) for name in get_loss_class_name_list()}, key=lambda cls: cls.__name__)
TAKES_NO_SOURCE = {
    "ConstantLayer", "GlobalTrainStepLayer", "GradientLayer", "RandomStateInitLayer", "SignalMaskingLayer",
    "SourceLayer", "TrainFlagLayer",
}  # fmt: skip
assert TFNetwork  # it brings all layer classes with it


def class_name(layer_class):
    return layer_class.__name__


def own_options(cls):
    return {name: o for name, o in options_of(cls).items() if name not in INTERNAL and not name.startswith("_")}


def value_that_does_not_fit(option):
    annotation = annotation_of(option.init, option.name)
    return next((value for value in ("a text", 1.5, ["text", 2.5], {"a": "b"}) if not fits(value, annotation)), None)


def message_of(function, *args, **kwargs):
    with pytest.raises(ConfigError) as info:
        function(*args, **kwargs)
    assert len(str(info.value).splitlines()) <= 5
    return str(info.value)


@pytest.mark.parametrize("cls", [*LAYERS, *LOSSES], ids=class_name)
def test_every_option_has_a_sentence_of_documentation(cls):
    assert [name for name, option in own_options(cls).items() if not option.meaning] == []
    assert cls.__doc__


@pytest.mark.parametrize("cls", LAYERS, ids=class_name)
def test_unknown_option_is_an_error_with_the_nearest_one(cls):
    for option in ("dropout" if "dropout" in own_options(cls) else "n_out", "initial_output"):
        message = message_of(check_options, cls, {f"{option}x": 1}, where="layer 'x'")
        assert f"layer 'x': there is no option '{option}x'" in message
        assert f"Did you mean '{option}'" in message
    assert "class" in public_options_of(cls)


@pytest.mark.parametrize("cls", LAYERS, ids=class_name)
def test_value_of_wrong_type_is_an_error_that_says_what_is_possible(cls):
    checked = {name: value_that_does_not_fit(option) for name, option in own_options(cls).items()}
    assert "L2" in checked
    for name, value in checked.items():
        if value is not None:
            message = message_of(check_options, cls, {name: value}, where="layer 'x'")
            assert message.startswith(f"layer 'x': option {name!r} has to be ")
            assert f"not {value!r}" in message


@pytest.mark.parametrize("cls", LOSSES, ids=class_name)
def test_options_of_losses_are_checked(cls):
    assert issubclass(cls, Loss)
    message = message_of(make_loss, cls, {"scal": 1.0}, network=None, where="layer 'x'")
    assert f"loss {cls.class_name!r}: there is no option 'scal'" in message
    message = message_of(make_loss, cls, {"use_normalized_loss": "yes"}, network=None, where="layer 'x'")
    assert "option 'use_normalized_loss' has to be True or False, not 'yes'" in message


@pytest.mark.parametrize("cls", LAYERS, ids=class_name)
def test_required_option_that_is_missing_or_none(cls):
    required = [o for o in own_options(cls).values() if o.is_required]
    if required:
        message = message_of(check_options, cls, {}, where="layer 'x'")
        assert message == f"layer 'x': the option {required[0].name!r} is required."


@pytest.mark.parametrize(
    "cls",
    [cls for cls in LAYERS if ".rec" not in cls.__module__ and cls.__name__ not in TAKES_NO_SOURCE],
    ids=class_name,
)
def test_missing_source_is_an_error(cls):
    desc = {"class": cls.class_name(), "from": []}
    with tf.Graph().as_default(), rf.backend_ctx("tf"):
        message = message_of(construct, {"x": desc, "output": {"class": "copy", "from": "x"}})
    assert "layer 'x'" in message


@pytest.mark.parametrize(
    ("desc", "words"),
    [
        ({"class": "linear", "n_out": "512"}, ["'n_out' has to be an integer", "'512'", "size of the feature dim"]),
        ({"class": "linear", "n_out": 4, "with_bias": "no"}, ["class 'linear'", "True or False, not 'no'"]),
        ({"class": "conv", "n_out": 4, "padding": "same", "filter_size": 1.5}, ["a list (an integer or a dim each)"]),
        ({"class": "conv", "n_out": 4, "padding": "same", "filter_size": ["3"]}, ["an integer or a dim each", "['3']"]),
        ({"class": "gather", "axis": "T", "position": 1.5}, ["the name of a layer or an integer", "1.5"]),
        ({"class": "copy", "dropout": [0.1]}, ["'dropout' has to be a number"]),
        ({"class": "top_k", "axis": "F", "k": 2, "from": []}, ["has to be at least 1 (source), not 0"]),
        ({"class": "copy", "from": "outptu"}, ["'outptu'", "Did you mean 'output'"]),
        ({"class": "copy", "dropout": 0.1, "dropout_noise_shape": [1, None]}, ["'dropout_noise_shape'", "[1, None]"]),
        ({"class": "repeat", "repetitions": "data"}, ["'repetitions'", "integers are required"]),
        ({"class": "linear", "n_out": 0}, ["'n_out' has to be at least 1, not 0"]),
        ({"class": "copy", "dropout": 1.5}, ["'dropout' has to be at least 0 and below 1, not 1.5"]),
        ({"class": "combine", "kind": "eval"}, ["'eval' needs the option 'eval'"]),
        ({"class": "combine", "kind": "add", "eval": "source(0)"}, ["'eval' needs the option 'eval'"]),
        ({"class": "activation", "activation": 3}, ["'activation' has to be a text or a function, not 3"]),
        ({"class": "reduce_out", "mode": "max", "num_pieces": 0}, ["'num_pieces' has to be at least 1, not 0"]),
        ({"class": "cast", "dtype": "float31"}, ["option 'dtype'", "'float31'", "Did you mean 'float32'"]),
        ({"class": "length", "dtype": "int33"}, ["option 'dtype'", "'int33'", "Did you mean 'int32'"]),
        ({"class": "constant", "value": [[1, 2], [3]], "from": []}, ["the rows of [[1, 2], [3]] have different sizes"]),
        ({"class": "constant", "value": {"a": 1}, "from": []}, ["'value' has to be a number", "{'a': 1}"]),
        ({"class": "constant", "value": ["a", 1], "from": []}, ["['a', 1] does not fit to the dtype 'string'"]),
        ({"class": "constant", "value": "a", "dtype": "float32", "from": []}, ["'a' does not fit"]),
        ({"class": "constant", "value": [1.5, 2], "dtype": "int32", "from": []}, ["[1.5, 2] does not fit to"]),
        ({"class": "constant", "value": 2**40, "from": []}, ["option 'value': 1099511627776 does not fit"]),
        ({"class": "softmax_over_spatial", "window_size": 3}, ["'window_size' needs the option 'window_start'"]),
        ({"class": "expand_dims", "axis": "spatail"}, ["'axis'", "'spatail'", "Did you mean 'spatial'"]),
        ({"class": "softmax", "loss": "ce", "target": "ids", "loss_opts": {"scale": "x"}}, ["'scale' has to be a num"]),
        ({"class": "search_sorted", "sorted_sequence": "data", "values": "data"}, ["'values'", "sorted sequence"]),
    ],
)  # fmt: skip
def test_wrong_value_is_explained(desc, words):
    with tf.Graph().as_default(), rf.backend_ctx("tf"):
        net_dict = {"layer": {"from": "data", **desc}, "output": {"class": "copy", "from": "layer"}}
        message = message_of(construct, net_dict)
    for word in ["layer 'layer'", *words]:
        assert word in message
