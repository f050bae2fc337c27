"""A manager of `multiprocessing` that does not outlive the process which has made it."""

from __future__ import annotations

import os
import signal
import threading
import time
from multiprocessing.context import BaseContext
from multiprocessing.managers import SyncManager

_POLL_S = 1.0


def create_manager(*, ctx: BaseContext | None = None) -> SyncManager:
    """
    :param ctx: of `multiprocessing`, default: the usual one
    :return: a manager that runs. Its process ends when this one does, also if this one is killed
    """
    manager = SyncManager(ctx=ctx)
    manager.start(_end_with, (os.getpid(),))
    return manager


def _end_with(pid: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; the one with the manager shuts it down
    threading.Thread(target=_watch, args=(pid,), name="watch parent", daemon=True).start()


def _watch(pid: int) -> None:
    while os.getppid() == pid:
        time.sleep(_POLL_S)
    os._exit(1)
