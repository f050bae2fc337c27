"""What to do with exceptions that must not, or must only partly, have an effect."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any


class OptionalNotImplementedError(NotImplementedError):
    """Something is not there, and need not be: the caller has another way."""


def try_and_ignore_exception(f: Callable[[], Any]) -> None:
    """
    :param f: is called; if it fails, the stack trace is printed, and that is all
    """
    try:
        f()
    except Exception:  # noqa: BLE001 (whatever it is, the caller does not depend on it)
        traceback.print_exc(file=sys.stdout)


def traceback_clear_frames(tb: TracebackType | None) -> None:
    """
    Forgets the local variables of all functions in a stack trace, so that big arrays are freed. Those of functions
    that still run stay.
    """
    traceback.clear_frames(tb)
