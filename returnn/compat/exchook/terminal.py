"""Colors of a terminal."""

from __future__ import annotations

import code
import keyword
import os
import re
import shutil
import sys
from typing import Any, ClassVar

raw_input = input
unicode = str
PY3 = True

_STRINGS_NUMBERS_NAMES = re.compile(
    r"""(?P<str>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<comment>\#.*)|(?P<name>[A-Za-z_]\w*)|(?P<num>\d[\w.]*)"""
)


class Color:
    """Colors text by escape sequences, if it is enabled."""

    ColorIdxTable: ClassVar[dict[str, int]] = {
        name: i for i, name in enumerate(("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"))
    }

    def __init__(self, enable: bool | None = None) -> None:
        """
        :param enable: default: see `get_global_color_enabled`
        """
        self.enable = self.get_global_color_enabled() if enable is None else enable
        self.fg_colors = ["black", "cyan", "white", "yellow"]
        if self.is_dark_terminal_background():
            self.fg_colors[0], self.fg_colors[2] = self.fg_colors[2], self.fg_colors[0]

    @classmethod
    def get_global_color_enabled(cls) -> bool:
        """:return: whether the output is a terminal, and `NO_COLOR` and `CLICOLOR=0` are not set"""
        if os.environ.get("NO_COLOR") or os.environ.get("CLICOLOR") == "0":
            return False
        return os.environ.get("TERM") not in (None, "dumb") and sys.stdout is not None and sys.stdout.isatty()

    @classmethod
    def is_dark_terminal_background(cls) -> bool:
        """:return: whether the terminal says so, by the environment variable `COLORFGBG`, such as "15;0" """
        background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
        return background.isdigit() and int(background) in (*range(7), 8)

    def color(self, s: str, color: str | None = None, bold: bool = False) -> str:
        """
        :param s: text
        :param color: name of a color
        :param bold: bold
        :return: text with escape sequences
        """
        if not self.enable or not (color or bold) or not s:
            return s
        codes = (["1"] if bold else []) + ([str(30 + self.ColorIdxTable[color])] if color else [])
        return f"\x1b[{';'.join(codes)}m{s}\x1b[0m"

    def __call__(self, *args: Any, **kwargs: Any) -> str:
        """See `color`."""
        return self.color(*args, **kwargs)

    def py_syntax_highlight(self, s: str) -> str:
        """:return: Python code with colors"""

        def highlight(match: re.Match[str]) -> str:
            text = match.group()
            if match.lastgroup == "name":
                return self.color(text, color="blue", bold=True) if text in keyword.kwlist else text
            return self.color(text, color="cyan")

        return _STRINGS_NUMBERS_NAMES.sub(highlight, s) if self.enable else s


def output_limit() -> int:
    """:return: how many characters of a value are shown: some lines of the terminal"""
    return 4 * shutil.get_terminal_size((80, 25)).columns


def simple_debug_shell(globals: dict[str, Any], locals: dict[str, Any]) -> None:
    """A shell of Python, until the end of the input."""
    code.interact(banner="Debug shell. Ctrl-D leaves it.", local={**globals, **locals}, exitmsg="")
