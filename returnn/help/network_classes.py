"""
What can stand in a network by a name: layers, losses, units, optimizers.

All of it follows from the classes: their docstrings, and the signatures of `__init__`, as they are in the source code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from returnn.config.options import OPTIONS
from returnn.help.class_outline import outline_of, outlines_with
from returnn.help.class_text import (
    OPTION_COLUMNS,
    Kind,
    class_text,
    option_row,
    options_table,
    public_options,
    rows_text,
)
from returnn.tf.layers.options.layer_options import Option, options_of, public_options_of

COMMON = "LayerBase"  # stands for the options that all layers have
_LAYERS = "returnn.tf.layers"
_BASES = {  # what they declare, all classes of the kind have
    "layers": (f"{_LAYERS}.core.layer_base", COMMON),
    "losses": (f"{_LAYERS}.core.loss", "Loss"),
    "units": (f"{_LAYERS}.rec.units.base", "RecUnit"),
}
_OF_NET_DICTS = {
    "class": "name of the layer class",
    "from": "the layers to take as input: a name, or a list; 'data' is the input of the network",
    "loss_opts": "options of the loss",
    "loss_scale": "the loss counts so much in the total loss",
    "loss_only_on_non_search": "no loss in beam search",
}


@functools.cache
def classes_of(kind: str) -> Mapping[str, type]:
    """
    :param kind: "layers", "losses", "units" or "optimizers"
    :return: outlines of all classes of that kind, by the names that a config uses
    """
    if kind == "layers":
        return outlines_with("layer_class", _LAYERS)
    if kind == "losses":
        return outlines_with("class_name", _LAYERS)
    if kind == "units":
        return outlines_with("unit_names", f"{_LAYERS}.rec.units")
    return outlines_with("optimizer_names", "returnn.tf.optimizers")


def _kind(title: str, kind: str) -> Kind:
    return Kind(title, lambda: sorted(classes_of(kind)), lambda name: classes_of(kind)[name])


NETWORK_KINDS = {
    "layers": _kind("layer class", "layers"),
    "losses": _kind("loss", "losses"),
    "units": _kind("unit of the layer 'rec'", "units"),
    "optimizers": _kind("optimizer of TensorFlow", "optimizers"),
}


def network_class_text(kind: str, name: str, width: int) -> str:
    """
    :param kind: one of `NETWORK_KINDS`
    :param name: as in a config, e.g. "softmax", "ce", "nativelstm2", "adam"
    :param width: of the text, in characters
    :return: what it is for, and all options
    """
    common = common_options_of(kind)
    text = class_text(
        f"{NETWORK_KINDS[kind].title} {name!r}", classes_of(kind)[name], width, common=common, row=row_of(kind)
    )
    if kind == "layers":
        return f"{text}\n\nOptions of all layers: --help {COMMON}"
    if kind == "losses":
        return f"{text}\n\nOptions of all losses, in 'loss_opts':\n{options_table(public_options(common), width)}"
    return text


def row_of(kind: str) -> Callable[[Option], tuple[str, str, str]]:
    """
    :param kind: one of `NETWORK_KINDS`, or another one
    :return: function: what is shown of an option: name, default and meaning
    """
    return _row_of_optimizer if kind == "optimizers" else option_row


def _row_of_optimizer(option: Option) -> tuple[str, str, str]:
    name, default, meaning = option_row(option)
    if name == "epsilon":  # what the class has as default is for those who make it by hand
        return name, OPTIONS["optimizer_epsilon"].default_text, f"{meaning}; default: option `optimizer_epsilon`"
    return name, default, meaning


def common_options_of(kind: str) -> Mapping[str, Option]:
    """:return: the options that all classes of a kind have"""
    return options_of(outline_of(*_BASES[kind])) if kind in _BASES else {}


def common_options_text(width: int) -> str:
    """:return: the options that all layers have"""
    return f"options of all layers\n\n{rows_text(OPTION_COLUMNS, common_option_rows(), width)}"


def common_option_rows() -> list[tuple[str, str, str]]:
    """:return: name, default and meaning of the options that all layers have"""
    base = outline_of(*_BASES["layers"])
    options = options_of(base)
    rows = [(name, "", text) for name, text in _OF_NET_DICTS.items()]
    return rows + [option_row(options[name]) for name in public_options_of(base) if name not in _OF_NET_DICTS]
