"""
Starts the processes of a training on one machine, and starts them again if one of them fails:

    python -m returnn.launch --processes 2 returnn my.config

`returnn` is the toolkit that is running. On several machines, use torchrun, srun, mpirun, or whatever sets `TF_CONFIG`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from types import FrameType

from returnn.util.system.child_process import with_end_of_parent
from returnn.util.system.command_parser import CommandParser
from returnn.util.system.end_by_signal import ENDING_SIGNALS, heard_signals

_EXAMPLE = "--processes 2 returnn my.config"
_POLL_S = 0.1
_FIRST_PORT, _USUAL_FIRST_PORT_OF_SYSTEM = 12_000, 32_768
_ATTEMPTS = 100
_END_S = 15.0  # for the others to end by themselves, when one has failed


def main(argv: Sequence[str] | None = None) -> int:
    """
    :param argv: without the name of the program; default: that of this process
    :return: exit status: that of the first process that failed
    """
    parser = _parser()
    options = parser.parse_args(argv)
    if options.processes < 1:
        parser.error(f"--processes should be at least 1, not {options.processes}")
    if not options.command:
        parser.error(f"what should be started? Such as: {parser.prog} {_EXAMPLE}")
    command = _command(options.command, parser)
    for attempt in range(options.max_restarts + 1):
        status = _Group(command, options.processes, others_end_s=options.end_s).run()
        if status == 0 or status in _ENDED_BY_SIGNAL:
            break
        if attempt < options.max_restarts:
            print(f"returnn.launch: starts all again, {attempt + 1} of {options.max_restarts}", file=sys.stderr)
    return status


_ENDED_BY_SIGNAL = tuple(128 + number for number in ENDING_SIGNALS)


def _command(given: Sequence[str], parser: argparse.ArgumentParser) -> list[str]:
    """:return: with the program that runs it. `returnn` is this package, also where no program of that name is found"""
    program, *arguments = given
    if program == "returnn":
        return [sys.executable, "-m", "returnn", *arguments]
    is_script = program.endswith(".py")
    if not (os.path.exists(program) if is_script else shutil.which(program)):
        parser.error(f"there is no {'file' if is_script else 'program'} {program!r}. Such as: {parser.prog} {_EXAMPLE}")
    return [sys.executable, *given] if is_script else list(given)


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="python -m returnn.launch", description=__doc__.split("\n")[1])
    parser.add_argument("-n", "--processes", type=int, required=True, help="how many")
    parser.add_argument("--max-restarts", type=int, default=0, help="how often all are started again after a failure")
    parser.add_argument(
        "--end-s", type=float, default=_END_S, help="seconds for the others to end, before they are killed"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="such as: returnn my.config")
    return parser


class _Group:
    """All processes of one attempt."""

    def __init__(self, command: Sequence[str], size: int, *, others_end_s: float) -> None:
        self._command = command
        self._ports = _Ports(size)
        self._addresses = self._ports.addresses
        self._others_end_s = others_end_s
        self._processes: list[subprocess.Popen[bytes]] = []
        self._signal: int | None = None

    def run(self) -> int:
        """:return: 0 if all ended well; else the status of the first one that did not"""
        try:
            return self._run()
        finally:
            self._ports.close()

    def _run(self) -> int:
        for number in heard_signals():
            signal.signal(number, self._hand_on)
        for rank in range(len(self._addresses)):
            task = {"cluster": {"worker": self._addresses}, "task": {"type": "worker", "index": rank}}
            command = [*with_end_of_parent(signal.SIGTERM), *self._command]
            self._processes.append(subprocess.Popen(command, env={**os.environ, "TF_CONFIG": json.dumps(task)}))
        failed = self._wait()
        if failed is None:
            return 0
        rank, status = failed
        status = 128 - status if status < 0 else status
        if self._signal is None:
            print(f"returnn.launch: process {rank} ended with status {status}", file=sys.stderr)
        self._end_others()
        return 128 + self._signal if self._signal is not None else status

    def _wait(self) -> tuple[int, int] | None:
        """:return: rank and status of the first process that failed; None if none did"""
        while True:
            statuses = [process.poll() for process in self._processes]
            for rank, status in enumerate(statuses):
                if status:
                    return rank, status
            if all(status == 0 for status in statuses):
                return None
            time.sleep(_POLL_S)

    def _end_others(self) -> None:
        """Those that do not end by themselves are killed; at once, if all that are left are stopped."""
        limit = time.monotonic() + self._others_end_s
        while time.monotonic() < limit:
            left = [process for process in self._processes if process.poll() is None]
            if all(map(_is_stopped, left)):
                break
            time.sleep(_POLL_S)
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait()

    def _hand_on(self, number: int, frame: FrameType | None) -> None:
        self._signal = number
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(number)


def _is_stopped(process: subprocess.Popen[bytes]) -> bool:
    """:return: whether a signal has stopped it, so that it cannot end by itself; False where the system does not say"""
    try:
        stat = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] in ("T", "t")


class _Ports:
    """
    Ports for workers, until `close`. They are below those that the system gives away by itself. Of all launchers, only
    one can hold the name that stands for a port, which goes with its process.
    """

    def __init__(self, number: int) -> None:
        """
        :param number: of ports
        :raises OSError: if so many cannot be found
        """
        self.addresses: list[str] = []
        self._names = ExitStack()
        for _ in range(_ATTEMPTS * number):
            if len(self.addresses) == number:
                return
            port = random.SystemRandom().randrange(_FIRST_PORT, _first_port_of_system())
            if self._take(port):
                self.addresses.append(f"127.0.0.1:{port}")
        self.close()
        raise OSError(f"there are no {number} free ports from {_FIRST_PORT} to {_first_port_of_system() - 1}.")

    def _take(self, port: int) -> bool:
        try:
            with closing(socket.socket()) as sock:
                sock.bind(("127.0.0.1", port))
            if sys.platform == "linux":
                name = self._names.enter_context(closing(socket.socket(socket.AF_UNIX)))
                name.bind(f"\0returnn.launch.{port}")
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Others may have them."""
        self._names.close()


def _first_port_of_system() -> int:
    """:return: of those that the system gives to connections, and to servers that ask for any"""
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="utf8").split()[0])
    except (OSError, ValueError):
        return _USUAL_FIRST_PORT_OF_SYSTEM
    return first if first > 2 * _FIRST_PORT else _USUAL_FIRST_PORT_OF_SYSTEM


if __name__ == "__main__":
    sys.exit(main())
