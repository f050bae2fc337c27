"""Who holds a lock file: a process on a machine, since some time. It is written into the file."""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class LockHolder:
    """A process. Its start tells it apart from a later one with the same number."""

    host: str  # with the namespace of process numbers: a container has its own
    pid: int
    process_start: str
    since: str

    @classmethod
    def this_process(cls) -> LockHolder:
        """:return: us, from now on"""
        return cls(_host(), os.getpid(), _start_of_process(os.getpid()) or "", time.strftime("%Y-%m-%d %H:%M:%S"))

    @classmethod
    def of_file(cls, filename: str) -> LockHolder | None:
        """:return: None if the file says nothing: it is gone, or is just being written"""
        try:
            with open(filename, encoding="utf8", opener=_open_at_once) as file:
                return cls(**json.load(file))
        except (OSError, ValueError, TypeError):
            return None

    def text(self) -> str:
        """:return: content of the lock file"""
        return json.dumps(asdict(self))

    @property
    def is_of_this_machine(self) -> bool:
        """Whether we can see the process."""
        return self.host == _host()

    @property
    def is_dead(self) -> bool:
        """Whether the process has ended for sure. Of another machine, that is not known."""
        return self.is_of_this_machine and _start_of_process(self.pid) != self.process_start

    @property
    def is_this_process(self) -> bool:
        """Whether it is us."""
        return self.is_of_this_machine and self.pid == os.getpid() and not self.is_dead

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host.partition('/')[0]}, since {self.since}"


def _open_at_once(filename: str, flags: int) -> int:
    return os.open(filename, flags | os.O_NONBLOCK)  # a FIFO of that name would wait for a writer


def _host() -> str:
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        namespace = 0
    return f"{socket.gethostname()}/{namespace}"


def _start_of_process(pid: int) -> str | None:
    """:return: in ticks since the machine started; None if there is no such process, or it has ended"""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else fields[19]
