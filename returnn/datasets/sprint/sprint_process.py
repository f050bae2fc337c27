"""RASR as a process of its own, with a pipe in each direction."""

from __future__ import annotations

import contextlib
import io
import os
import select
import signal
import subprocess
import tempfile
import weakref
from collections.abc import Callable, Sequence
from typing import IO, Any, TypeAlias

from returnn.datasets.core.config_options import data_wait_limit_s
from returnn.datasets.sprint.sprint_pipe import receive
from returnn.util.system.child_process import options_of_own_group, with_end_of_parent
from returnn.util.system.env import eval_shell_str
from returnn.util.system.waiting import Waiting, describe_process

_POLL_S = 1.0
_STOP_TIMEOUT_S = 2.0

Args: TypeAlias = "str | Sequence[Args] | Callable[[], Args]"


class SprintProcess:
    """A process of RASR. Its output is kept for error messages."""

    def __init__(self, program: Sequence[str], make_args: Callable[[int, int], Sequence[str]]):
        """
        :param program: of RASR, maybe with arguments
        :param make_args: gets the file descriptors that the process writes to and reads from, gives its arguments
        """
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as this object
        c2p_read, c2p_write = os.pipe()
        p2c_read, p2c_write = os.pipe()
        self._read_fd = c2p_read
        self.from_child: IO[bytes] = io.BufferedReader(_PatientPipe(c2p_read, self._what_is_waited_for))
        self.to_child = os.fdopen(p2c_write, "wb", buffering=0)
        try:
            self.process = subprocess.Popen(
                [*with_end_of_parent(signal.SIGKILL), *program, *make_args(c2p_write, p2c_read)],
                pass_fds=(c2p_write, p2c_read),
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                **options_of_own_group(),
            )
        finally:
            os.close(c2p_write)
            os.close(p2c_read)
        weakref.finalize(self, _kill, self.process)

    def _what_is_waited_for(self) -> str:
        return describe_process("RASR", self.process.pid)

    def has_message(self) -> bool:
        """:return: whether there is a message, or the process has ended"""
        return bool(select.select([self._read_fd], [], [], 0)[0])

    def receive(self) -> object:
        """
        :return: message, None if it has ended
        :raises UserError: if nothing comes for longer than the limit
        """
        return receive(self.from_child)

    def stop(self) -> None:
        """Ends the process."""
        _kill(self.process)

    def close(self) -> None:
        """To be called when nobody reads any more."""
        self.from_child.close()
        self.to_child.close()
        self._output.close()

    def how_it_ended(self) -> str:
        """:return: for errors, when the pipe has ended: exit status, and the last lines of its output"""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=5)
        self.stop()
        self._output.seek(0)
        lines = self._output.read()[-10_000:].decode("utf-8", errors="replace").strip().splitlines()
        last = "".join(f"\n  {line[:300]}" for line in lines[-3:]) or " It has printed nothing."
        return f" (exit status {self.process.returncode}).{last}"


class _PatientPipe(io.RawIOBase):
    """The end of a pipe. Who reads from it says what is waited for, and gives up some time."""

    def __init__(self, fd: int, what: Callable[[], str]):
        self._fd = fd
        self._what = what

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        waiting = Waiting(self._what, limit_s=data_wait_limit_s())
        while not select.select([self._fd], [], [], _POLL_S)[0]:
            waiting.check()
        return os.readv(self._fd, [buffer])

    def close(self) -> None:
        if not self.closed:
            os.close(self._fd)
        super().close()


def evaluated_args(value: Args, *, split: bool) -> list[str]:
    """
    :param value: arguments as in a shell; a list of such, or a function that returns such
    :param split: whether a text has several arguments; otherwise it is a path
    """
    if callable(value):
        return evaluated_args(value(), split=split)
    if not isinstance(value, str):
        return [arg for part in value for arg in evaluated_args(part, split=split)]
    return eval_shell_str(value) if split else [os.path.expanduser(value)]


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()  # also if it was stopped
    process.wait()
