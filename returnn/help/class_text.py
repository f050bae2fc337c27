"""Help about classes that a config can name: it follows from their docstrings, and the signatures of `__init__`."""

from __future__ import annotations

import inspect
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from returnn.tf.layers.options.layer_options import Option, options_of
from returnn.util.not_specified import NotSpecified

OPTION_COLUMNS = ("option", "default", "meaning")
_INTERNAL = (
    "self",
    "name",
    "network",
    "output",
    "sources",
    "rec_previous_layer",
    "base_network",
    "parent_dataset",
    "num_units",
    "learning_rate",
    "use_locking",
)


@dataclass(frozen=True)
class Kind:
    """Classes of one kind."""

    title: str  # "data set"
    names: Callable[[], Iterable[str]]
    get_class: Callable[[str], Any]
    is_derived_from: bool = False  # by users, who have to know where it is

    def listing(self, width: int) -> str:
        """:return: all names, each with the first sentence of its documentation"""
        rows = [(name, first_sentence(self.get_class(name))) for name in self.shown_names()]
        return rows_text(["name", "what it is"], rows, width)

    def shown_names(self) -> list[str]:
        """:return: those which a list has: none that is another one with a suffix"""
        names = [name for name in self.names() if not name.startswith("_")]
        return [name for name in names if name.removesuffix("optimizer") not in set(names) - {name}]

    def help_of(self, name: str, width: int) -> str:
        """:return: what the class is for, and its options"""
        cls = self.get_class(name)
        of_module = f" of {cls.__module__}" if self.is_derived_from else ""
        return class_text(f"{self.title} {name!r}{of_module}", cls, width)


def class_text(
    title: str,
    cls: type,
    width: int,
    *,
    common: Mapping[str, Option] | None = None,
    row: Callable[[Option], tuple[str, str, str]] | None = None,
) -> str:
    """
    :param title: the first line
    :param cls: the class
    :param width: of the text, in characters
    :param common: options that all classes of its kind have; they are left out
    :param row: what is shown of an option, by default `option_row`
    :return: what the class is for, and its options
    """
    own = [
        option
        for option in public_options(options_of(cls))
        if common is None or option.name not in common or common[option.name].init is not option.init
    ]
    table = (
        rows_text(OPTION_COLUMNS, map(row or option_row, own), width) if own else ""
    ) or "It has no options of its own."
    return "\n\n".join(part for part in (title, inspect.cleandoc(cls.__doc__ or "").strip(), table) if part)


def first_sentence(cls: type) -> str:
    """:return: of its documentation, with its period"""
    return first_sentence_of(cls.__doc__ or "")


def first_sentence_of(text: str) -> str:
    """
    :param text: documentation
    :return: its first sentence, with its period
    """
    paragraph = inspect.cleandoc(text).partition("\n\n")[0].replace("\n", " ")
    periods = (match.start() for match in re.finditer(r"(?<!\bal)[.] ", paragraph))
    end = next((period for period in periods if paragraph.count("`", 0, period) % 2 == 0), None)  # not inside of code
    sentence = paragraph[:end].rstrip(" .:,")
    return f"{sentence}." if sentence else ""


def public_options(options: Mapping[str, Option]) -> list[Option]:
    """:return: those which a config can set"""
    return [option for name, option in options.items() if name not in _INTERNAL and not name.startswith("_")]


def options_table(options: Sequence[Option], width: int) -> str:
    """:return: a line for each, empty if there is none"""
    return rows_text(OPTION_COLUMNS, map(option_row, options), width) if options else ""


def option_row(option: Option) -> tuple[str, str, str]:
    """:return: name, default, meaning"""
    default = "required" if option.is_required else ""
    if not option.is_required and option.default is not NotSpecified:
        default = getattr(option.default, "__name__", None) or repr(option.default)
    return option.name, default, option.meaning


def rows_text(columns: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> str:
    """:return: a table"""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, no_wrap=column == columns[0], overflow="fold")
    for row in rows:
        table.add_row(*row)
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, markup=False, emoji=False).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())
