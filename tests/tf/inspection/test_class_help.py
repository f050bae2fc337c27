import pytest

from returnn.__main__ import main
from returnn.help.class_text import first_sentence
from returnn.tf.inspection import class_help as module
from returnn.tf.inspection.class_help import class_help
from returnn.tf.layers.options.layer_options import public_options_of
from returnn.tf.layers.options.registry import get_layer_class
from returnn.tf.util.error_text import is_of_toolkit
from returnn.util.errors import ConfigError


@pytest.mark.parametrize("kind", module._KINDS)
def test_all_names_have_a_sentence(kind):
    listed = class_help(kind, width=300)
    for name in module._KINDS[kind].names():
        cls = module._KINDS[kind].get_class(name)
        if not is_of_toolkit(cls.__module__):  # the config of another test has registered it
            continue
        assert len(first_sentence(cls)) > 3, name
        is_alias = name.endswith("optimizer")
        assert is_alias or name.startswith("_") or f"\n{name} " in listed


@pytest.mark.parametrize("name", ["softmax", "rec", "choice", "self_attention", "hdf_dump"])
def test_all_options_of_a_layer_are_there(name):
    text = class_help(name, width=110) + class_help("LayerBase", width=110)
    for option in public_options_of(get_layer_class(name)):
        assert f"\n{option} " in text


def test_names_of_several_kinds():
    text = class_help("fast_bw", width=110)
    assert "layer class 'fast_bw'" in text
    assert "loss 'fast_bw'" in text


def test_defaults_and_required_options():
    lines = [line.split() for line in class_help("choice", width=110).splitlines()]
    assert ["beam_size", "required"] in [line[:2] for line in lines]
    assert ["prob_scale", "1.0"] in [line[:2] for line in lines]


def test_width():
    assert all(len(line) <= 60 for line in class_help("adam", width=60).splitlines()[4:])


def test_unknown_name_is_an_error():
    with pytest.raises(ConfigError, match=r"there is nothing of the name 'sofmax'.\n.*'softmax'.*\n  Lists: layers,"):
        class_help("sofmax", width=80)


def test_command_line(capsys):
    assert main(["rnn.py", "--help", "dot"]) == 0
    assert "add_var2_if_empty" in capsys.readouterr().out
    assert main(["rnn.py", "--help", "dit"]) == 1
