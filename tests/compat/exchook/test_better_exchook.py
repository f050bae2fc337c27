"""Helpers of the old module `better_exchook`, as debugging scripts use them."""

from __future__ import annotations

import io
import sys
import traceback
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from returnn.util import better_exchook as hook


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a,b", [("id", "a"), ("op", ","), ("id", "b")]),
        ("f('x y') # why", [("id", "f"), ("op", "("), ("str", "x y"), ("op", ")"), ("comment", "# why")]),
        ("  x = 3 * (y", [("id", "x"), ("op", "="), ("num", "3"), ("op", "*"), ("op", "("), ("id", "y")]),
    ],
)
def test_parts_of_statements(line, expected):
    assert list(hook.parse_py_statement(line)) == expected


def test_names_in_statements():
    tokens = hook.parse_py_statements("return self.a.b(c) if not d else 'e'")
    assert list(hook.grep_full_py_identifiers(tokens)) == ["self", "self.a", "self.a.b", "c", "d"]


@pytest.mark.parametrize(
    ("source", "missing_open", "missing"), [("f(a", False, True), ("a)", True, False), ("f(a)", False, False)]
)
def test_brackets(source, missing_open, missing):
    assert hook.is_source_code_missing_open_brackets(source) is missing_open
    assert hook.is_source_code_missing_brackets(source) is missing
    assert hook.is_source_code_missing_brackets(f"b) + {source}", prioritize_missing_open=True) is False


def test_the_code_of_a_line_is_its_whole_statement():
    hook.set_linecache("<mine>", "x = 1\ny = f(\n    x,\n    2,\n)\nz = 3\n")
    whole = "y = f(\n    x,\n    2,\n)\n"
    assert [hook.get_source_code("<mine>", line) for line in (1, 2, 6)] == ["x = 1\n", whole, "z = 3\n"]
    assert hook.get_source_code("<mine>", 5) == whole
    assert hook.get_source_code("<other>", 1) == ""


@given(st.lists(st.text("ab c", min_size=1), min_size=1), st.integers(0, 4))
def test_indentation_can_be_taken_away(lines, depth):
    text = "\n".join(" " * depth + line for line in lines)
    removed = hook.remove_indent_lines(text)
    assert hook.get_same_indent_prefix(removed.splitlines()) in ("", None)
    assert len(removed.splitlines()) == len(text.splitlines())
    assert dedent(removed).split() == text.split()


def test_indentation():
    assert hook.add_indent_lines("> ", "a\nb\n") == "> a\n  b\n"
    assert hook.get_indent_prefix("\t a") == "\t "
    assert hook.replace_tab_indents("\ta\tb\n\t\tc", replace="  ") == "  a\tb\n    c"
    assert hook.str_visible_len(hook.Color(enable=True)("abc", color="red", bold=True)) == 3
    assert [hook.to_bool(x, fallback="?") for x in ("yes", "0", "maybe")] == [True, False, "?"]


def fails():
    number, values = 5, {"a": 1}
    return number + values["missing"]


def test_tracebacks_have_the_values_of_variables():
    try:
        fails()
    except KeyError as exc:
        text = "".join(hook.format_tb(exc.__traceback__, withTitle=True, with_color=False, clear_frames=False))
        places = [frame.f_code.co_name for frame, _ in hook.iter_traceback(exc.__traceback__)]
        first = next(frame for frame, _ in hook.iter_traceback(exc.__traceback__, enforce_most_recent_call_first=True))
        short = "".join(hook.format_tb(exc.__traceback__, limit=1, with_vars=False))
    assert text.startswith("Traceback (most recent call last):\n")
    assert "in fails\n" in text
    assert 'line: return number + values["missing"]' in text
    assert "number = <local> 5\n" in text
    assert "values = <local> {'a': 1}\n" in text
    assert places == ["test_tracebacks_have_the_values_of_variables", "fails"]
    assert first.f_code.co_name == "fails"
    assert "only 1 frames are shown" in short
    assert "number =" not in short


def test_frames():
    def made_here():  # functions of modules are kept from the garbage collector, which is asked here
        pass

    frame = hook.get_current_frame()
    assert hook.get_func_from_code_object(made_here.__code__) is made_here
    assert hook.get_func_str_from_code_object(fails.__code__) == "fails"
    summary = hook.ExtendedFrameSummary(frame)
    assert summary.tb_frame is frame
    assert summary.name == "test_frames"
    dummy = hook.DummyFrame.from_frame_summary(traceback.FrameSummary("a.py", 3, "f"))
    assert (dummy.f_code.co_filename, dummy.f_lineno, dummy.co_name) == ("a.py", 3, "f")
    assert '  File "a.py", line 3, in f\n' in hook.format_tb(traceback.StackSummary.from_list([("a.py", 3, "f", "x")]))
    assert not hook.is_at_exit()
    out = io.StringIO()
    hook.dump_all_thread_tracebacks(file=out)
    assert "test_frames" in out.getvalue()
    assert hook.fallback_findfile("/gone/better_exchook.py") == hook.__file__


def test_functions_of_traceback_can_be_replaced(monkeypatch, capsys):
    monkeypatch.setattr(traceback, "format_tb", traceback.format_tb)
    monkeypatch.setattr(traceback, "print_tb", traceback.print_tb)
    hook.replace_traceback_format_tb()
    hook.replace_traceback_print_tb()
    try:
        fails()
    except KeyError as exc:
        text = "".join(traceback.format_tb(exc.__traceback__))
        traceback.print_tb(exc.__traceback__)
    assert "number = <local> 5" in text
    assert "number = <local> 5" in capsys.readouterr().err


def test_colors_follow_the_environment(monkeypatch):
    color = hook.Color(enable=True)
    assert color("x", color="green") == "\x1b[32mx\x1b[0m"
    assert "\x1b" in color.py_syntax_highlight("if x: 'y'")
    assert hook.Color(enable=False).py_syntax_highlight("if x: 'y'") == "if x: 'y'"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert hook.Color().enable
    monkeypatch.setenv("CLICOLOR", "0")
    assert not hook.Color().enable
    monkeypatch.setenv("COLORFGBG", "15;0")
    assert hook.Color.is_dark_terminal_background()
    monkeypatch.setenv("COLORFGBG", "0;15")
    assert not hook.Color.is_dark_terminal_background()


def test_the_hook_says_what_it_is_about():
    def shown(**kwargs):
        out = io.StringIO()
        try:
            fails()
        except KeyError as exc:
            hook.better_exchook(KeyError, exc, exc.__traceback__, file=out, **kwargs)
        return out.getvalue()

    assert "unhandled KeyError in process" in shown(with_color=False)
    assert "unhandled" not in shown(with_preamble=False)
    assert "missing" in shown(with_preamble=False)


class Bytes:
    """Shown with a line for each, as a storage of PyTorch is."""

    def __repr__(self):
        return "\n".join(map(str, range(5000)))


def text_of(function):
    out = io.StringIO()
    try:
        function()
    except ValueError as exc:
        hook.better_exchook(ValueError, exc, exc.__traceback__, file=out)
    return out.getvalue()


def test_large_values_are_cut():
    def fails_with_values():
        storages = {name: [[Bytes()] * 9] * 9 for name in "abcdefgh"}
        short = {"x": [1, (2,)], "y": []}
        raise ValueError(len(storages), len(short))

    text = text_of(fails_with_values)
    assert len(text.splitlines()) < 800
    assert "characters)" in text
    assert "{'x': [1, (2,)], 'y': []}" in text


def test_a_long_chain_of_exceptions_is_cut():
    def fails_again(times):
        try:
            if times:
                fails_again(times - 1)
        finally:
            raise ValueError(f"number {times}")

    text = text_of(lambda: fails_again(99))
    for number in (0, 4, 95, 99):
        assert f"ValueError: number {number}\n" in text
    assert "number 50\n" not in text
    assert "ValueError: number 4\n\n(90 exceptions after it are not shown)\n" in text


def test_the_hook_opens_a_shell_if_the_environment_says_so(monkeypatch):
    opened = []
    monkeypatch.setattr("returnn.util.system.exception_hook.debug_shell", lambda names, *_, **__: opened.append(names))
    try:
        fails()
    except KeyError as exc:
        for debug, auto in (("0", True), ("1", False), ("1", True)):
            monkeypatch.setenv("DEBUG", debug)
            hook.better_exchook(KeyError, exc, exc.__traceback__, autodebugshell=auto, file=io.StringIO())
    assert [names["number"] for names in opened] == [5]
