"""Names that layer classes and losses have elsewhere."""

import re

import pytest

from returnn.tf.layers.options.other_names import LAYERS, LOSSES
from returnn.tf.layers.options.registry import (
    get_layer_class,
    get_layer_class_name_list,
    get_loss_class,
    get_loss_class_name_list,
)
from returnn.util.errors import ConfigError

KINDS = [(LAYERS, get_layer_class, get_layer_class_name_list), (LOSSES, get_loss_class, get_loss_class_name_list)]


@pytest.mark.parametrize(("names", "find", "known"), KINDS)
def test_each_name_leads_to_one_that_there_is(names, find, known):
    for name, hint in names.items():
        assert name not in known()
        (first,) = re.findall(r"^'(\w+)'", hint) or [None]
        assert first in known() or hint.startswith("nothing: ")
        with pytest.raises(ConfigError, match=f"^there is no .* '{name}'") as info:
            find(name)
        assert str(info.value).endswith(f"\n  Here, it is {hint}.")


def test_others_have_the_nearest_name():
    with pytest.raises(ConfigError, match="Did you mean 'softmax'"):
        get_layer_class("sofmax")
