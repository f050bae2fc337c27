"""
`CommandParser`: the arguments of a command, where a mistake is said in two lines.

`argparse` prints the usage before it, which has twenty lines for some tools; what is wrong is the last of them.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from typing import Any, NoReturn

_STATUS = 2  # as argparse has it


class CommandParser(argparse.ArgumentParser):
    """Parses all arguments of a command. Options are written in full, so that new ones change nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """See `argparse.ArgumentParser`."""
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """
        :return: the values; an option that there is not ends the process, with the name that may be meant.
            Options can be anywhere between the arguments, as `config --epoch 3 output`, also where an argument may be
            left out: `argparse` takes those that are there up to the first option for all
        """
        takes_the_rest = any(action.nargs in (argparse.REMAINDER, argparse.PARSER) for action in self._actions)
        parse = self.parse_known_args if takes_the_rest else self.parse_known_intermixed_args
        values, unknown = parse(args, namespace)
        if unknown:
            option = next((text for text in unknown if text.startswith("-")), unknown[0]).partition("=")[0]
            hint = self._nearest(option) if option.startswith("-") else ""
            self._end(f"unrecognized arguments: {' '.join(unknown)}", hint)
        return values

    def error(self, message: str) -> NoReturn:
        """:param message: what is wrong"""
        self._end(message, "")

    def _end(self, message: str, hint: str) -> NoReturn:
        self.exit(_STATUS, f"error: {message}.\n  {hint}'{self.prog} --help' lists what is possible.\n")

    def _nearest(self, option: str) -> str:
        by_dashes = {name.replace("_", "-").lower(): name for name in self._option_string_actions}
        nearest = difflib.get_close_matches(option.replace("_", "-").lower(), by_dashes, n=1)
        return f"Did you mean {by_dashes[nearest[0]]!r}? " if nearest else ""
