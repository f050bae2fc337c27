"""An interactive Python shell inside of a running process."""

from __future__ import annotations

import code
import sys
from typing import Any


def debug_shell(
    user_ns: dict[str, Any] | None = None, user_global_ns: dict[str, Any] | None = None, exit_afterwards: bool = True
) -> None:
    """
    :param user_ns: names which are there
    :param user_global_ns: further names
    :param exit_afterwards: whether the process ends with the shell
    """
    code.interact(banner="Debug shell. Ctrl-D leaves it.", local={**(user_global_ns or {}), **(user_ns or {})})
    if exit_afterwards:
        print("Debug shell exit. Exit now.")
        sys.exit(1)


def debug_shell_task(config: Any) -> None:
    """The task `debug_shell`."""
    debug_shell({"config": config}, exit_afterwards=False)
