import io
import logging
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from returnn.log import StdoutHandler
from returnn.util.system.live_line import LiveLine, fit, live_line


class Terminal(io.StringIO):
    def isatty(self):
        return True


def stdout_is_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    return terminal


@given(st.lists(st.text("ab ", min_size=1), min_size=1), st.integers(-1, 100))
def test_line_fits_and_starts_with_the_most_important_part(parts, columns):
    line = fit(parts, columns)
    assert len(line) <= max(columns, 0)
    assert line.startswith(parts[0][: max(columns, 0)])


def test_parts_are_left_out_whole():
    parts = ["train epoch 1", "step 3", "loss 2.5"]
    assert fit(parts, 100) == "train epoch 1, step 3, loss 2.5"
    assert fit(parts, 28) == "train epoch 1, step 3"
    assert fit(parts, 5) == "train"


@pytest.mark.parametrize("columns", [10, 20, 80])
def test_shown_line_never_wraps(columns, monkeypatch):
    terminal = stdout_is_terminal(monkeypatch)
    monkeypatch.setenv("COLUMNS", str(columns))
    LiveLine().show(["train epoch 1", "step 3", "loss 2.5"])
    assert len(terminal.getvalue().removeprefix("\r\x1b[K")) < columns


def test_clear_takes_a_shown_line_away_once(monkeypatch):
    terminal = stdout_is_terminal(monkeypatch)
    line = LiveLine()
    line.clear()
    assert terminal.getvalue() == ""
    line.show(["text"])
    line.clear()
    line.clear()
    assert terminal.getvalue() == "\r\x1b[Ktext\r\x1b[K"


def test_log_writes_in_place_of_the_live_line(monkeypatch):
    terminal = stdout_is_terminal(monkeypatch)
    live_line.show(["step 1"])
    StdoutHandler().handle(logging.LogRecord("returnn", logging.INFO, "", 0, "a message", None, None))
    assert terminal.getvalue() == "\r\x1b[Kstep 1\r\x1b[Ka message\n"


def test_only_terminals_have_a_live_line(monkeypatch):
    stdout_is_terminal(monkeypatch)
    assert LiveLine.is_possible()
    monkeypatch.setenv("TERM", "dumb")
    assert not LiveLine.is_possible()
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert not LiveLine.is_possible()
