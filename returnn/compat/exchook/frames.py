"""Frames of calls as text, with the values of the variables that a line uses."""

from __future__ import annotations

import gc
import inspect
import sys
import threading
import traceback
from collections.abc import Collection, Iterator, Mapping
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any, TextIO

from returnn.compat.exchook.source_text import (
    add_indent_lines,
    get_source_code,
    grep_full_py_identifiers,
    parse_py_statements,
    remove_indent_lines,
)
from returnn.compat.exchook.terminal import Color, output_limit
from returnn.util import debug

Traceback = TracebackType | FrameType | traceback.StackSummary


class DummyFrame:
    """Stands for a frame of which only file, line and name are known."""

    def __init__(
        self,
        filename: str,
        lineno: int,
        name: str,
        f_locals: dict[str, Any] | None = None,
        f_globals: dict[str, Any] | None = None,
        f_builtins: dict[str, Any] | None = None,
        end_lineno: int | None = None,
        colno: int | None = None,
        end_colno: int | None = None,
    ) -> None:
        """
        :param filename: of the code
        :param lineno: of the line, from 1 on
        :param name: of the function
        :param f_locals: its variables
        :param f_globals: those of the module
        :param f_builtins: those of Python
        :param end_lineno: where the expression ends
        :param colno: where it begins in the line
        :param end_colno: where it ends in the last line
        """
        self.filename = self.co_filename = filename
        self.lineno = self.f_lineno = self.tb_lineno = lineno
        self.name = self.co_name = name
        self.f_locals = f_locals or {}
        self.f_globals = f_globals or {}
        self.f_builtins = f_builtins or {}
        self.end_lineno, self.colno, self.end_colno = end_lineno, colno, end_colno
        self.have_vars_available = any(x is not None for x in (f_locals, f_globals, f_builtins))
        self.f_code = self
        self.co_nlocals = len(self.f_locals)

    @classmethod
    def from_frame_summary(cls, f: traceback.FrameSummary) -> DummyFrame:
        """:return: frame of which the module `traceback` knows this"""
        places = {name: getattr(f, name, None) for name in ("end_lineno", "colno", "end_colno")}
        return cls(f.filename, f.lineno or 0, f.name, f_locals=f.locals, **places)

    def clear(self) -> None:
        """Forgets the variables."""
        self.f_locals = {}


class ExtendedFrameSummary(traceback.FrameSummary):
    """What `traceback` knows of a frame, and the frame itself."""

    def __init__(self, frame: FrameType, **kwargs: Any) -> None:
        """
        :param frame: the frame
        :param kwargs: for `traceback.FrameSummary`; default: those of the frame
        """
        code = frame.f_code
        given = {"filename": code.co_filename, "lineno": frame.f_lineno, "name": code.co_name, **kwargs}
        super().__init__(**given)
        self.tb_frame = frame

    def __reduce__(self) -> Any:
        return traceback.FrameSummary, (self.filename, self.lineno, self.name)


def get_current_frame() -> FrameType:
    """:return: of the caller"""
    return sys._getframe(1)


def iter_traceback(
    tb: Traceback | None = None, enforce_most_recent_call_first: bool = False
) -> Iterator[tuple[FrameType, int]]:
    """
    :param tb: traceback or frame; default: the frame of the caller
    :param enforce_most_recent_call_first: also of a traceback, which begins with the outermost call
    :return: frames and numbers of lines: of a frame, the innermost call first
    """
    tb = sys._getframe(1) if tb is None else tb
    if isinstance(tb, traceback.StackSummary):
        pairs: Any = [(getattr(f, "tb_frame", None) or DummyFrame.from_frame_summary(f), f.lineno) for f in tb]
    elif isinstance(tb, FrameType):
        yield from ((frame, number) for frame, number in traceback.walk_stack(tb))
        return
    else:
        pairs = list(traceback.walk_tb(tb))
    yield from reversed(pairs) if enforce_most_recent_call_first else pairs


def format_tb(
    tb: Traceback | None = None,
    limit: int | None = None,
    allLocals: Mapping[str, Any] | None = None,
    allGlobals: Mapping[str, Any] | None = None,
    withTitle: bool = False,
    with_color: bool | None = None,
    with_vars: bool | None = None,
    clear_frames: bool = True,
    colorize: Any = None,
) -> list[str]:
    """
    :param tb: traceback or frame; default: the frame of the caller
    :param limit: of the number of frames
    :param allLocals: further local variables
    :param allGlobals: further global ones
    :param withTitle: a line says which call comes first
    :param with_color: default: if the terminal can
    :param with_vars: the values of the variables in each line. Default: they are shown
    :param clear_frames: frames of a traceback forget their variables then
    :param colorize: function that colors code, instead
    :return: text, a line each, with its end
    """
    color = Color(enable=with_color)
    colorize = colorize or color.py_syntax_highlight
    is_outer_first = not isinstance(tb, FrameType | None)
    tb = sys._getframe(1) if tb is None else tb
    lines = []
    if withTitle:
        lines.append(f"Traceback (most recent call {'last' if is_outer_first else 'first'}):\n")
    for i, (frame, number) in enumerate(iter_traceback(tb)):
        if limit is not None and i >= limit:
            lines.append(f"  ... only {limit} frames are shown\n")
            break
        code = frame.f_code
        place = f'  File "{code.co_filename}", line {number}, in {get_func_str_from_code_object(code, frame)}'
        lines.append(color(place, color=color.fg_colors[1]) + "\n")
        source = remove_indent_lines(get_source_code(code.co_filename, number, frame.f_globals)).strip()
        if source:
            lines.append(add_indent_lines("    line: ", colorize(source)) + "\n")
        if with_vars is not False and source:
            scopes = [("local", {**(allLocals or {}), **frame.f_locals})]
            scopes += [("global", {**(allGlobals or {}), **frame.f_globals}), ("builtin", dict(frame.f_builtins))]
            lines += _lines_of_variables(source, scopes)
    if clear_frames and isinstance(tb, TracebackType):
        traceback.clear_frames(tb)
    return lines


def _lines_of_variables(source: str, scopes: list[tuple[str, dict[str, Any]]]) -> list[str]:
    lines = []
    for name in dict.fromkeys(grep_full_py_identifiers(parse_py_statements(source))):
        first, *attributes = name.split(".")
        scope = next(((kind, values) for kind, values in scopes if first in values), None)
        if scope is None or scope[0] == "builtin":
            continue
        value = scope[1][first]
        try:
            for attribute in attributes:
                value = getattr(value, attribute)
            text = repr(value)
        except Exception as exc:  # noqa: BLE001 - whatever a user's own class does, the traceback has to be complete
            text = f"<{type(exc).__name__}: {exc}>"
        if not inspect.isroutine(value) and not inspect.ismodule(value) and not inspect.isclass(value):
            limit = output_limit()
            text = text if len(text) <= limit else f"{text[: limit - 3]}..."
            lines.append(f"      {name} = <{scope[0]}> {text}\n")
    return lines


def get_func_from_code_object(co: CodeType, frame: FrameType | None = None) -> FunctionType | None:
    """:return: the function with this code, None if there is none any more"""
    name = co.co_name
    values = [] if frame is None else [frame.f_globals.get(name), frame.f_locals.get(name)]
    if frame is not None and co.co_varnames[:1]:
        owner = frame.f_locals.get(co.co_varnames[0])
        values.append(inspect.unwrap(getattr(type(owner), name, None) or (lambda: None)))
    for value in (*values, *gc.get_referrers(co)):
        if isinstance(value, FunctionType) and value.__code__ is co:
            return value
    return None


def get_func_str_from_code_object(co: CodeType, frame: FrameType | None = None) -> str:
    """:return: name of the function, with its class if that is known"""
    name = getattr(co, "co_qualname", None)  # since Python 3.11
    if name is None and isinstance(co, CodeType):
        name = getattr(get_func_from_code_object(co, frame), "__qualname__", None)
    return name or co.co_name


def replace_traceback_format_tb() -> None:
    """From now on, `traceback.format_tb` and `format_list` show the values of variables."""
    traceback.format_tb = lambda tb, limit=None: format_tb(tb, limit=limit, clear_frames=False)


def replace_traceback_print_tb() -> None:
    """From now on, `traceback.print_tb` shows the values of variables."""

    def print_tb(tb: TracebackType | None, limit: int | None = None, file: TextIO | None = None) -> None:
        print("".join(format_tb(tb, limit=limit, clear_frames=False)), end="", file=file or sys.stderr)

    traceback.print_tb = print_tb


def dump_all_thread_tracebacks(exclude_thread_ids: Collection[int] | None = None, file: TextIO | None = None) -> None:
    """
    :param exclude_thread_ids: threads to leave out
    :param file: the standard output by default
    """
    debug.dump_all_thread_tracebacks(exclude_thread_ids=exclude_thread_ids, file=file or sys.stdout)


def is_at_exit() -> bool:
    """:return: whether the process ends: Python waits for its other threads"""
    return sys.is_finalizing() or not threading.main_thread().is_alive()
