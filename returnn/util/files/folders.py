"""Folders for temporary and cached files, and who and where we are."""

from __future__ import annotations

import getpass
import os
import socket
import tempfile


def get_login_username() -> str:
    """:return: name of the user"""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without an entry for this user
        return str(os.getuid())


def get_hostname() -> str:
    """:return: name of the machine"""
    return socket.gethostname()


def get_temp_dir(*, with_username: bool = True) -> str:
    """
    :param with_username: whether to add a folder of the user
    :return: where temporary files go; `TMPDIR`, `TEMP` and `TMP` say so. The folder may not exist yet.
    """
    for name in ("TMPDIR", "TEMP", "TMP"):
        folder = os.environ.get(name)
        if folder and os.access(folder, os.W_OK):
            break
    else:
        folder = tempfile.gettempdir()
    return os.path.join(folder, get_login_username()) if with_username else folder


def get_cache_dir() -> str:
    """:return: where compiled code and other files that can be made again go; `RETURNN_CACHE_DIR` sets it"""
    return os.environ.get("RETURNN_CACHE_DIR") or os.path.join(get_temp_dir(), "returnn")


def maybe_make_dirs(dirname: str) -> None:
    """Makes the folder, and those it is in, if they are not there."""
    os.makedirs(dirname, exist_ok=True)


def touch_file(filename: str, *, mode: int = 0o666) -> None:
    """
    Makes an empty file, or sets its time to now.

    :param filename: of the file
    :param mode: permissions of a new one
    """
    os.close(os.open(filename, os.O_CREAT | os.O_WRONLY, mode))
    os.utime(filename)
