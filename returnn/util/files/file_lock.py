"""
A lock between processes, also on different machines, by a file in a shared folder.

The operating system's own locks are not reliable on network file systems, making a file exclusively is. Its drawback
is that the lock of a killed process stays. So the holder is written into it: a process of this machine has it as long
as it is there, and no longer. Those of other machines, or of a file that does not say who it is, renew the time of the
file. One which is too old does not count, by the clock of the file system, as those of machines differ. Neither does
one from a time to come: a clock was wrong then, or else it would be renewed.
"""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import threading
import time

from returnn.util.files.lock_holder import LockHolder
from returnn.util.system.waiting import Waiting

_POLL_S = 1.0
_WAIT_LIMIT_S = 3600.0


class LockFile:
    """Use it in a `with`."""

    def __init__(self, directory: str, name: str = "lock_file", lock_timeout: float = 3600):
        """
        :param directory: is made if it is not there
        :param name: of the file in it
        :param lock_timeout: in seconds; a lock that was not renewed for so long is left from a process that died
        """
        self.directory = directory
        self.name = name
        self.fd: int | None = None
        self.lock_timeout = lock_timeout
        self.lockfile = os.path.join(directory, name)
        self._stop_renewing = threading.Event()

    def __enter__(self) -> LockFile:
        self.lock()
        return self

    def __exit__(self, *_exc_info: object) -> None:
        self.unlock()

    def is_locked(self) -> bool:
        """:return: whether somebody holds it"""
        return os.path.exists(self.lockfile) and not self.is_old_lockfile()

    def is_old_lockfile(self) -> bool:
        """:return: whether there is a file which does not count any more"""
        return self._is_stale(self.lockfile)

    def holder(self) -> LockHolder | None:
        """:return: who has it; None if nobody has, or it is not known"""
        return LockHolder.of_file(self.lockfile) if self.is_locked() else None

    def is_ours(self) -> bool:
        """:return: whether we hold it, and nobody has taken it as too old while we were asleep"""
        try:
            return self.fd is not None and os.path.samestat(os.fstat(self.fd), os.stat(self.lockfile))
        except FileNotFoundError:
            return False

    def _is_stale(self, filename: str) -> bool:
        holder = LockHolder.of_file(filename)
        if holder is not None and holder.is_of_this_machine:
            return holder.is_dead
        now_s = self._time_of_folder()
        try:
            return abs(now_s - os.stat(filename).st_mtime) > self.lock_timeout
        except FileNotFoundError:
            return False

    def _time_of_folder(self) -> float:
        """:return: what a file gets as its time now"""
        try:
            with tempfile.TemporaryFile(dir=self.directory) as file:
                return os.fstat(file.fileno()).st_mtime
        except OSError:  # then nobody will lock anything either
            return time.time()

    def maybe_remove_old_lockfile(self) -> None:
        """Removes a file which does not count any more. Of several processes that try it at once, one does it."""
        if not self.is_old_lockfile():
            return
        stale = f"{self.lockfile}.stale.{socket.gethostname()}.{os.getpid()}.{threading.get_ident()}"
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.lockfile, stale)
            if not self._is_stale(stale):  # somebody was faster, it is a new one
                with contextlib.suppress(FileExistsError):
                    os.link(stale, self.lockfile)
            os.unlink(stale)

    def try_lock(self) -> bool:
        """:return: whether we hold it now; does not wait"""
        os.makedirs(self.directory, exist_ok=True)
        self.maybe_remove_old_lockfile()
        try:
            self.fd = os.open(self.lockfile, os.O_CREAT | os.O_EXCL | os.O_RDWR)
        except FileExistsError:
            return False
        os.write(self.fd, LockHolder.this_process().text().encode())
        self._stop_renewing = threading.Event()
        threading.Thread(target=self._renew, args=(self._stop_renewing,), daemon=True).start()
        return True

    def lock(self) -> None:
        """
        Waits until we hold it.

        :raises UserError: if that takes an hour
        """
        waiting = Waiting(lambda: f"lock {self.lockfile!r} of {self.holder() or 'somebody'}", limit_s=_WAIT_LIMIT_S)
        while not self.try_lock():
            waiting.check()
            time.sleep(_POLL_S)

    def unlock(self) -> None:
        """Gives it back."""
        assert self.fd is not None, "is not locked"
        self._stop_renewing.set()
        with contextlib.suppress(FileNotFoundError):
            if self.is_ours():  # otherwise we were asleep for so long that it belongs to somebody else
                os.unlink(self.lockfile)
        os.close(self.fd)
        self.fd = None

    def _renew(self, stop: threading.Event) -> None:
        while not stop.wait(self.lock_timeout / 4):
            with contextlib.suppress(FileNotFoundError):
                os.utime(self.lockfile)
