"""
The process of a worker: how it is started, and how it ends.

It is a fresh process where that is possible, and a fork otherwise. A fork of a process with threads is not safe, but
functions and classes of a config, a script or a notebook cannot be sent to a fresh one.
"""

from __future__ import annotations

import contextlib
import importlib.util
import multiprocessing
import os
import pickle
import pickletools
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Protocol

from returnn.config.current import MODULE_NAME as CONFIG_MODULE_NAME
from returnn.datasets.core.registry import DatasetDict
from returnn.util.system.child_process import is_started_by_main_thread, options_of_own_group

_STOP_LIMIT_S = 2.0
_FRESH = """
import sys
from multiprocessing.connection import Connection
pipe = Connection(int(sys.argv[1]))
try:
    sys.path, sys.argv = pipe.recv()
    from returnn.datasets.core.worker import run_worker
    options, name, is_of_main_thread = pipe.recv()
except EOFError:  # the other process has ended
    sys.exit()
run_worker(options, pipe, name, is_of_main_thread)
"""

Run = Callable[[DatasetDict, Connection, str, bool], None]


class _Process(Protocol):
    """What both kinds have in common."""

    @property
    def pid(self) -> int | None: ...

    @property
    def exitcode(self) -> int | None: ...

    def join(self, timeout: float | None = None) -> None: ...

    def kill(self) -> None: ...


class WorkerProcess:
    """A process that calls `run_worker` with the other end of the pipe."""

    def __init__(self, options: DatasetDict, name: str, run: Run) -> None:
        """
        :param options: of a data set
        :param name: of the process
        :param run: `run_worker`, which a fresh process finds by itself
        """
        self.pipe, other_end = multiprocessing.Pipe()
        with other_end, _blocked_signals():
            self._process: _Process
            if _can_be_sent(options):
                self._process = _start_fresh(other_end)
                with contextlib.suppress(OSError):  # it has died already, which the first request will find
                    self.pipe.send((sys.path, sys.argv))
                    self.pipe.send((options, name, is_started_by_main_thread()))
            else:
                self._process = _start_fork(self.pipe, options, other_end, name, run)

    @property
    def pid(self) -> int | None:
        """Its number."""
        return self._process.pid

    def how_it_ended(self) -> str:
        """:return: for people, once the pipe has ended"""
        self._process.join(_STOP_LIMIT_S)
        code = self._process.exitcode
        name = f" ({signal.Signals(-code).name})" if code is not None and -code in set(signal.Signals) else ""
        return f"with exit code {code}{name}"

    @property
    def was_killed(self) -> bool:
        """Whether somebody has sent SIGKILL, once it has ended."""
        return self._process.exitcode == -signal.SIGKILL

    def end(self) -> None:
        """Closes the pipe, and kills a process that does not end then."""
        self.pipe.close()
        self._process.join(_STOP_LIMIT_S)
        if self._process.exitcode is None:
            self._process.kill()  # also if it was stopped
            self._process.join(_STOP_LIMIT_S)


class _FreshProcess:
    """A `Popen` as a `_Process`."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen
        self.pid = popen.pid
        self.kill = popen.kill

    @property
    def exitcode(self) -> int | None:
        return self._popen.poll()

    def join(self, timeout: float | None = None) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout)


def _start_fresh(other_end: Connection) -> _Process:
    process = subprocess.Popen(
        [sys.executable, "-c", _FRESH, str(other_end.fileno())],
        pass_fds=[other_end.fileno()],
        stdin=subprocess.DEVNULL,
        **options_of_own_group(),
    )
    return _FreshProcess(process)


def _start_fork(pipe: Connection, options: DatasetDict, other_end: Connection, name: str, run: Run) -> _Process:
    def run_in_fork() -> None:
        pipe.close()  # otherwise the end of the main process would not be seen
        run(options, other_end, name, is_of_main_thread)

    is_of_main_thread = is_started_by_main_thread()
    process = multiprocessing.get_context("fork").Process(target=run_in_fork, name=name)
    with _no_daemon():
        process.start()
    assert process.pid is not None
    with contextlib.suppress(ProcessLookupError):  # it has died already
        os.setpgid(process.pid, 0)
    return process


@contextlib.contextmanager
def _no_daemon() -> Iterator[None]:
    """
    Workers of a data loader are daemons, which `multiprocessing` lets have no processes, as it ends them without
    waiting for these. Those here end by themselves.
    """
    config = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    is_daemon = config.get("daemon")
    config["daemon"] = False
    try:
        yield
    finally:
        config["daemon"] = is_daemon


@contextlib.contextmanager
def _blocked_signals() -> Iterator[None]:
    """
    Processes that are started here do not hear Ctrl-C and a closed terminal. The main process does, and ends them.
    """
    old = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


def _can_be_sent(options: DatasetDict) -> bool:
    """:return: whether a fresh process understands the options"""
    try:
        pickled = pickle.dumps(options, protocol=2)  # in which names stand beside their modules
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    modules = {str(name).split(" ")[0] for opcode, name, _ in pickletools.genops(pickled) if opcode.name == "GLOBAL"}
    return all(_can_import(module) for module in modules)


def _can_import(module: str) -> bool:
    """:return: whether a fresh process finds the module"""
    if module in ("__main__", CONFIG_MODULE_NAME):
        return False
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # its package is not there; or it was made without a file
        return False
