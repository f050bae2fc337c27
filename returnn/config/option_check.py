"""
Misspelt options do nothing, silently, for days. So before the work starts, each option has to have a reader.

The toolkit knows its own options. A config may define any others, as long as it uses them itself: a name that occurs
anywhere else in the config, also inside of a string, is a helper value. What remains is an error if it looks like a
known option. Otherwise it is only mentioned, as old configs carry many options of old versions.

Some known options have no reader here either. What depends on them says `unread_options`.
"""

from __future__ import annotations

import ast
import difflib
import re
from dataclasses import dataclass
from types import FunctionType, ModuleType

from returnn.config.config import Config
from returnn.config.files import ConfigSource
from returnn.config.known_options import KNOWN_OPTIONS
from returnn.config.unread_options import NOT_OBEYED, UNSUPPORTED, WITHOUT_EFFECT
from returnn.log import log
from returnn.util.errors import ConfigError

_MIN_SIMILARITY = 0.87  # of `difflib`: one wrong letter in eight, one missing in four, two in thirteen
_MIN_LENGTH = 4
_MAX_SHOWN = 3


@dataclass(frozen=True)
class UnreadOptions:
    """Options that are set, and that nobody reads."""

    misspelt: dict[str, str]  # name -> known option
    others: list[str]  # without effect
    unsupported: list[str]  # the run would be another one
    not_obeyed: list[str]  # results may differ


def check_options(config: Config) -> None:
    """
    :param config: after everything was loaded; with `allow_unknown_options`, options may look like others
    :raises ConfigError: if an option looks like a known one, or is set and not supported
    """
    unread = find_unread_options(config)
    others = unread.others
    if config.options.allow_unknown_options:
        others = sorted([*others, *unread.misspelt])
    elif unread.misspelt:
        raise ConfigError(_describe(config, unread.misspelt))
    if unread.unsupported:
        raise ConfigError(_describe_unsupported(unread.unsupported))
    if unread.not_obeyed:
        log.print_warning(f"options that are not obeyed, so results may differ: {', '.join(unread.not_obeyed)}")
    if others:
        log.print_warning(f"options that nobody reads: {', '.join(others)}")


def find_unread_options(config: Config) -> UnreadOptions:
    """:return: the options of the config which neither the toolkit nor the config itself knows"""
    used = config.options_read.union(*(_used_in(source) for source in config.sources))
    unread = [
        name
        for name in sorted(set(config.option_names()))
        if not (name.startswith("_") or name in KNOWN_OPTIONS or name in used)
        and not isinstance(config.typed_dict.get(name), ModuleType)
    ]
    misspelt = {name: known for name in unread if (known := _nearest_option(name)) is not None}
    others = [name for name in unread if name not in misspelt and not _is_code(config.typed_dict.get(name))]
    known = [name for name in sorted(set(config.option_names())) if _is_set(config, name)]
    return UnreadOptions(
        misspelt,
        others=sorted([*others, *(name for name in known if name in WITHOUT_EFFECT)]),
        unsupported=[name for name in known if name in UNSUPPORTED],
        not_obeyed=[name for name in known if name in NOT_OBEYED],
    )


def _is_set(config: Config, name: str) -> bool:
    """:return: whether the value asks for anything"""
    value = config.bool_or_other(name) if name in config.dict else config.typed_dict.get(name)
    if isinstance(value, str):
        return value.lower() not in ("", "0", "false", "none")
    return value is not None and value is not False and not (isinstance(value, (int, float, dict)) and not value)


def _is_code(value: object) -> bool:
    return isinstance(value, (FunctionType, type))


def _used_in(source: ConfigSource) -> set[str]:
    """:return: names that the config imports or reads, and all words in its strings"""
    if source.type != "py":
        return set()
    used: set[str] = set()
    for node in ast.walk(ast.parse(source.content)):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            used.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            used.update(re.findall(r"[A-Za-z_]\w*", node.value))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            used.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
    return used


def _nearest_option(name: str) -> str | None:
    if len(name) < _MIN_LENGTH:
        return None
    by_lower_case = {known.lower(): known for known in KNOWN_OPTIONS}
    for nearest in difflib.get_close_matches(name.lower(), by_lower_case, n=3, cutoff=_MIN_SIMILARITY):
        if re.sub(r"_?\d+", "", name.lower()) != nearest:  # `train2` is a helper value
            return by_lower_case[nearest]
    return None


def _describe_unsupported(names: list[str]) -> str:
    lines = [f"option {name!r} is not supported: {UNSUPPORTED[name]}." for name in names[:_MAX_SHOWN]]
    return "\n  ".join([*lines, "The run would not be what the config asks for; leave it out."])


def _describe(config: Config, misspelt: dict[str, str]) -> str:
    where = f"config {config.files[-1]!r}" if config.files else "config"
    shown = list(misspelt.items())[:_MAX_SHOWN]
    lines = [f"there is no option {name!r}. Did you mean {known!r}?" for name, known in shown]
    if len(misspelt) > len(shown):
        lines[-1] += f" And {len(misspelt) - len(shown)} more."
    return "\n  ".join([f"{where}: {lines[0]}", *lines[1:], "allow_unknown_options = True turns this check off."])
