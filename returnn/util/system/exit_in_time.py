"""The end of a process: in time after an error, and not in silence otherwise, also if a thread of it hangs."""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import os
import sys
import threading
import time
from typing import NoReturn

from returnn.util.errors import UserError
from returnn.util.system.waiting import Waiting, place_of_thread, report_to_stderr

LIMIT_S = 8.0
_MORE_S = 1.0  # for what holds the interpreter
_LIMIT_OF_THREADS_S = 3600.0
_POLL_S = 0.2


def exit_in_time(status: int) -> NoReturn:
    """
    Ends the process. After an error, it ends at once if that takes longer than the limit, with the same status, but
    for code that holds the interpreter, with status 1. Otherwise, what it waits for is said after 10 seconds, and ends
    it after an hour.

    :param status: of the process, 0 if all is well
    """
    if status:
        _end_after_error(status)
    threading.Thread(target=_watch_threads, name="exit in time", daemon=True).start()
    sys.exit(status)


def _end_after_error(status: int) -> NoReturn:
    """
    Does what Python does at its end, without taking its modules apart: that takes long on a busy machine, libraries
    hang there, and nothing in Python could give the status any more.
    """
    last_s = LIMIT_S + _MORE_S
    faulthandler.dump_traceback_later(last_s, exit=True, file=open(os.devnull, "wb"))  # noqa: SIM115 (until the end)
    threading.Thread(target=_end_after_limit, args=(status,), name="exit in time", daemon=True).start()
    threading._shutdown()  # type: ignore[attr-defined]  # waits for all threads that are no daemons
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or a full disk: has been said
            stream.flush()
    os._exit(status)


def _end_after_limit(status: int) -> None:
    time.sleep(LIMIT_S)
    os._exit(status)


def _watch_threads() -> None:
    """Runs until the interpreter has waited for all threads that are no daemons."""
    waiting = Waiting(_what_is_left, limit_s=_LIMIT_OF_THREADS_S)
    try:
        while True:
            time.sleep(_POLL_S)
            waiting.check()
    except UserError as exc:
        report_to_stderr(f"error: {exc}")
        os._exit(1)


def _what_is_left() -> str:
    threads = [t for t in threading.enumerate() if not t.daemon and t is not threading.main_thread()]
    if not threads:
        return "the end of the process"
    return ", ".join(f"thread {t.name!r}{place_of_thread(t.ident or 0)}" for t in threads[:3])
