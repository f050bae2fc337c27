"""What stands beside a file that is not there: messages about it name the nearest one."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Sequence

from returnn.util.errors import ConfigError

_MAX_SHOWN = 5


def hint_for_missing_file(filename: str, *, is_wanted: Callable[[str], bool] = lambda name: True) -> str:
    """
    :param filename: of a file that is not there; or of a folder, where a file is needed
    :param is_wanted: whether a file of that name could be meant
    :return: a line, with a line end before it: near names, or those of the same kind by their suffix; or the files in
        the folder; "" if there are none, or if the file is there
    """
    if os.path.isfile(filename):  # and cannot be read
        return ""
    folder, name = os.path.split(filename)
    if os.path.isdir(filename):
        inside = [os.path.join(filename, entry) for entry in _files_in(filename) if is_wanted(entry)]
        return f"\n  Files in it: {', '.join(map(repr, inside[:_MAX_SHOWN]))}." if inside else ""
    if folder and not os.path.isdir(folder):
        return f"\n  There is no folder {folder!r}."
    known = [entry for entry in _files_in(folder or os.curdir) if is_wanted(entry)]
    nearest = [os.path.join(folder, entry) for entry in difflib.get_close_matches(name, known, n=3)]
    if nearest:
        return f"\n  Did you mean {' or '.join(map(repr, nearest))}?"
    suffix = os.path.splitext(name)[1]
    alike = [os.path.join(folder, entry) for entry in known if suffix and entry.endswith(suffix)]
    are = "is" if len(alike) == 1 else "are"
    return f"\n  There {are} {', '.join(map(repr, alike[:_MAX_SHOWN]))}." if alike else ""


def check_file(filename: str | None, *, where: str) -> None:
    """
    :param filename: of a file that is needed later; None if none is
    :param where: how the message begins
    :raises ConfigError: if there is no such file
    """
    if filename is not None and not os.path.exists(filename):
        raise ConfigError(f"{where}: there is no file {filename!r}.{hint_for_missing_file(filename)}")


def _files_in(folder: str) -> Sequence[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_file())
    except OSError:  # a folder that nobody may look into: there is nothing to propose
        return []
