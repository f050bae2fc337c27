"""
One training writes the models of a name, and no second one at the same time: the lock file `MODEL.lock` beside them.

A training that has ended does not keep it, however it has ended. On another machine, that shows by the time of the
file, which the training renews; a training that was asleep for longer notices that its lock is gone before it writes.
"""

from __future__ import annotations

import atexit
import os

from returnn.util.errors import UserError
from returnn.util.files.file_lock import LockFile

_TIMEOUT_S = 600.0


class RunLock:
    """Of one training."""

    def __init__(self, model: str) -> None:
        """:param model: option `model`, what the names of its model files begin with"""
        self.model = model
        folder, name = os.path.split(model)
        self._lock = LockFile(folder or ".", f"{name}.lock", lock_timeout=_TIMEOUT_S)
        atexit.register(self.release)

    def acquire(self) -> None:
        """
        Does nothing if this process has it already.

        :raises UserError: if another training has it
        """
        try:
            while not self._lock.try_lock():
                holder = self._lock.holder()
                if holder is None and self._lock.is_locked():
                    raise self._error("somebody")
                if holder is not None and not holder.is_this_process:
                    raise self._error(str(holder))
                if holder is not None:
                    return
        except OSError as exc:
            raise UserError(
                f"option 'model': the lock {self._lock.lockfile!r} cannot be written: {exc.strerror}."
            ) from exc

    @property
    def is_held(self) -> bool:
        """Whether this process writes the models."""
        return self._lock.fd is not None

    def check(self) -> None:
        """:raises UserError: if another training has taken it, as this one was asleep for too long"""
        if self._lock.fd is None or self._lock.is_ours():
            return
        if not os.path.exists(self._lock.lockfile):
            raise UserError(
                f"option 'model': the lock {self._lock.lockfile!r} is gone, so nothing is written.\n"
                "  Was it deleted, or its folder, while the training ran? Another one may have begun since then."
            )
        raise self._error(str(self._lock.holder() or "somebody"))

    def release(self) -> None:
        """Gives it back, if we have it."""
        atexit.unregister(self.release)
        if self._lock.fd is not None:
            self._lock.unlock()

    def _error(self, holder: str) -> UserError:
        return UserError(
            f"option 'model': {self.model!r} is trained already, by {holder}.\n"
            "  Two trainings would write over each other's models. Wait, end the other one, or set another 'model'.\n"
            f"  If there is none, delete the file {self._lock.lockfile!r}."
        )
