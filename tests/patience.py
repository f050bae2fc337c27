"""
How long tests wait for what comes: as long as a machine may take that is busy with other things, and with tests of
other workers. Only a failure takes that long, so nothing here says how fast something is.
"""

import time

PATIENCE_S = 400.0  # what hangs on purpose does so for 1000


def wait_until(condition, describe=lambda: ""):
    """
    :param condition: function, which becomes true
    :param describe: function: what there is in its place
    """
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, describe()
        time.sleep(0.02)


def is_running(pid):
    """:return: whether there is such a process. One that has ended, and whose parent does not care, is none"""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


class Clock:
    """
    In place of `time` in the module `waiting`: it stands still, and goes on by 15 seconds for each look at it, once
    something hangs. So a limit is reached in no time, and never by something that is only slow.
    """

    def __init__(self, hangs=lambda: False):
        """:param hangs: function: whether it does. Or call `hang`"""
        self._hangs = hangs
        self._time_s = 0.0

    def hang(self):
        self._hangs = lambda: True

    def monotonic(self):
        self._time_s += 15.0 if self._hangs() else 0.0
        return self._time_s


def is_stopped(pid):
    """:return: whether SIGSTOP has reached it, which it does a moment after it was sent; also if it has ended since"""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in "TZX"
    except OSError:
        return True
