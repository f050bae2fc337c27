import contextlib
import io
import re
import sys

import pytest

from returnn.engine.report.progress import Progress, describe_scores
from returnn.log import log

MEANS = {"error:output": 0.5, "loss:output": 2.25}


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def stdout(monkeypatch):
    def replace(stream, *, verbosity):
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "120")
        log.initialize(verbosity=[verbosity])
        return stream

    yield replace
    log.initialize(verbosity=[3])


def make_steps(num_steps):
    with Progress("train epoch 3") as progress:
        for step in range(num_steps):
            progress.step(num_seqs=10, means=MEANS, complete_frac=(step + 1) / num_steps, details=["batch 10x4"])


def test_terminal_gets_one_line_that_is_gone_at_the_end(stdout):
    terminal = stdout(Terminal(), verbosity=3)
    make_steps(1)
    number = r"[\d.,]+"
    line = (
        f"train epoch 3, step 1, loss 2.25, error 0.5, 100.0%, 0:00:00 left, {number} seqs/s, mem {number}[KMG]B, "
        "batch 10x4"
    )
    assert re.fullmatch(rf"\r\x1b\[K{line}\r\x1b\[K", terminal.getvalue())


def test_file_gets_plain_lines_from_time_to_time(stdout):
    file = stdout(io.StringIO(), verbosity=3)
    make_steps(100)
    assert file.getvalue().startswith("train epoch 3, step 1, loss 2.25, error 0.5, 1.0%, ")
    assert file.getvalue().count("\n") == 1
    assert "\x1b" not in file.getvalue()


def test_verbosity_5_has_a_line_for_each_step(stdout):
    terminal = stdout(Terminal(), verbosity=5)
    make_steps(7)
    assert terminal.getvalue().count("\n") == 7
    assert "\x1b" not in terminal.getvalue()


def test_verbosity_2_is_silent(stdout):
    terminal = stdout(Terminal(), verbosity=2)
    make_steps(7)
    assert terminal.getvalue() == ""


def test_live_line_goes_away_also_after_an_error(stdout):
    terminal = stdout(Terminal(), verbosity=3)
    with contextlib.suppress(KeyError), Progress("train epoch 3") as progress:
        progress.step(num_seqs=1, means={}, complete_frac=None)
        raise KeyError
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_names_are_shown_if_there_are_several_losses():
    assert describe_scores(MEANS) == ["loss 2.25", "error 0.5"]
    assert describe_scores({"loss:b": 1.0, "loss:a": 2.0, "error:a": 3.0}) == ["loss a 2", "error a 3", "loss b 1"]
    assert describe_scores({}) == []


def test_remaining_time_does_not_count_the_first_step(stdout, monkeypatch):
    file = stdout(io.StringIO(), verbosity=5)
    times = iter([0.0, 30.0, 32.0, 34.0])
    monkeypatch.setattr("returnn.engine.report.progress.time.monotonic", lambda: next(times))
    progress = Progress("train epoch 3")
    for step in range(3):
        progress.step(num_seqs=10, means=MEANS, complete_frac=(step + 1) / 10)
    lines = file.getvalue().splitlines()
    assert "10.0%, " in lines[0]
    assert "left" not in lines[0]  # there is nothing yet to tell it by
    assert "20.0%, 0:00:16 left" in lines[1]
    assert "30.0%, 0:00:14 left" in lines[2]


def test_share_of_time_that_waits_for_data_does_not_count_the_first_step(stdout, monkeypatch):
    file = stdout(io.StringIO(), verbosity=5)
    now = [0.0]
    monkeypatch.setattr("returnn.engine.report.progress.time.monotonic", lambda: now[0])

    def batches():
        for waiting in (50.0, 3.0, 1.0):
            now[0] += waiting
            yield waiting

    progress = Progress("train epoch 3")
    for _ in progress.timed(batches()):
        now[0] += 1.0  # the step
        progress.step(num_seqs=10, means=MEANS, complete_frac=None)
    lines = file.getvalue().splitlines()
    assert "waiting" not in lines[0]  # nothing was loaded ahead
    assert "75% waiting for data" in lines[1]
    assert "67% waiting for data" in lines[2]
