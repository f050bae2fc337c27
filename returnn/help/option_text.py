"""Help about options of the config: it follows from their declarations."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import returnn
from returnn.config.option import Option, OptionTable
from returnn.config.option_types import params_in_docstring
from returnn.config.options import OPTIONS, TABLES, options_of_table
from returnn.config.unsupported_options import NEEDLESS, UNSUPPORTED
from returnn.help.class_outline import outline_of
from returnn.help.class_text import OPTION_COLUMNS, rows_text


def options_text(width: int) -> str:
    """:return: all options of the config, by theme"""
    return "\n\n".join(f"{theme_of(table)}\n\n{table_text(table, width)}" for table in TABLES)


def table_text(table: type[OptionTable], width: int) -> str:
    """:return: a line for each option of a theme"""
    rows = [(name, default_of(option), option.purpose) for name, option in options_of_table(table).items()]
    return rows_text(OPTION_COLUMNS, rows, width)


_READS_BY_NAMES = re.compile(r"getattr\((self\.)?(config\.)?options, ")


def option_text(name: str, width: int) -> str | None:
    """:return: about one option; None if there is none of that name"""
    if name in UNSUPPORTED:
        return f"option {name!r} is not supported: {UNSUPPORTED[name]}."
    if name in NEEDLESS:
        return f"option {name!r} changes nothing: {NEEDLESS[name]}."
    if name not in OPTIONS:
        return None
    option = OPTIONS[name]
    lines = [
        f"option {name!r}",
        "",
        option.purpose,
        "",
        f"values:  {option.kind.expected}",
        f"default: {default_of(option) or 'none'}",
    ]
    readers = readers_of(name)
    if readers:
        lines.append(f"read by: {', '.join(readers)}")
    if option.keys_of:
        lines += ["", "keys of the dict:", "", keys_text(option.keys_of, width, without=option.no_keys)]
    return "\n".join(lines)


def default_of(option: Option[Any]) -> str:
    """:return: empty if there is none"""
    return "" if option.default in (None, (), []) and option.falls_back_to is None else option.default_text


def theme_of(table: type[OptionTable]) -> str:
    """:return: what the options of the table are about"""
    return inspect.cleandoc(table.__doc__ or "").rstrip(".")


def readers_of(name: str) -> list[str]:
    """:return: files in which the option is read, also by a list of names; or else, which have its name"""
    # To look for the name alone takes a hundredth of the time, and most files do not have it.
    sources = {file: content for file, content in _sources().items() if name in content}
    has_name = {file for file, content in sources.items() if re.search(rf"[\"']{name}[\"']", content)}
    reads = {file for file, content in sources.items() if re.search(rf"\boptions\.{name}\b", content)}
    reads |= {file for file in has_name if _READS_BY_NAMES.search(sources[file])}
    return sorted(reads or has_name)


@functools.cache
def _sources() -> dict[str, str]:
    """:return: the code of the toolkit by file, without the declarations"""
    root = Path(returnn.__file__).parent
    files = [file for file in sorted(root.rglob("*.py")) if root / "config" not in file.parents]
    return {str(file.relative_to(root.parent)): file.read_text(encoding="utf8") for file in files}


def keys_text(path: str, width: int, *, without: Collection[str] = ()) -> str:
    """
    :param path: `keys_of` an option: what takes these keys
    :param width: of the text, in characters
    :param without: arguments that are no keys
    :return: a line for each key
    """
    module, _, name = path.partition(":")
    cls = outline_of(module, name)
    meanings = {**params_in_docstring(cls), **params_in_docstring(cls.__init__)}
    rows = []
    for key, parameter in inspect.signature(cls).parameters.items():
        default = "required" if parameter.default is parameter.empty else repr(parameter.default)
        if key not in without:
            rows.append((key, default, meanings.get(key, "")))
    return rows_text(("key", "default", "meaning"), rows, width)
