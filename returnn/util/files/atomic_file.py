"""
Files that are complete or absent: written aside, synced, renamed.

What is no file, such as /dev/stdout, /dev/null or a FIFO, is written as it is: renaming would take its place.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from typing import IO, Any

from returnn.util.errors import UserError
from returnn.util.files.aside import mode_of_new, open_aside

_OWN_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}


@contextlib.contextmanager
def open_atomic(filename: str | os.PathLike[str], mode: str = "w", **open_opts: Any) -> Iterator[IO[Any]]:
    """
    Opens a file for writing. It gets its name when the context ends without an exception; until then, and after a
    crash at any moment, the old file is there as it was.

    :param filename: to write
    :param mode: "w" or "wb"
    :param open_opts: further arguments of `open`
    :raises UserError: if the file cannot be written
    """
    path = os.path.realpath(filename)
    opts = open_opts if "b" in mode else {"encoding": "utf8", **open_opts}
    if _is_stream(filename):
        own = _OWN_STREAMS.get(os.path.abspath(filename))
        # The same descriptor goes on where the process has written to, if its output is a file.
        with _explain_failure(filename), open(filename if own is None else os.dup(own), mode, **opts) as file:
            yield file
        return
    with _explain_failure(filename):
        handle, temp_path = open_aside(path)
    try:
        with _explain_failure(filename), open(handle, mode, **opts) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), mode_of_new(path))
        with _explain_failure(filename):
            os.replace(temp_path, path)
            sync_folder(_folder(path))
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temp_path)
        raise


def write_atomic(filename: str | os.PathLike[str], content: str | bytes) -> None:
    """
    :param filename: to write
    :param content: all of it
    :raises UserError: if the file cannot be written
    """
    with open_atomic(filename, "wb" if isinstance(content, bytes) else "w") as file:
        file.write(content)


def check_writable(filename: str | os.PathLike[str]) -> None:
    """
    To be called before the work of hours whose result goes there.

    :param filename: will be written
    :raises UserError: if it cannot be
    """
    try:
        if _is_stream(filename):
            if not os.access(filename, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return
        tempfile.TemporaryFile(dir=_folder(os.path.realpath(filename))).close()
    except OSError as exc:
        raise UserError(f"cannot write the file {os.fspath(filename)!r}: {_reason(exc, filename)}.") from exc


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Makes sure that what was renamed, made or deleted in a folder is so after a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_stream(filename: str | os.PathLike[str]) -> bool:
    """:return: whether it is a device, a FIFO, or what this process writes to anyway"""
    try:
        mode = os.stat(filename).st_mode
    except OSError:
        return False
    return os.path.abspath(filename) in _OWN_STREAMS or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _folder(path: str) -> str:
    return os.path.dirname(path) or "."


@contextlib.contextmanager
def _explain_failure(filename: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        if exc.filename is not None and os.fspath(exc.filename) != os.fspath(filename) and ".tmp" not in exc.filename:
            raise  # the caller failed with another file
        raise UserError(f"cannot write the file {os.fspath(filename)!r}: {_reason(exc, filename)}.") from exc


def _reason(exc: OSError, filename: str | os.PathLike[str]) -> str | None:
    folder = _folder(os.fspath(filename))
    is_missing = exc.errno == errno.ENOENT and not os.path.exists(folder)
    return f"there is no folder {folder!r}" if is_missing else exc.strerror
