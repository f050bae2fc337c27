"""Mends other packages while the process runs. Each function does nothing where its package is not installed."""

from __future__ import annotations

import functools
import importlib
import signal
from types import ModuleType
from typing import Any


def monkeyfix_glib() -> None:
    """
    Keeps old versions of PyGObject from taking SIGINT for themselves.

    Their main loop has a handler which ends that loop, so Ctrl-C does not interrupt Python any more.
    """
    glib = _module_if_installed("gi.repository.GLib") or getattr(_module_if_installed("gi.repository"), "GLib", None)
    add = getattr(glib, "unix_signal_add", None)
    if glib is None or add is None or getattr(add, "leaves_sigint", False):
        return

    @functools.wraps(add)
    def add_unless_sigint(priority: int, signum: int, *args: Any) -> Any:
        return 0 if signum == signal.SIGINT else add(priority, signum, *args)

    add_unless_sigint.leaves_sigint = True  # type: ignore[attr-defined]
    glib.unix_signal_add = add_unless_sigint


def monkeypatch_audioread() -> None:
    """
    Makes `audioread` look only once for the programs and libraries that it can use.

    It does so for each file otherwise, which takes longer than reading it.
    """
    audioread = _module_if_installed("audioread")
    for name in ("available_backends", "_ca_available", "_gst_available", "_mad_available"):
        function = getattr(audioread, name, None)
        if function is not None and not hasattr(function, "cache_info"):
            setattr(audioread, name, functools.cache(function))


def _module_if_installed(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
