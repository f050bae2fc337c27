"""What `--help NAME` finds: options of the config, descriptions of axes, and classes. It needs no TensorFlow."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

from returnn.config.options import OPTIONS
from returnn.config.options.training import LearningRateOptions
from returnn.config.unsupported_options import NEEDLESS, UNSUPPORTED
from returnn.datasets.core.registry import get_dataset_class, known_dataset_classes
from returnn.datasets.util import vocabulary
from returnn.datasets.util.feature_extraction import ExtractAudioFeatures
from returnn.engine.learning_rate_control import learning_rate_control_names, learning_rate_control_type
from returnn.help.class_text import Kind, public_options, rows_text
from returnn.help.frontend_names import frontend_text
from returnn.help.mentioned import mentioned_text, method_text
from returnn.help.network_classes import (
    COMMON,
    NETWORK_KINDS,
    common_options_of,
    common_options_text,
    network_class_text,
)
from returnn.help.option_text import option_text, options_text, table_text
from returnn.help.search import found_by_words
from returnn.help.torch_optimizers import torch_optimizers
from returnn.tasks import TASKS
from returnn.tensor import tensor_axes
from returnn.tf.layers.options.layer_options import options_of
from returnn.tools.registry import purpose_of, tool_modules
from returnn.util.errors import ConfigError, nearest_hint


def _vocabularies() -> dict[str, type]:
    found = {name: value for name, value in vars(vocabulary).items() if isinstance(value, type)}
    return {name: cls for name, cls in found.items() if issubclass(cls, vocabulary.Vocabulary)}


KINDS = {
    **NETWORK_KINDS,
    "torch_optimizers": Kind(
        "optimizer of PyTorch", lambda: sorted(torch_optimizers()), torch_optimizers().__getitem__
    ),
    "datasets": Kind("data set", known_dataset_classes, get_dataset_class, is_derived_from=True),
    "vocabularies": Kind(
        "vocabulary", lambda: sorted(_vocabularies()), lambda name: _vocabularies()[name], is_derived_from=True
    ),
    "audio_features": Kind("features", lambda: ["ExtractAudioFeatures"], lambda name: ExtractAudioFeatures),
    "learning_rate_controls": Kind("learning rate control", learning_rate_control_names, learning_rate_control_type),
}
_MAX_OWNERS = 6
_PLAIN_WORDS = re.compile(r"[a-z ]+")


def help_text(name: str, *, width: int) -> str:
    """
    :param name: of an option, a class, or one of the lists of all names of a kind
    :param width: of the text, in characters
    :return: about everything that has this name
    :raises ConfigError: if there is nothing of that name
    """
    if name in _LISTS_OF_OTHERS:
        return _LISTS_OF_OTHERS[name](width)
    if name in KINDS:
        return KINDS[name].listing(width)
    about_option = option_text(name, width)
    found = [about_option] if about_option else []
    found += [_class_text(kind, name, width) for kind, cls in KINDS.items() if name in set(cls.names())]
    found += [text for text in (_task_text(name), _tool_text(name)) if text]
    if not found:
        found = [text for text in [_text_of_other_names(name, width)] if text]
    is_word = bool(_PLAIN_WORDS.fullmatch(name)) and not about_option
    words = found_by_words(name, {} if found else KINDS, width, with_pages=not found) if is_word or not found else None
    if not found and not words:
        raise ConfigError(f"--help: there is nothing of the name {name!r}.\n  {_hint(name)}Lists: {', '.join(LISTS)}.")
    if len(found) > 1:
        found = [f"{len(found)} things have the name {name!r}.", *map(_with_heading, found)]
    return "\n\n".join([*found, *([f"found by the words {name!r}:\n\n{words}"] if words else [])])


def _tasks_text(width: int) -> str:
    rows = [(task.name, task.purpose) for task in TASKS.values()]
    rows.append(("config:NAME", "calls that function of the config"))
    return f"++task NAME\n\n{rows_text(['task', 'what it does'], rows, width)}"


def _tools_text(width: int) -> str:
    rows = [(name, purpose_of(module)) for name, module in tool_modules().items()]
    return f"returnn tool NAME --help\n\n{rows_text(['tool', 'what it does'], rows, width)}"


def _text_of_other_names(name: str, width: int) -> str | None:
    """:return: about what has that name, beyond what a config names; plain words in the code would help nobody"""
    is_code = not _PLAIN_WORDS.fullmatch(name)
    in_dicts = _text_of_option_in_dicts(name, width)
    mentioned = mentioned_text(name, width, may_be_module=in_dicts is None) if is_code else None
    found = "\n\n".join(text for text in (in_dicts, mentioned) if text)
    return found or (method_text(name) if is_code else None)


def _task_text(name: str) -> str | None:
    return f"task {name!r} (++task {name})\n\nIt {TASKS[name].purpose}." if name in TASKS else None


def _tool_text(name: str) -> str | None:
    module = tool_modules().get(name)
    return f"tool {name!r} (returnn tool {name} --help)\n\n{purpose_of(module)}" if module else None


def _with_heading(text: str) -> str:
    """:return: with the first line underlined"""
    first, separator, rest = text.partition("\n")
    return f"{first}\n{'-' * len(first)}{separator}{rest}"


def _hint(name: str) -> str:
    """:return: the nearest names, in a line; empty if none is near"""
    classes = [known for kind in KINDS.values() for known in kind.names()]
    hint = nearest_hint(name, sorted({COMMON, *OPTIONS, *UNSUPPORTED, *NEEDLESS, *LISTS, *classes}))
    return f"{hint}\n  " if hint.startswith("Did") else ""


def _class_text(kind: str, name: str, width: int) -> str:
    if kind in NETWORK_KINDS:
        return network_class_text(kind, name, width)
    if kind != "learning_rate_controls":
        return KINDS[kind].help_of(name, width)
    cls = KINDS[kind].get_class(name)
    options = table_text(LearningRateOptions, width)
    return f"{KINDS[kind].title} {name!r}\n\n{inspect.cleandoc(cls.__doc__)}\n\nOptions of the config:\n{options}"


def _text_of_option_in_dicts(name: str, width: int) -> str | None:
    """:return: which layers, losses, data sets and so on have an option of that name, and what it means there"""
    of_layers = {option.name: option for option in public_options(common_options_of("layers"))}
    if name in of_layers:
        return f"option {name!r} of all layers (--help {COMMON})\n\n{of_layers[name].meaning}"
    owners: dict[tuple[str, str], list[str]] = {}  # by kind and meaning
    for kind in KINDS.values():
        for owner in sorted(kind.names()):
            options = {option.name: option for option in public_options(options_of(kind.get_class(owner)))}
            if name in options and not owner.startswith("_"):
                owners.setdefault((kind.title, options[name].meaning), []).append(owner)
    if not owners:
        return None
    rows = [(title, _several(names), meaning) for (title, meaning), names in owners.items()]
    return f"option {name!r} of\n\n{rows_text(['kind', 'which', 'meaning'], rows, width)}"


def _several(names: list[str]) -> str:
    shown = ", ".join(names[:_MAX_OWNERS])
    return f"{shown}, ... ({len(names)})" if len(names) > _MAX_OWNERS else shown


def _axis_text(width: int) -> str:
    """:return: the table at the head of the module that understands these descriptions"""
    before, table, after = re.split(r"((?:^\|.*\n)+)", inspect.cleandoc(tensor_axes.__doc__ or ""), flags=re.MULTILINE)
    rows = [[cell.strip().replace("`", "") for cell in line.strip("| \n").split(" | ")] for line in table.splitlines()]
    return f"{before.strip()}\n\n{rows_text(rows[0], rows[2:], width)}\n\n{after.strip()}"


# Lists of what is no class.
_LISTS_OF_OTHERS: dict[str, Callable[[int], str]] = {
    "rf": frontend_text,
    "options": options_text,
    "tasks": _tasks_text,
    "tools": _tools_text,
    "axis": _axis_text,
    COMMON: common_options_text,
}
LISTS = (*KINDS, *(name for name in _LISTS_OF_OTHERS if name != COMMON))
