"""
Runs of `rnn.py` and other programs of the checkout, without the seconds that importing TensorFlow takes: a process that
has imported it forks for each run.

`python -m tests.soak.fork_server` reads requests from its input, a line of JSON each: `folder`, `program`,
`arguments`, `environment`, `output` (a file). It answers with a line: `pid`, and when the run has ended, `pid` and
`status`, which is negative for a signal.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import re
import runpy
import signal
import subprocess
import sys
import threading
import time

from tests.patience import PATIENCE_S

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Run:
    """A process that works on a config, in a session of its own."""

    def __init__(self, server, pid, output):
        self.pid = pid
        self._server = server
        self._output = output

    @property
    def output(self):
        """What it has printed so far."""
        with open(self._output, encoding="utf8", errors="replace") as file:
            return file.read()

    @property
    def status(self):
        """None as long as it runs; else the exit status, negative for a signal."""
        self._server.read_answers()
        return self._server.statuses.get(self.pid)

    def wait(self, limit_s=PATIENCE_S):
        """:return: exit status; None if it runs on after so many seconds"""
        deadline = time.monotonic() + limit_s
        while self.status is None and time.monotonic() < deadline:
            time.sleep(0.02)
        return self.status

    def wait_for(self, text, limit_s=PATIENCE_S):
        """:return: whether it has printed something that the regular expression finds, before it ended"""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            ended = self.status is not None
            if re.search(text, self.output):
                return True
            if ended:
                return False
            time.sleep(0.02)
        return False

    def processes(self):
        """:return: all processes of its session that are alive"""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
                if int(fields[3]) == self.pid and fields[0] != "Z":
                    found.append(int(pid))
        return found

    def workers(self):
        """:return: processes that it has started to load data, in the order of their numbers"""
        found = []
        for pid in self.processes():
            with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
                if pid != self.pid and b"run_worker" in file.read():
                    found.append(pid)
        return sorted(found)


class ForkServer:
    """The server, seen from outside. To be used as a context."""

    def __enter__(self):
        env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": _ROOT}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.fork_server"], cwd=_ROOT, env=env,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._answers = queue.Queue()
        self.statuses = {}
        threading.Thread(target=self._read, daemon=True).start()
        self._num_runs = 0
        return self

    def __exit__(self, *exc):
        self._process.stdin.close()
        self._process.wait(PATIENCE_S)
        self._process.stdout.close()

    def _read(self):
        for line in self._process.stdout:
            self._answers.put(json.loads(line))

    def read_answers(self):
        """Takes what has ended."""
        with contextlib.suppress(queue.Empty):
            while True:
                answer = self._answers.get_nowait()
                self.statuses[answer["pid"]] = answer["status"]

    def run(self, folder, command, limit_s=PATIENCE_S, *, has_curve=False, **environment):
        """
        :param folder: where
        :param command: a program of the checkout, with its path there, and its arguments
        :param limit_s: how long it may take
        :param has_curve: see `start`
        :param environment: more variables
        :return: what it printed
        :raises AssertionError: if it failed, or took longer
        """
        program, *arguments = command
        run = self.start(folder, *arguments, program=program, has_curve=has_curve, **environment)
        try:
            assert run.wait(limit_s) == 0, run.output
        finally:
            if run.status is None:
                os.killpg(run.pid, signal.SIGKILL)
        return run.output

    def start(self, folder, *arguments, program="rnn.py", has_curve=False, **environment):
        """
        :param folder: where
        :param arguments: of the program
        :param program: of the checkout
        :param has_curve: whether a training draws its learning curve, which takes as long as all else of a small one
        :param environment: more variables
        :return: `PROGRAM ARGUMENTS` in the folder
        """
        self._num_runs += 1
        output = os.path.join(folder, f"output.{self._num_runs}")
        open(output, "w").close()
        request = {"folder": str(folder), "program": program, "arguments": arguments}
        request |= {"environment": environment, "output": output, "has_curve": has_curve}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        while True:
            answer = self._answers.get(timeout=PATIENCE_S)
            if "status" not in answer:
                return Run(self, answer["pid"], output)
            self.statuses[answer["pid"]] = answer["status"]


def _answer(**values):
    os.write(1, (json.dumps(values) + "\n").encode())


def _run(request):
    os.setsid()
    os.chdir(request["folder"])
    os.environ.update(request["environment"])
    with open(request["output"], "ab", buffering=0) as file, open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    if not request["has_curve"]:
        learning_curve = importlib.import_module("returnn.engine.report.learning_curve")
        learning_curve.draw_learning_curve = lambda *_args, **_kwargs: None
    sys.argv = [request["program"], *request["arguments"]]
    if request["program"] == "rnn.py":
        importlib.import_module("returnn.__main__").main_and_exit()
    program = os.path.join(_ROOT, request["program"])
    sys.path.insert(0, os.path.dirname(program))
    runpy.run_path(program, run_name="__main__")
    sys.exit(0)


def _wait(pid):
    _, status = os.waitpid(pid, 0)
    _answer(pid=pid, status=os.waitstatus_to_exitcode(status))


def main():
    for name in ("returnn.__main__", "returnn.tf.engine", "matplotlib.figure"):
        importlib.import_module(name)
    importlib.import_module("returnn.tf.layers.options.registry").get_layer_class(
        "softmax"
    )  # all classes are loaded with the first one
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            _run(json.loads(line))
        _answer(pid=pid)
        threading.Thread(target=_wait, args=(pid,), daemon=True).start()


if __name__ == "__main__":
    main()
