"""The end of a process, after an error and without one."""

import subprocess
import sys

import pytest

from tests.patience import PATIENCE_S

BEGIN = """
import atexit, sys, threading, time
from returnn.util.system import exit_in_time
atexit.register(lambda: print("at the end"))
print("before")
"""


def end_of(code):
    command = [sys.executable, "-c", BEGIN + code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("status", [0, 1, 75, 143])
def test_status_is_that_of_the_run(status):
    code = f"""
def work():
    time.sleep(0.1)
    print("thread")

threading.Thread(target=work).start()
exit_in_time.LIMIT_S = 300
exit_in_time.exit_in_time({status})
"""
    assert end_of(code) == (status, "before\nthread\nat the end\n", "")


@pytest.mark.parametrize("what", ["threading.Thread(target=time.sleep, args=(1000,))", "threading.Event()"])
def test_what_hangs_after_an_error_does_not_change_the_status(what):
    code = f"""
hanging = {what}
hanging.start() if isinstance(hanging, threading.Thread) else atexit.register(hanging.wait)
exit_in_time.LIMIT_S = 0.2
exit_in_time.exit_in_time(143)
"""
    assert end_of(code)[0] == 143
