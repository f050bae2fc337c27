"""
Errors that a user can cause, and the wording that they share.

`UserError` and what derives from it is shown without a stack trace: its message has to say what is wrong, where,
and what is possible.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection


class UserError(ValueError):
    """Something that the user can fix: in the config, the data or the environment. Shown without a stack trace."""


class ConfigError(UserError):
    """Something that the author of a config can fix."""


class DimError(UserError):
    """Dims that do not fit together, or a description of a dim that fits none or several."""


class DtypeError(UserError):
    """Dtypes that do not fit together, or to the operation."""


class MissingPackageError(UserError, ImportError):
    """An optional package is not installed; the message has the command that installs it."""


def nearest_hint(name: str, known: Collection[str]) -> str:
    """:return: the sentence that helps somebody who wrote `name`, where one of `known` was expected"""
    nearest = difflib.get_close_matches(name, known, n=3)
    if nearest:
        return f"Did you mean {' or '.join(map(repr, nearest))}?"
    return f"Possible: {', '.join(sorted(known)) or 'nothing here'}."


def check_known(kind: str, name: str, known: Collection[str], *, where: str) -> None:
    """:raises ConfigError: if `name` is not among `known`; names the nearest ones, or else all"""
    if name in known:
        return
    raise ConfigError(f"{where}: there is no {kind} {name!r}.\n  {nearest_hint(name, known)}")
