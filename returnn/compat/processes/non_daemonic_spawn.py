"""
A context of `multiprocessing` whose processes are never daemons, also where a library wants them to be, such as the
workers of a data loader. So they can have processes of their own. They are ended with this process nevertheless.
"""

from __future__ import annotations

import multiprocessing.util
import weakref
from collections.abc import Callable
from multiprocessing.context import BaseContext, SpawnProcess
from multiprocessing.process import BaseProcess
from typing import Any, ClassVar

_running: weakref.WeakSet[NonDaemonicSpawnProcess] = weakref.WeakSet()


class NonDaemonicSpawnProcess(SpawnProcess):
    """A process of this context."""

    pre_init_func: ClassVar[Callable[[], None] | None] = None

    def __reduce__(self) -> tuple[Any, ...]:
        """The function runs in the new process before anything else of this object is read there."""
        return _make_process, (self.pre_init_func,), self.__dict__

    @property  # type: ignore[override]
    def daemon(self) -> bool:
        """False."""
        return False

    @daemon.setter
    def daemon(self, daemonic: bool) -> None:
        """Changes nothing."""

    def start(self) -> None:
        """Starts it."""
        super().start()
        _running.add(self)

    def join(self, timeout: float | None = None) -> None:
        """Waits for its end."""
        super().join(timeout)
        if self.exitcode is not None:
            _running.discard(self)

    def terminate(self) -> None:
        """Ends it."""
        super().terminate()
        _running.discard(self)

    def kill(self) -> None:
        """Ends it at once."""
        super().kill()
        _running.discard(self)

    def close(self) -> None:
        """Frees what belongs to it. It has to have ended."""
        super().close()
        _running.discard(self)


class NonDaemonicSpawnContext(BaseContext):
    """Like `multiprocessing.get_context("spawn")`."""

    _name = "spawn_non_daemonic"

    def __init__(self, *, process_pre_init_func: Callable[[], None] | None = None) -> None:
        """
        :param process_pre_init_func: is called first in each process
        """
        super().__init__()
        self.process_pre_init_func = process_pre_init_func

    def Process(self, *args: Any, **kwargs: Any) -> NonDaemonicSpawnProcess:
        """:return: a process, see `multiprocessing.Process`"""
        process = NonDaemonicSpawnProcess(*args, **kwargs)
        process.pre_init_func = self.process_pre_init_func  # type: ignore[misc]
        return process

    def get_start_method(self, allow_none: bool = False) -> str:
        """:return: "spawn" """
        return "spawn"


def _make_process(pre_init: Callable[[], None] | None) -> NonDaemonicSpawnProcess:
    if pre_init is not None:
        pre_init()
    return NonDaemonicSpawnProcess.__new__(NonDaemonicSpawnProcess)


def _end_all() -> None:
    for process in list(_running):
        if process._popen is not None and process.exitcode is None:
            process.terminate()
            BaseProcess.join(process, timeout=5.0)
            if process.exitcode is None:
                process.kill()


multiprocessing.util.Finalize(None, _end_all, exitpriority=20)  # before it waits for its processes
