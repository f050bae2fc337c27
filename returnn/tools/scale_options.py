"""Options about scales, given as names and values in turn: `--fixed-scales am 1 lm 0.5`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from returnn.util.errors import UserError, check_known


def scale_ranges(args: argparse.Namespace) -> dict[str, tuple[float, float]]:
    """
    :param args: with `names`, `scores`, and the options about scales
    :return: by name, lowest and highest value; they are the same if the scale is fixed
    :raises UserError: if the options do not fit together
    """
    names = args.names
    if len(args.scores) != len(names) or len(set(names)) != len(names):
        raise UserError(f"option '--scores': {len(args.scores)} files for {len(set(names))} different names.")
    fixed = _numbers(args.fixed_scales, names, option="--fixed-scales")
    lowest = _numbers(args.min_scales, names, option="--min-scales")
    highest = _numbers(args.max_scales, names, option="--max-scales")
    for name in args.negative_scales:
        check_known("score", name, names, where="option '--negative-scales'")
    relative = pairs_of(args.scale_relative_to, names, option="--scale-relative-to")
    _check_no_circle(relative)
    ranges = {}
    for name in names:
        low, high = lowest.get(name, 0.0), highest.get(name, args.max_scale)
        if name in fixed:
            low = high = fixed[name]
        if low > high:
            raise UserError(f"scale {name!r}: the lowest value {low:g} is above the highest one, {high:g}.")
        ranges[name] = low, high
    return ranges


def pairs_of(given: Sequence[str], names: Sequence[str], *, option: str) -> dict[str, str]:
    """
    :param given: names and values in turn
    :param names: that there are
    :param option: for messages
    :raises UserError: if a value is missing, or a name is unknown
    """
    if len(given) % 2:
        raise UserError(f"option {option!r}: {' '.join(given)!r}: expected names and values in turn.")
    pairs = dict(zip(given[::2], given[1::2], strict=True))
    for name in pairs:
        check_known("score", name, names, where=f"option {option!r}")
    if option == "--scale-relative-to":
        for name in pairs.values():
            check_known("score", name, names, where=f"option {option!r}")
    return pairs


def _numbers(given: Sequence[str], names: Sequence[str], *, option: str) -> dict[str, float]:
    numbers = {}
    for name, text in pairs_of(given, names, option=option).items():
        try:
            numbers[name] = float(text)
        except ValueError as exc:
            raise UserError(f"option {option!r}: {name!r}: {text!r} is no number.") from exc
    return numbers


def _check_no_circle(relative: dict[str, str]) -> None:
    for start in relative:
        name, seen = start, {start}
        while name in relative:
            name = relative[name]
            if name in seen:
                raise UserError(f"option '--scale-relative-to': {start!r} is relative to itself.")
            seen.add(name)
