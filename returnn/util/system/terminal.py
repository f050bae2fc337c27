"""What a person sees and answers in a terminal."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import Any, TextIO

from returnn.util.errors import UserError
from returnn.util.texts.human_readable import hms

_DEFAULT_SIZE = (80, 25)  # columns, lines
_start_of_progress: dict[str, float] = {}


def is_tty(file: TextIO | None = None) -> bool:
    """
    :param file: stdout by default
    :return: whether it is a terminal
    """
    file = sys.stdout if file is None else file
    return bool(getattr(file, "isatty", lambda: False)())


def terminal_size(file: TextIO | None = None) -> tuple[int, int]:
    """
    :param file: stdout by default
    :return: columns and lines; (-1, -1) if it is no terminal
    """
    if not is_tty(file):
        return -1, -1
    size = shutil.get_terminal_size(_DEFAULT_SIZE)
    return size.columns, size.lines


def progress_bar(complete: float = 1.0, prefix: str = "", suffix: str = "", file: TextIO | None = None) -> None:
    """
    Draws a line over the one before; draws nothing if it is no terminal.

    :param complete: from 0 to 1
    :param prefix: before the bar
    :param suffix: after it
    :param file: stdout by default
    """
    file = sys.stdout if file is None else file
    columns, _ = terminal_size(file)
    if columns < 0:
        return
    if complete >= 1:
        file.write("\r" + columns * " " + "\r")
        file.flush()
        return
    percent = f" {100 * complete:.2f}% "
    width = max(columns - len(prefix) - len(suffix) - len(percent) - 4, 0)
    filled = round(width * complete)
    file.write(f"\r{prefix} [{'|' * filled}{' ' * (width - filled)}]{percent}{suffix}")
    file.flush()


def progress_bar_with_time(complete: float = 1.0, prefix: str = "", **kwargs: Any) -> None:
    """
    Like `progress_bar`, with the remaining time.

    :param complete: from 0 to 1
    :param prefix: before the bar; tells several bars apart
    """
    now = time.monotonic()
    started = _start_of_progress.setdefault(prefix, now)
    left = (now - started) / complete * (1 - complete) if complete > 0 else 0
    if complete >= 1:
        del _start_of_progress[prefix]
    progress_bar(complete, prefix=f"{hms(left)} {prefix}", **kwargs)


def confirm(txt: str, exit_on_false: bool = False) -> bool:
    """
    Asks the person.

    :param txt: the question
    :param exit_on_false: whether "no" ends the process
    :return: the answer; True without asking if the environment variable RETURNN_CONFIRM is "1"
    :raises UserError: if nobody is there
    """
    if os.environ.get("RETURNN_CONFIRM") == "1":
        return True
    while True:
        try:
            answer = input(f"{txt} Confirm? [Y/n] ").strip().lower()
        except EOFError as exc:
            raise UserError(f"{txt}\n  Nobody is there to answer; RETURNN_CONFIRM=1 means yes.") from exc
        if answer in ("", "y", "yes"):
            return True
        if answer in ("n", "no"):
            if exit_on_false:
                sys.exit(1)
            return False
