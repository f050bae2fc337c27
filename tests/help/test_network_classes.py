import re

import pytest

from returnn.__main__ import main
from returnn.help.class_outline import outline_of
from returnn.help.class_text import class_text
from returnn.help.network_classes import NETWORK_KINDS, classes_of
from returnn.help.topics import help_text
from returnn.tf.layers.options.layer_options import public_options_of
from returnn.tf.layers.options.registry import (
    get_layer_class,
    get_layer_class_name_list,
    get_loss_class,
    get_loss_class_name_list,
)
from returnn.tf.layers.rec.units.registry import get_unit_class, known_units
from returnn.tf.optimizers.registry import get_optimizer_class, known_optimizers
from returnn.tf.util.error_text import is_of_toolkit
from returnn.util.errors import ConfigError

REGISTRIES = {
    "layers": (get_layer_class_name_list, get_layer_class),
    "losses": (get_loss_class_name_list, get_loss_class),
    "units": (known_units, get_unit_class),
    "optimizers": (known_optimizers, get_optimizer_class),
}


def all_classes(kind):
    """:return: of the toolkit; configs of other tests may have added some"""
    names, get_class = REGISTRIES[kind]
    classes = {name: get_class(name) for name in names()}
    return {name: cls for name, cls in classes.items() if is_of_toolkit(cls.__module__)}


@pytest.mark.parametrize("kind", NETWORK_KINDS)
def test_help_from_source_code_is_that_of_the_classes(kind):
    classes = all_classes(kind)
    assert classes.keys() == classes_of(kind).keys()
    for name, cls in classes.items():
        assert class_text(name, classes_of(kind)[name], 110) == class_text(name, cls, 110)


def test_bases_and_values_of_an_outline():
    softmax, linear = (outline_of("returnn.tf.layers.linear.linear", name) for name in ("SoftmaxLayer", "LinearLayer"))
    assert issubclass(softmax, linear)
    assert softmax.layer_class == "softmax"
    assert outline_of("returnn.tf.layers.basic", "LinearLayer") is linear
    assert outline_of("returnn.tf.layers.linear.linear", "Tensor") is not None
    assert outline_of("returnn.tf.layers.linear.linear", "nothing") is None


@pytest.mark.parametrize("name", ["softmax", "rec", "choice", "self_attention", "hdf_dump"])
def test_all_options_of_a_layer_are_there(name):
    text = "\n".join([help_text(name, width=110), help_text("LayerBase", width=110)])
    for option in public_options_of(get_layer_class(name)):
        assert f"\n{option} " in text


def test_names_of_several_kinds():
    of_both = help_text("fast_bw", width=110)
    assert re.findall(r"^(.*)\n---", of_both, re.MULTILINE) == ["layer class 'fast_bw'", "loss 'fast_bw'"]


def test_defaults_and_required_options():
    lines = [line.split() for line in help_text("choice", width=110).splitlines()]
    assert ["beam_size", "required"] in [line[:2] for line in lines]
    assert ["prob_scale", "1.0"] in [line[:2] for line in lines]


def test_default_which_needs_tensorflow():
    lines = [line.split() for line in help_text("layernormvariantslstm", width=110).splitlines()]
    assert ["activation", "tanh"] in [line[:2] for line in lines]


def test_width():
    table = help_text("choice", width=60).partition("\noption ")[2].partition("\n\n")[0].splitlines()
    assert len(table) > 20
    assert all(len(line) <= 60 for line in table)


def test_unknown_name_is_an_error():
    with pytest.raises(ConfigError, match=r"there is nothing of the name 'sofmax'.\n.*'softmax'.*\n  Lists: layers,"):
        help_text("sofmax", width=80)


def test_command_line(capsys):
    assert main(["rnn.py", "--help", "dot"]) == 0
    assert "add_var2_if_empty" in capsys.readouterr().out
    assert main(["rnn.py", "--help", "dit"]) == 1
