"""Folders for temporary and cached files, and who and where we are."""

from __future__ import annotations

import contextlib
import getpass
import os
import socket
import stat
import tempfile

from returnn.util.errors import ConfigError


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


def make_private_folder(folder: str) -> None:
    """
    Makes a folder where nobody else can put anything. Those in which it is have to exist, or are made as well.

    :param folder: is made with mode 0700 if it is not there; one of our own that others may only read gets that mode
    :raises ConfigError: if it cannot be made, belongs to somebody else, or others may have written there
    """
    try:
        os.makedirs(os.path.dirname(folder) or ".", mode=0o700, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
    except OSError as exc:
        raise ConfigError(
            f"cannot make the folder {folder!r}: {exc.strerror}.\n"
            "  The environment variable RETURNN_CACHE_DIR names another place for compiled code."
        ) from exc
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode):
        problem = "is not a folder"
    elif found.st_uid != os.geteuid():
        problem = f"belongs to another user, with the id {found.st_uid}"
    elif found.st_mode & 0o022:
        problem = f"can be written by others (mode {stat.S_IMODE(found.st_mode):04o})"
    else:
        if found.st_mode & 0o077:
            os.chmod(folder, 0o700)
        return
    raise ConfigError(
        f"{folder!r} {problem}, so code that is there is not run.\n"
        "  Delete it, or set the environment variable RETURNN_CACHE_DIR to a folder that is yours alone."
    )


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
