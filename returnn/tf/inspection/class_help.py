"""
What can stand in a config by a name: layers, losses, units, optimizers, data sets; for `rnn.py --help NAME`.

All of it follows from the classes: their docstrings, and the signatures of `__init__`.
"""

from __future__ import annotations

import inspect
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from returnn.datasets.core.registry import get_dataset_class, known_dataset_classes
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.loss import Loss
from returnn.tf.layers.options.layer_options import Option, options_of, public_options_of
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
from returnn.util.not_specified import NotSpecified

_COLUMNS = ("option", "default", "meaning")
COMMON = "LayerBase"  # stands for the options that all layers have


@dataclass(frozen=True)
class _Kind:
    title: str
    names: Callable[[], Iterable[str]]
    get_class: Callable[[str], Any]


_KINDS = {
    "layers": _Kind("layer class", get_layer_class_name_list, get_layer_class),
    "losses": _Kind("loss", get_loss_class_name_list, get_loss_class),
    "units": _Kind("unit of the layer 'rec'", known_units, get_unit_class),
    "optimizers": _Kind("optimizer", known_optimizers, get_optimizer_class),
    "datasets": _Kind("data set", known_dataset_classes, get_dataset_class),
}
_BASES = (LayerBase, Loss, RecUnit)  # what they declare, all classes of the kind have
_INTERNAL = (
    "self", "name", "network", "output", "sources", "rec_previous_layer", "base_network", "parent_dataset", "num_units",
    "learning_rate", "use_locking",
)  # fmt: skip
_OF_NET_DICTS = {
    "class": "name of the layer class",
    "from": "the layers to take as input: a name, or a list; 'data' is the input of the network",
    "loss_opts": "options of the loss",
    "loss_scale": "the loss counts so much in the total loss",
    "loss_only_on_non_search": "no loss in beam search",
}


def class_help(name: str, *, width: int) -> str:
    """
    :param name: as in a config, e.g. "softmax", "ce", "nativelstm2", "adam", "HDFDataset"; "LayerBase" for the options
        of all layers; "layers", "losses", "units", "optimizers", "datasets" for all that there is of a kind
    :param width: of the text, in characters
    :return: what it is for, and all options, for each kind of thing that has this name
    :raises ConfigError: if there is nothing of that name
    """
    if name == COMMON:
        return _common_options_help(width)
    if name in _KINDS:
        return _list_of(_KINDS[name], width)
    found = [kind for kind in _KINDS.values() if name in set(kind.names())]
    if not found:
        known = sorted({known for kind in _KINDS.values() for known in kind.names()})
        hint = nearest_hint(name, [*known, COMMON, *_KINDS])
        raise ConfigError(f"--help: there is nothing of the name {name!r}.\n  {hint}\n  Lists: {', '.join(_KINDS)}.")
    return "\n\n".join(_help_of(f"{kind.title} {name!r}", kind.get_class(name), width) for kind in found)


def _list_of(kind: _Kind, width: int) -> str:
    """:return: all names, each with the first sentence of its documentation"""
    names = [name for name in kind.names() if not name.startswith("_")]
    shown = [name for name in names if name.removesuffix("optimizer") not in set(names) - {name}]
    rows = [(name, _first_sentence(kind.get_class(name))) for name in shown]
    return _rows_text(["name", "what it is"], rows, width)


def _first_sentence(cls: type) -> str:
    paragraph = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<!\bal)[.] |: ", paragraph)[0].rstrip(".:,")


def _help_of(title: str, cls: type, width: int) -> str:
    options = options_of(cls)
    base = next((base for base in _BASES if issubclass(cls, base)), None)
    common = options_of(base) if base is not None else {}
    own = [option for key, option in options.items() if _is_public(key) and not _is_same(option, common.get(key))]
    parts = [title, inspect.cleandoc(cls.__doc__ or "").strip(), _table(own, width) or "It has no options of its own."]
    if base is LayerBase:
        parts.append(f"Options of all layers: --help {COMMON}")
    elif base is Loss:
        parts.append("Options of all losses, in 'loss_opts':\n" + _table(_public(common), width))
    return "\n\n".join(part for part in parts if part)


def _common_options_help(width: int) -> str:
    options = options_of(LayerBase)
    rows = [(name, "", text) for name, text in _OF_NET_DICTS.items()]
    rows += [_row(options[name]) for name in public_options_of(LayerBase) if name not in _OF_NET_DICTS]
    return f"options of all layers\n\n{_rows_text(_COLUMNS, rows, width)}"


def _is_public(name: str) -> bool:
    return name not in _INTERNAL and not name.startswith("_")


def _is_same(option: Option, common: Option | None) -> bool:
    return common is not None and option.init is common.init


def _public(options: Any) -> list[Option]:
    return [option for name, option in options.items() if _is_public(name)]


def _table(options: list[Option], width: int) -> str:
    return _rows_text(_COLUMNS, [_row(option) for option in options], width) if options else ""


def _row(option: Option) -> tuple[str, str, str]:
    is_unset = option.default is NotSpecified
    default = "required" if option.is_required else "" if is_unset else _default_text(option.default)
    return option.name, default, option.meaning


def _default_text(default: Any) -> str:
    return getattr(default, "__name__", None) or repr(default)


def _rows_text(columns: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> str:
    table = Table(*columns, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*row)
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, markup=False, emoji=False).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())
