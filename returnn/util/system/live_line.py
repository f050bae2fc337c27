"""
The last line of a terminal, written over again and again, for what changes all the time.

There is one, `live_line`. Whoever prints something else clears it before.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence

from returnn.util.system.terminal import is_tty, terminal_size

_CLEAR = "\r\x1b[K"


class LiveLine:
    """Shows one line, cut to the width that the terminal has at that moment."""

    def __init__(self) -> None:
        self._is_shown = False
        self._lock = threading.RLock()

    @staticmethod
    def is_possible() -> bool:
        """:return: whether stdout is a terminal that can do it"""
        return is_tty() and os.environ.get("TERM") != "dumb"

    def show(self, parts: Sequence[str]) -> None:
        """:param parts: of the line, the most important ones first; the last ones are left out if it is narrow"""
        text = fit(parts, terminal_size()[0] - 1)  # a full line would wrap on some terminals
        with self._lock:
            self._is_shown = True
            sys.stdout.write(f"{_CLEAR}{text}")
            sys.stdout.flush()

    def clear(self) -> None:
        """Takes the line away, if there is one."""
        with self._lock:
            if self._is_shown:
                self._is_shown = False
                sys.stdout.write(_CLEAR)
                sys.stdout.flush()


def fit(parts: Sequence[str], columns: int) -> str:
    """
    :param parts: the most important ones first
    :param columns: of the terminal
    :return: as many of the parts as there is room for, at least the start of the first
    """
    line = ""
    for part in parts:
        longer = f"{line}, {part}" if line else part
        if line and len(longer) > columns:
            break
        line = longer
    return line[: max(columns, 0)]


live_line = LiveLine()
