"""
What `--help NAME` finds: options of the config, descriptions of axes, and classes.

TensorFlow takes seconds to import, so it is done only for names which a class of layers, losses, units or optimizers
has, or else nothing at all.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import returnn
from returnn.config.options import OPTIONS
from returnn.config.options.training import LearningRateOptions
from returnn.config.unsupported_options import NEEDLESS, UNSUPPORTED
from returnn.datasets.core.registry import get_dataset_class, known_dataset_classes
from returnn.datasets.util import vocabulary
from returnn.datasets.util.feature_extraction import ExtractAudioFeatures
from returnn.engine.learning_rate_control import learning_rate_control_names, learning_rate_control_type
from returnn.help.class_text import Kind, rows_text
from returnn.help.option_text import option_text, options_text, table_text
from returnn.tensor import tensor_axes

_TENSORFLOW_HELP = "returnn.tf.inspection.class_help"


def _vocabularies() -> dict[str, type]:
    found = {name: value for name, value in vars(vocabulary).items() if isinstance(value, type)}
    return {name: cls for name, cls in found.items() if issubclass(cls, vocabulary.Vocabulary)}


KINDS = {
    "datasets": Kind("data set", known_dataset_classes, get_dataset_class),
    "vocabularies": Kind("vocabulary", lambda: sorted(_vocabularies()), lambda name: _vocabularies()[name]),
    "audio_features": Kind("features", lambda: ["ExtractAudioFeatures"], lambda name: ExtractAudioFeatures),
    "learning_rate_controls": Kind("learning rate control", learning_rate_control_names, learning_rate_control_type),
}
LISTS = ("options", "axis", *KINDS)


def help_text(name: str, *, width: int) -> str:
    """
    :param name: of an option, a class, or one of the lists of all names of a kind
    :param width: of the text, in characters
    :return: about everything that has this name
    :raises ConfigError: if there is nothing of that name
    """
    if name == "options":
        return options_text(width)
    if name == "axis":
        return _axis_text(width)
    if name in KINDS:
        return KINDS[name].listing(width)
    about_option = option_text(name, width)
    found = [about_option] if about_option else []
    found += [_class_text(kind, name, width) for kind, cls in KINDS.items() if name in set(cls.names())]
    if not found or _may_be_class_for_tensorflow(name):
        more = importlib.import_module(_TENSORFLOW_HELP)
        if not found or name in more.known_names():
            found.append(more.class_help(name, width=width, other_names=_names_without_tensorflow()))
    return "\n\n".join(found)


def _names_without_tensorflow() -> list[str]:
    classes = [name for kind in KINDS.values() for name in kind.names()]
    return [*OPTIONS, *UNSUPPORTED, *NEEDLESS, *LISTS, *classes]


def _class_text(kind: str, name: str, width: int) -> str:
    if kind != "learning_rate_controls":
        return KINDS[kind].help_of(name, width)
    cls = KINDS[kind].get_class(name)
    options = table_text(LearningRateOptions, width)
    return f"{KINDS[kind].title} {name!r}\n\n{inspect.cleandoc(cls.__doc__)}\n\nOptions of the config:\n{options}"


def _axis_text(width: int) -> str:
    """:return: the table at the head of the module that understands these descriptions"""
    before, table, after = re.split(r"((?:^\|.*\n)+)", inspect.cleandoc(tensor_axes.__doc__ or ""), flags=re.MULTILINE)
    rows = [[cell.strip().replace("`", "") for cell in line.strip("| \n").split(" | ")] for line in table.splitlines()]
    return f"{before.strip()}\n\n{rows_text(rows[0], rows[2:], width)}\n\n{after.strip()}"


def _may_be_class_for_tensorflow(name: str) -> bool:
    """:return: whether the source code declares a class under this name, as far as one can see without importing it"""
    words = re.escape(name.replace("_", ""))
    declares = re.compile(
        rf"""(?:layer_class|class_name) = ["']{re.escape(name)}["']|^class {words}(?:Optimizer|Layer|Loss)?\b""",
        re.IGNORECASE | re.MULTILINE,
    )
    root = Path(returnn.__file__).parent / "tf"
    folders = [root / "layers", root / "optimizers"]
    return any(declares.search(file.read_text("utf8")) for folder in folders for file in folder.rglob("*.py"))
