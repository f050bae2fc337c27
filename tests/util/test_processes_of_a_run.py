"""Other processes that a run has: a manager that starts it again, what it starts itself, and a restart."""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import returnn
from returnn.util.watch_memory import memory_of_processes, watch_memory
from tests.patience import PATIENCE_S, is_running, wait_until

ROOT = Path(returnn.__file__).parent.parent
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}
MANAGED = """
import os, sys
from returnn.config import Config
from returnn.util.train_proc_manager import maybe_start_train_proc_manager
config = Config({"use_train_proc_manager": True, "task": "train", "model": "net"})
maybe_start_train_proc_manager(config=config)
with open("runs", "a") as file:
    file.write("x")
with open("runs") as file:
    number = len(file.read())
"""


def run(folder, code):
    script = folder / "run.py"
    script.write_text(MANAGED + code)
    return subprocess.run(
        [sys.executable, str(script)], cwd=folder, env=ENV, capture_output=True, text=True, check=False
    )


def num_runs(folder):
    return len((folder / "runs").read_text())


def test_training_that_ends_well_runs_once(tmp_path):
    assert run(tmp_path, "").returncode == 0
    assert num_runs(tmp_path) == 1


def test_training_that_crashes_after_some_progress_starts_again(tmp_path):
    done = run(
        tmp_path,
        "if number < 4:\n    open(f'net.00{number}.index', 'w').close()\n    os.kill(os.getpid(), 9)\n",
    )
    assert done.returncode == 0
    assert num_runs(tmp_path) == 4
    assert done.stderr.count("training ended with status -9 after some progress: starts again") == 3


def test_training_ends_with_a_manager_that_is_killed(tmp_path):
    (tmp_path / "run.py").write_text(
        MANAGED
        + "import time\nopen('pid', 'w').write(str(os.getpid()))\nos.rename('pid', 'pid.is')\ntime.sleep(1000)\n"
    )
    manager = subprocess.Popen([sys.executable, "run.py"], cwd=tmp_path, env=ENV)
    wait_until(lambda: (tmp_path / "pid.is").exists())
    training = int((tmp_path / "pid.is").read_text())
    manager.kill()
    manager.wait()
    wait_until(lambda: not is_running(training))


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGKILL])
def test_trainings_end_with_their_launcher(number, tmp_path):
    (tmp_path / "run.py").write_text("import os, time\nopen(f'pid.{os.getpid()}', 'w').close()\ntime.sleep(1000)\n")
    command = [sys.executable, "-m", "returnn.launch", "--processes", "2", "run.py"]
    launcher = subprocess.Popen(command, cwd=tmp_path, env=ENV, stderr=subprocess.DEVNULL)
    wait_until(lambda: len(list(tmp_path.glob("pid.*"))) == 2)
    launcher.send_signal(number)
    assert launcher.wait(PATIENCE_S) == (-number if number == signal.SIGKILL else 128 + number)
    for path in tmp_path.glob("pid.*"):
        wait_until(lambda pid=path.name[4:]: not is_running(pid))


@pytest.mark.parametrize(("code", "status"), [("sys.exit(3)", 3), ("os.kill(os.getpid(), 11)", 139)])
def test_training_that_crashes_without_progress_ends(code, status, tmp_path):
    assert run(tmp_path, code).returncode == status
    assert num_runs(tmp_path) == 1


def test_manager_hands_on_signals_and_ends(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(MANAGED + "open('net.001.index', 'w').close()\nimport time\ntime.sleep(1000)\n")
    with subprocess.Popen([sys.executable, str(script)], cwd=tmp_path, env=ENV) as process:
        wait_until(lambda: (tmp_path / "runs").exists() and (tmp_path / "net.001.index").exists())
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE_S) == 128 + signal.SIGTERM
    assert num_runs(tmp_path) == 1


def test_restart_has_the_same_arguments_and_no_open_files(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(
        "import os, sys\n"
        "from returnn.util.system.restart import restart_program\n"
        "print(sys.argv[1:], len(os.listdir('/proc/self/fd')), flush=True)\n"
        "fd = os.open('run.py', os.O_RDONLY)\n"
        "os.set_inheritable(fd, True)\n"
        "if 'DONE' not in os.environ:\n"
        "    os.environ['DONE'] = '1'\n"
        "    restart_program()\n"
    )
    done = subprocess.run(
        [sys.executable, str(script), "a", "b"], cwd=tmp_path, env=ENV, capture_output=True, text=True, check=True
    )
    first, second = done.stdout.splitlines()
    assert first == second
    assert first.startswith("['a', 'b']")


def test_memory_of_processes_below():
    with subprocess.Popen([sys.executable, "-c", "x = b'x' * 50_000_000; print(flush=True); input()"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # fmt: skip
        process.stdout.readline()
        sizes = memory_of_processes(os.getpid())
        assert sizes[process.pid] > 50_000_000
        assert sizes[os.getpid()] > 1_000_000
        process.communicate(b"\n")
    assert process.pid not in memory_of_processes(os.getpid())


def test_memory_is_logged_when_it_grows():
    lines, written = [], threading.Event()

    def write(line):
        lines.append(line)
        written.set()

    stop = watch_memory(write, interval_s=0.01)
    assert written.wait(PATIENCE_S)
    written.clear()
    kept = b"x" * 500_000_000
    assert written.wait(PATIENCE_S)
    stop.set()
    assert len(kept) == 500_000_000
    assert all(re.match(r"memory: .* in \d+ process", line) for line in lines), lines
