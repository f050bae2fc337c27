"""What happens when the process fails: tracebacks for exceptions, for signals, and on request."""

from __future__ import annotations

import faulthandler
import functools
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Collection
from types import FrameType
from typing import Any, TextIO, TypeVar

from returnn.util.system import exception_hook
from returnn.util.system.crash_handlers import (
    init_cuda_not_in_main_proc_check,
    install_lib_sig_segfault,
    install_native_signal_handler,
    install_subproc_faulthandler,
)
from returnn.util.system.debug_shell import debug_shell
from returnn.util.system.py_tracer import PyTracer, check_py_traces_rf_to_pt_equal

__all__ = [
    "PyTracer",
    "auto_exclude_all_new_threads",
    "check_py_traces_rf_to_pt_equal",
    "debug_shell",
    "dump_all_thread_tracebacks",
    "format_signum",
    "global_exclude_thread_ids",
    "init_better_exchook",
    "init_cuda_not_in_main_proc_check",
    "init_faulthandler",
    "install_lib_sig_segfault",
    "install_native_signal_handler",
    "install_signal_handler_if_default",
    "install_subproc_faulthandler",
    "setup_warn_with_traceback",
    "signal_handler",
    "signum_to_signame",
]

signum_to_signame = {int(entry): entry.name for entry in signal.Signals}
global_exclude_thread_ids: set[int] = set()  # `dump_all_thread_tracebacks` leaves them out
T = TypeVar("T")


def init_better_exchook() -> None:
    """An exception that nobody catches shows the values of the variables; those of `UserError` only its message."""
    exception_hook.install()
    if os.environ.get("DEBUG_WARN_WITH_TRACEBACK") == "1":
        setup_warn_with_traceback()


def init_faulthandler(sigusr1_chain: bool = False) -> None:
    """
    A crash of native code shows where Python was, and so does SIGUSR1, for all threads and without a crash.

    :param sigusr1_chain: whether the handler of SIGUSR1 before is called as well
    """
    try:
        faulthandler.enable()
    except (AttributeError, OSError, ValueError):  # stderr is no real file, e.g. in a notebook
        return
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, all_threads=True, chain=sigusr1_chain)


def format_signum(signum: int) -> str:
    """:return: e.g. "SIGTERM (15)" """
    return f"{signum_to_signame.get(signum, 'signal')} ({signum})"


def signal_handler(signum: int, frame: FrameType | None) -> None:
    """Shows where all threads are."""
    print(f"{format_signum(signum)} in process {os.getpid()}", file=sys.stderr)
    dump_all_thread_tracebacks(file=sys.stderr)


def install_signal_handler_if_default(signum: int, exceptions_are_fatal: bool = False) -> bool:
    """
    Installs `signal_handler`, if there is no other handler.

    :param signum: the signal
    :param exceptions_are_fatal: whether it is an error if that is not possible
    :return: whether it was installed
    """
    try:
        if signal.getsignal(signum) != signal.SIG_DFL:
            return False
        signal.signal(signum, signal_handler)
    except (ValueError, OSError):
        if exceptions_are_fatal:
            raise
        return False
    return True


def dump_all_thread_tracebacks(
    *, exclude_thread_ids: Collection[int] | None = None, exclude_self: bool = False, file: TextIO | None = None
) -> None:
    """
    :param exclude_thread_ids: threads to leave out
    :param exclude_self: whether the current thread is left out
    :param file: stderr by default
    """
    file = sys.stderr if file is None else file
    excluded = {*global_exclude_thread_ids, *(exclude_thread_ids or ())} | (
        {threading.get_ident()} if exclude_self else set()
    )
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        if ident not in excluded:
            print(f"Thread {names.get(ident, 'unknown')} ({ident}):", file=file)
            traceback.print_stack(frame, file=file)


def auto_exclude_all_new_threads(func: Callable[..., T]) -> Callable[..., T]:
    """
    :param func: function
    :return: the same; `dump_all_thread_tracebacks` leaves out the threads which begin in it, such as those of a library
    """

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> T:
        before = set(sys._current_frames())
        try:
            return func(*args, **kwargs)
        finally:
            global_exclude_thread_ids.update(set(sys._current_frames()) - before)

    return wrapped


def setup_warn_with_traceback() -> None:
    """Each warning shows where it comes from."""

    def show(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
        out = file or sys.stderr
        traceback.print_stack(file=out)
        out.write(warnings.formatwarning(message, category, filename, lineno, line))

    warnings.showwarning = show
