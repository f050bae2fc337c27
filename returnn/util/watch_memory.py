"""Logs how much memory this process and those that it started have, whenever it has grown (option `watch_memory`)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from returnn.util.texts.human_readable import human_bytes_size

_INTERVAL_S = 1.0
_GROWTH = 1.05  # it is logged when it is so many times what was logged before


def watch_memory(write: Callable[[str], None], *, interval_s: float = _INTERVAL_S) -> threading.Event:
    """
    Starts a thread that watches, until the process ends.

    :param write: is called with each line
    :param interval_s: how often it looks
    :return: set it to end the watch
    """
    stop = threading.Event()

    def watch() -> None:
        logged = 0
        while True:
            sizes = memory_of_processes(os.getpid())
            total = sum(sizes.values())
            if total > _GROWTH * logged:
                logged = total
                write(f"memory: {human_bytes_size(total)} in {len(sizes)} process{'es' * (len(sizes) > 1)}")
            if stop.wait(interval_s):
                return

    threading.Thread(target=watch, name="watch_memory", daemon=True).start()
    return stop


def memory_of_processes(root: int) -> dict[int, int]:
    """
    :param root: number of a process
    :return: number of bytes in memory, of this process and those below it; some may have ended meanwhile
    """
    children: dict[int, list[int]] = {}
    for process, parent in _parents():
        children.setdefault(parent, []).append(process)
    sizes: dict[int, int] = {}
    todo = [root]
    while todo:
        process = todo.pop()
        todo += children.get(process, [])
        try:
            num_pages = int(Path(f"/proc/{process}/statm").read_text("ascii").split()[1])
        except (OSError, IndexError):
            continue
        sizes[process] = num_pages * os.sysconf("SC_PAGE_SIZE")
    return sizes


def _parents() -> Iterator[tuple[int, int]]:
    """:return: processes, each with the one that started it"""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "stat").read_text("utf8", errors="replace")
        except OSError:
            continue
        yield int(folder.name), int(status.rpartition(")")[2].split()[1])  # after "number (name)", state and parent
