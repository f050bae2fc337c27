"""Running the program of this process anew."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def restart_program() -> NoReturn:
    """Replaces this process by a new one with the same arguments. Its open files are closed."""
    sys.stdout.flush()
    sys.stderr.flush()
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        if int(name) > 2:
            try:
                os.set_inheritable(int(name), False)
            except OSError:  # the one of the listing itself
                continue
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
