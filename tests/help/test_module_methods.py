"""What `--help rf.NAME` says of modules, beside their options: how they are called."""

import inspect

import pytest

import returnn.frontend as rf
from returnn.help.module_methods import module_method_text
from returnn.help.topics import help_text

MODULES = [
    name
    for name in sorted(vars(rf))
    if isinstance(value := getattr(rf, name), type) and issubclass(value, rf.Module) and value is not rf.Module
]


@pytest.mark.parametrize("name", MODULES)
def test_help_of_a_module_says_how_it_is_called(name):
    cls = getattr(rf, name)
    text = help_text(f"rf.{name}", width=100)
    if inspect.getdoc(cls.__call__) == inspect.getdoc(rf.Module.__call__):  # computes nothing itself
        assert "called as" not in text
        return
    assert "called as: module(" in text
    arguments = [argument for argument in inspect.signature(cls.__call__).parameters if argument != "self"]
    (line,) = [line for line in text.splitlines() if line.startswith("called as:")]
    assert all(argument in line for argument in arguments)
    assert ":return:" in text.partition(line)[2]


def test_other_classes_of_the_same_name_come_second():
    assert help_text("rf.Sequential", width=100).startswith("class 'Sequential' of returnn.frontend.container")


def test_methods_of_base_classes_are_found():
    text = help_text("rf.RotaryPosCausalSelfAttention", width=100)
    assert "\ncalled as: module(source, axis, *, state=None)\n" in text
    assert "default_initial_state(*, batch_dims)" in text
    assert "--help RotaryPosCausalSelfAttention.NAME" in text
    assert "named_parameters" not in text  # of all modules
    inherited = help_text("rf.RotaryPosCausalSelfAttention.default_initial_state", width=100)
    assert inherited.startswith("method 'default_initial_state' of the class 'RotaryPosCausalSelfAttention'")
    assert ":param batch_dims: of the sequences" in inherited
    assert "__call__(q, encoder)" in help_text("rf.CrossAttention.__call__", width=100)
    assert module_method_text("rf.Linear.forward_kv") is None
    assert module_method_text("Tensor.copy_masked") is None
