"""Tracebacks with the values of the variables, by `rich`. Configs and tools call `install`."""

from __future__ import annotations

import os
import sys
import threading
from types import TracebackType
from typing import IO, Any

from rich.console import Console
from rich.pretty import Node
from rich.traceback import Traceback

from returnn.util.errors import UserError
from returnn.util.system.debug_shell import debug_shell

__all__ = ["better_exchook", "debug_shell", "install", "print_exc", "print_exception", "print_tb", "setup_all"]

_MAX_FRAMES = 30
_MAX_STACKS = 5  # of those exceptions that were raised last; and as many of those that came first
_MAX_VALUES = 30  # of a variable, in nested dicts and lists
_MAX_LINES = 10  # of a value
_MAX_CHARACTERS = 800  # of a value


def install() -> None:
    """Every exception that nobody catches is shown by `better_exchook`."""
    sys.excepthook = better_exchook


setup_all = install


def better_exchook(
    etype: type[BaseException],
    value: BaseException,
    tb: TracebackType | None,
    debugshell: bool = False,
    autodebugshell: bool = True,
    file: IO[str] | None = None,
    with_color: bool | None = None,
    with_preamble: bool = True,
    limit: int | None = None,
    chain: bool = True,
) -> None:
    """
    :param etype: class of the exception
    :param value: the exception
    :param tb: where it comes from
    :param debugshell: whether a shell opens there
    :param autodebugshell: whether one opens if the environment variable `DEBUG` is 1
    :param file: stderr by default
    :param with_color: default: if it is a terminal
    :param with_preamble: a line says which kind of exception follows
    :param limit: of the number of frames
    :param chain: whether the exceptions that caused it are shown too
    """
    file = sys.stderr if file is None else file
    if isinstance(value, UserError):
        print(f"error: {value}", file=file)
    elif issubclass(etype, KeyboardInterrupt):
        print("interrupted", file=file)
    else:
        if with_preamble:
            thread = threading.current_thread().name
            print(f"unhandled {etype.__name__} in process {os.getpid()}, thread {thread!r}", file=file)
        _print_traceback(etype, value, tb, file, with_color, limit, chain)
    if (debugshell or (autodebugshell and os.environ.get("DEBUG") == "1")) and tb is not None:
        while tb.tb_next is not None:
            tb = tb.tb_next
        debug_shell(tb.tb_frame.f_locals, tb.tb_frame.f_globals, exit_afterwards=False)


def print_exception(
    etype: type[BaseException],
    value: BaseException,
    tb: TracebackType | None,
    limit: int | None = None,
    file: IO[str] | None = None,
    chain: bool = True,
) -> None:
    """Like `traceback.print_exception`."""
    better_exchook(etype, value, tb, autodebugshell=False, file=file, with_preamble=False, limit=limit, chain=chain)


def print_exc(limit: int | None = None, file: IO[str] | None = None, chain: bool = True) -> None:
    """Like `traceback.print_exc`."""
    etype, value, tb = sys.exc_info()
    if etype is not None and value is not None:
        print_exception(etype, value, tb, limit=limit, file=file, chain=chain)


def print_tb(tb: TracebackType | None, file: IO[str] | None = None, **kwargs: Any) -> None:
    """Like `traceback.print_tb`."""
    better_exchook(Exception, Exception("traceback"), tb, False, False, file, with_preamble=False, **kwargs)


def _print_traceback(
    etype: type[BaseException],
    value: BaseException,
    tb: TracebackType | None,
    file: IO[str],
    with_color: bool | None,
    limit: int | None,
    chain: bool,
) -> None:
    if not chain:
        value = value.with_traceback(tb)
        value.__cause__, value.__context__ = None, None
    traceback = Traceback.from_exception(etype, value, tb, show_locals=True, max_frames=limit or _MAX_FRAMES)
    _shorten(traceback)
    width = None if file.isatty() else 120
    Console(file=file, width=width, no_color=None if with_color is None else not with_color).print(traceback)


def _shorten(traceback: Traceback) -> None:
    """`rich` bounds the length of texts and containers, but not of a storage of PyTorch, with a line for each byte."""
    stacks = traceback.trace.stacks  # the last exception comes first
    if len(stacks) > 2 * _MAX_STACKS:
        left_out = len(stacks) - 2 * _MAX_STACKS
        stacks[-_MAX_STACKS].exc_value += f"\n\n({left_out} exceptions after it are not shown)"
        del stacks[_MAX_STACKS:-_MAX_STACKS]
    for stack in stacks:
        for frame in stack.frames:
            for node in (frame.locals or {}).values():
                _shorten_values(node, _MAX_VALUES)


def _shorten_values(node: Node, num_left: int) -> int:
    """:return: how many of that number of values are left for others"""
    node.value_repr = _shortened(node.value_repr)
    for index, child in enumerate(node.children or ()):
        if num_left <= 0:
            node.children = [*(node.children or ())[:index], Node(value_repr="...", last=True)]
            break
        num_left = _shorten_values(child, num_left)
    return num_left - (0 if node.children else 1)


def _shortened(text: str) -> str:
    lines = text[:_MAX_CHARACTERS].split("\n")[:_MAX_LINES]
    shown = "\n".join(lines)
    return shown if shown == text else f"{shown} ... ({len(text)} characters)"
