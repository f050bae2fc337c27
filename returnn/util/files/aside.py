"""
Files beside the one that is written, which get its name when they are complete.

The process that writes one holds a lock on it, which the system takes back when the process ends, however it does. So
what is not locked is the rest of a process that was killed, also on another machine, and can be removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import tempfile


def open_aside(path: str, *, prefix: str | None = None) -> tuple[int, str]:
    """
    Makes a file in the folder of another one, and removes what killed processes have left there for that.

    :param path: of the file that will be replaced
    :param prefix: of the new name; default: hidden
    :return: descriptor, open to read and write, whose file is locked as long as it is open; and the name
    :raises OSError: if it cannot be written
    """
    folder, name = os.path.split(path)
    prefix = f".{name}." if prefix is None else prefix
    _remove_remains(folder or ".", prefix)
    while True:
        handle, aside = tempfile.mkstemp(prefix=prefix, suffix=".tmp", dir=folder or ".")
        with contextlib.suppress(OSError):  # no locks here: nobody removes it then
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return handle, aside
        os.close(handle)  # somebody has taken it for the rest of a killed process, before it was locked


def mode_of_new(path: str) -> int:
    """:return: permissions of the file that is replaced, otherwise those that a new one gets"""
    if os.path.exists(path):
        return os.stat(path).st_mode & 0o777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def _remove_remains(folder: str, prefix: str) -> None:
    pattern = re.compile(re.escape(prefix) + r"\w{8}\.tmp")
    for name in _old_files_aside(folder):
        if pattern.fullmatch(name):
            with contextlib.suppress(OSError):  # it is gone, or belongs to somebody else
                _remove_if_unlocked(os.path.join(folder, name))


@functools.lru_cache(maxsize=100)
def _old_files_aside(folder: str) -> tuple[str, ...]:
    """:return: names of what was there when this process first wrote to the folder, which may have many files"""
    try:
        return tuple(name for name in os.listdir(folder) if name.endswith(".tmp"))
    except OSError:  # one can write to a folder that one cannot read
        return ()


def _remove_if_unlocked(path: str) -> None:
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.remove(path)
    finally:
        os.close(handle)
