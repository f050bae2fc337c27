"""What does not return is said, and ended."""

import os
import re
import subprocess
import sys
import threading
import time

import pytest

from returnn.util.errors import UserError
from returnn.util.system import waiting
from returnn.util.system.waiting import said_if_long
from tests.patience import PATIENCE_S, wait_until


def test_what_takes_long_is_said_with_its_place(monkeypatch):
    monkeypatch.setattr(waiting, "FIRST_REPORT_S", 0.05)
    lines = []
    with said_if_long("to sleep", report=lines.append):
        wait_until(lambda: len(lines) >= 2)
    assert re.match(rf"to sleep takes \d+ s now, in ({re.escape(__file__)}|.*patience\.py), line ", lines[0])


def test_what_is_short_is_not_said(capfd):
    with said_if_long("nothing", limit_s=1000.0):
        pass
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ["an event", "a pipe that nobody writes to"])
def test_limit_is_an_error(name, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    wait = threading.Event().wait if name == "an event" else (tmp_path / "pipe").read_text
    with pytest.raises(UserError) as info, said_if_long("to wait", limit_s=0.1):
        wait()
    problem, end = str(info.value).splitlines()
    assert re.match(r"to wait took \d+ s, in ", problem)
    assert end == "  That is the limit, so this ends here."


def test_other_errors_stay_as_they_are():
    with pytest.raises(KeyError), said_if_long("to fail", limit_s=1000.0):
        raise KeyError("x")
    with pytest.raises(KeyboardInterrupt), said_if_long("to be interrupted", limit_s=1000.0):
        raise KeyboardInterrupt


def test_only_the_main_thread_has_a_limit():
    ends = []

    def work():
        with said_if_long("to work", limit_s=0.01):
            time.sleep(0.1)
        ends.append("well")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ends == ["well"]


def test_what_does_not_listen_is_ended():
    code = """
import signal, time
from returnn.util.system import waiting
waiting.LIMIT_S = 0.1
signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in the background of a shell
with waiting.said_if_long("to sleep", limit_s=0.1):
    time.sleep(1000)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1
    assert re.fullmatch(
        r"error: to sleep took \d+ s, in <string>, line 7\.\n  That is the limit, so this ends here\.\n", done.stderr
    )
