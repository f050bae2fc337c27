"""Other names of parameters, by patterns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy

from returnn.util.errors import UserError


def rename(values: Mapping[str, numpy.ndarray], rules: Sequence[tuple[str, str]]) -> dict[str, numpy.ndarray]:
    """
    :param values: by name
    :param rules: pattern (a regular expression), replacement; all of them are tried, one after the other
    :raises UserError: if a pattern is wrong or fits nothing, or two parameters get the same name
    """
    names = {name: name for name in values}
    for pattern, replacement in rules:
        try:
            changed = {name: re.sub(pattern, replacement, new) for name, new in names.items()}
        except (re.error, IndexError) as exc:
            raise UserError(f"option '--rename': {pattern!r}, {replacement!r}: {exc}.") from exc
        if changed == names:
            raise UserError(f"option '--rename': {pattern!r} is in no name, such as {next(iter(values), None)!r}.")
        names = changed
    return _with_names(values, names)


def _with_names(values: Mapping[str, numpy.ndarray], names: Mapping[str, str]) -> dict[str, numpy.ndarray]:
    result: dict[str, numpy.ndarray] = {}
    for name, value in values.items():
        if names[name] in result:
            twin = next(other for other, new in names.items() if new == names[name])
            raise UserError(f"{twin!r} and {name!r} would both be {names[name]!r}.")
        result[names[name]] = value
    return result
