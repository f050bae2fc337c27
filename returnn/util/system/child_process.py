"""
Processes that this one starts end with it, also if it is killed and they hang or are stopped.

- One that waits for its parent notices the end of the pipe between them.
- One that hangs in a call of its own is ended by the system (`prctl`), or by a thread, see `end_with_parent`.
- One that is stopped would stay so for ever if this happens before it asks for that. So it is in a process group of its
  own from its first moment on. When its parent dies, nobody is left who could continue such a group, and the system
  sends SIGHUP and SIGCONT to what is stopped in it (POSIX, `_exit`, on orphaned process groups).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from typing import Any

_PR_SET_PDEATHSIG = 1
_POLL_S = 1.0


def options_of_own_group() -> dict[str, Any]:
    """:return: for `subprocess.Popen`: the process is in a group of its own when its program begins"""
    return {"process_group": 0} if sys.version_info >= (3, 11) else {"preexec_fn": os.setpgrp}


def is_started_by_main_thread() -> bool:
    """:return: whether a process that is started now can ask the system to end with this one, and not with a thread"""
    return threading.current_thread() is threading.main_thread()


def end_with_parent(number: int = signal.SIGKILL, *, is_of_main_thread: bool = True) -> None:
    """
    From now on, this process ends when the one that has started it does.

    :param number: the signal that it gets then
    :param is_of_main_thread: whether the main thread of the parent has started it. To the system, the parent is that
        thread, which may end earlier. If it is another one, a thread of this process looks at it, and uses SIGKILL
    """
    if is_of_main_thread:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    else:
        threading.Thread(target=_end_after, args=(os.getppid(),), name="end with parent", daemon=True).start()


def with_end_of_parent(number: int) -> list[str]:
    """
    :param number: of the signal that it gets when this process dies
    :return: what to put before a command of any program; nothing if this is not the main thread
    """
    if not is_started_by_main_thread():
        return []
    code = f"import ctypes, os, sys; ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, {int(number)});"
    return [sys.executable, "-I", "-S", "-c", f"{code} os.execvp(sys.argv[1], sys.argv[1:])"]


def _end_after(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_S)
    os.kill(os.getpid(), signal.SIGKILL)
