"""Threads that do not keep the process, and a main thread that hears Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any


class AsyncThreadRun(threading.Thread):
    """Runs a function in the background, and keeps its result."""

    def __init__(self, name: str, func: Callable[[], Any]):
        """
        :param name: of the thread
        :param func: is started at once
        """
        super().__init__(name=name, daemon=True)
        self.func = func
        self.result: Any = None
        self._error: BaseException | None = None
        self.start()

    def main(self) -> None:
        """What runs in the thread."""
        try:
            self.result = self.func()
        except Exception as exc:  # noqa: BLE001 (it is raised again in `get`)
            self._error = exc

    run = main

    def get(self) -> Any:
        """
        Waits for the function.

        :return: its result
        :raises Exception: what the function raised
        """
        self.join()
        if self._error is not None:
            raise self._error
        return self.result


def wrap_async_func(f: Callable[[], Any]) -> Callable[[], Any]:
    """:return: the function, which stops the main thread if it fails"""

    def wrapped() -> Any:
        try:
            return f()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            interrupt_main()
            raise

    return wrapped


def start_daemon_thread(target: Callable[..., Any], args: tuple[Any, ...] = ()) -> None:
    """Runs a function in the background; the process does not wait for it when it ends."""
    threading.Thread(target=target, args=args, daemon=True).start()


def interrupt_main() -> None:
    """Does to the main thread what Ctrl-C does; in the main thread itself, leaves the process."""
    if threading.current_thread() is threading.main_thread():
        sys.exit(1)
    os.kill(os.getpid(), signal.SIGINT)


def is_quitting() -> bool:
    """:return: whether the interpreter shuts down"""
    return sys.is_finalizing()


def init_thread_join_hack() -> None:
    """
    Does nothing, and stays as configs call it: since Python 3.2, a main thread that waits for another one can be
    interrupted.
    """
