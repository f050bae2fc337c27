"""
Data files that change while they are read, which shows in the data as zeros, or as data of other sequences.

The size, the time and the inode of a file are compared with what they were when it was opened: at each sub-epoch, at
its end, once in `_INTERVAL_S` in between, and when reading fails. This holds for files that stay open, as they have
many sequences. What is read at once, such as a vocabulary, may change after that.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from returnn.datasets.core.errors import DataError

_INTERVAL_S = 1.0
_PAUSE_PER_CHECK = 100.0  # thousands of files on a slow file system are looked at less often


@dataclass(frozen=True)
class FileState:
    """What is compared."""

    num_bytes: int
    modified_ns: int
    inode: int
    device: int

    @classmethod
    def of(cls, filename: str) -> FileState:
        """
        :param filename: of a file
        :raises OSError: if it is not there any more
        """
        found = os.stat(filename)
        return cls(found.st_size, found.st_mtime_ns, found.st_ino, found.st_dev)


class WatchedFile:
    """A file that is to stay as it is now."""

    def __init__(self, filename: str, *, where: str, has_same_content: Callable[[], bool] = lambda: False) -> None:
        """
        :param filename: of an open file
        :param where: for errors, the data set
        :param has_same_content: whether a file of the same size is known to have the content from before, as after a
            new copy of it
        """
        self.filename = filename
        self._where = where
        self._has_same_content = has_same_content
        self._state = FileState.of(filename)
        self._last_check_s = time.monotonic()

    def check_from_time_to_time(self) -> None:
        """:raises DataError: if the file is another one now, and it was not checked for some time"""
        if time.monotonic() - self._last_check_s >= _INTERVAL_S:
            self.check()

    def check(self) -> None:
        """:raises DataError: if the file is another one now"""
        self._last_check_s = time.monotonic()
        try:
            state = FileState.of(self.filename)
        except FileNotFoundError:
            return  # what is open stays as it is, until it is closed
        except OSError as exc:
            raise self._error(f"cannot be looked at any more ({exc.strerror})") from exc
        if state == self._state:
            return
        if state.num_bytes == self._state.num_bytes and self._has_same_content():
            self._state = state
            return
        raise self._error(f"has changed while it was read: {_difference(self._state, state)}")

    def _error(self, problem: str) -> DataError:
        return DataError(
            problem,
            dataset=self._where,
            file=self.filename,
            hint="Write new data under a new name, or rename it to this one when nobody reads. Then start again.",
        )


class WatchedFiles:
    """Those of one data set."""

    def __init__(self) -> None:
        self._files: list[WatchedFile] = []
        self._next_check_s = 0.0

    def add(self, file: WatchedFile) -> None:
        """:param file: from now on, it is not to change"""
        self._files.append(file)

    def check_from_time_to_time(self) -> None:
        """:raises DataError: if a file is another one now, and they were not checked for some time"""
        if self._files and time.monotonic() >= self._next_check_s:
            self.check()

    def check(self) -> None:
        """:raises DataError: if a file is another one now"""
        start_s = time.monotonic()
        for file in self._files:
            file.check()
        end_s = time.monotonic()
        self._next_check_s = end_s + max(_INTERVAL_S, (end_s - start_s) * _PAUSE_PER_CHECK if _INTERVAL_S else 0.0)


def _difference(before: FileState, now: FileState) -> str:
    if before.num_bytes != now.num_bytes:
        return f"it had {before.num_bytes:,} bytes, and has {now.num_bytes:,}"
    if (before.inode, before.device) != (now.inode, now.device):
        return "another file has its name now"
    times = (time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(state.modified_ns / 1e9)) for state in (before, now))
    return "it was written at {}, and again at {}".format(*times)
