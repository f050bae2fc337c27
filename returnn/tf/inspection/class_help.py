"""
What can stand in a config by a name, and needs TensorFlow: layers, losses, units, optimizers; for `rnn.py --help NAME`.

All of it follows from the classes: their docstrings, and the signatures of `__init__`.
"""

from __future__ import annotations

from collections.abc import Sequence

from returnn.help.class_text import (
    OPTION_COLUMNS,
    Kind,
    class_text,
    option_row,
    options_table,
    public_options,
    rows_text,
)
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.loss import Loss
from returnn.tf.layers.options.layer_options import options_of, public_options_of
from returnn.tf.layers.options.registry import (
    get_layer_class,
    get_layer_class_name_list,
    get_loss_class,
    get_loss_class_name_list,
)
from returnn.tf.layers.rec.units.base import RecUnit
from returnn.tf.layers.rec.units.registry import get_unit_class, known_units
from returnn.tf.optimizers.registry import get_optimizer_class, known_optimizers
from returnn.util.errors import ConfigError, nearest_hint

COMMON = "LayerBase"  # stands for the options that all layers have
_KINDS = {
    "layers": Kind("layer class", get_layer_class_name_list, get_layer_class),
    "losses": Kind("loss", get_loss_class_name_list, get_loss_class),
    "units": Kind("unit of the layer 'rec'", known_units, get_unit_class),
    "optimizers": Kind("optimizer", known_optimizers, get_optimizer_class),
}
_BASES = (LayerBase, Loss, RecUnit)  # what they declare, all classes of the kind have
_OF_NET_DICTS = {
    "class": "name of the layer class",
    "from": "the layers to take as input: a name, or a list; 'data' is the input of the network",
    "loss_opts": "options of the loss",
    "loss_scale": "the loss counts so much in the total loss",
    "loss_only_on_non_search": "no loss in beam search",
}


def known_names() -> set[str]:
    """:return: of classes, and of lists of them"""
    return {COMMON, *_KINDS, *(name for kind in _KINDS.values() for name in kind.names())}


def class_help(name: str, *, width: int, other_names: Sequence[str] = ()) -> str:
    """
    :param name: as in a config, e.g. "softmax", "ce", "nativelstm2", "adam"; "LayerBase" for the options of all layers;
        "layers", "losses", "units", "optimizers" for all that there is of a kind
    :param width: of the text, in characters
    :param other_names: that there is help about elsewhere, for errors
    :return: what it is for, and all options, for each kind of thing that has this name
    :raises ConfigError: if there is nothing of that name
    """
    if name == COMMON:
        return _common_options_help(width)
    if name in _KINDS:
        return _KINDS[name].listing(width)
    found = [kind for kind in _KINDS.values() if name in set(kind.names())]
    if not found:
        hint = nearest_hint(name, sorted({*known_names(), *other_names}))
        hint = f"{hint}\n  " if hint.startswith("Did") else ""
        lists = ", ".join([*_KINDS, "datasets", "vocabularies", "options", "axis"])
        raise ConfigError(f"--help: there is nothing of the name {name!r}.\n  {hint}Lists: {lists}.")
    return "\n\n".join(_help_of(f"{kind.title} {name!r}", kind.get_class(name), width) for kind in found)


def _help_of(title: str, cls: type, width: int) -> str:
    base = next((base for base in _BASES if issubclass(cls, base)), None)
    common = options_of(base) if base is not None else {}
    text = class_text(title, cls, width, common=common)
    if base is LayerBase:
        return f"{text}\n\nOptions of all layers: --help {COMMON}"
    if base is Loss:
        return f"{text}\n\nOptions of all losses, in 'loss_opts':\n{options_table(public_options(common), width)}"
    return text


def _common_options_help(width: int) -> str:
    options = options_of(LayerBase)
    rows = [(name, "", text) for name, text in _OF_NET_DICTS.items()]
    rows += [option_row(options[name]) for name in public_options_of(LayerBase) if name not in _OF_NET_DICTS]
    return f"options of all layers\n\n{rows_text(OPTION_COLUMNS, rows, width)}"
