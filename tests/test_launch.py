"""The launcher: what it hands to its processes, how it ends, and what it says if it is called wrongly."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from returnn import __version__, launch
from returnn.launch import main
from tests.patience import PATIENCE_S

TELLS_ITS_TASK = """
import json, os, sys
task = json.loads(os.environ["TF_CONFIG"])
with open(sys.argv[1] + str(task["task"]["index"]), "w") as file:
    json.dump(task, file)
"""
FAILS_ONCE = """
import json, os, sys
if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1 and not os.path.exists(sys.argv[1]):
    open(sys.argv[1], "w").close()
    sys.exit(7)
"""


FAILS_WHEN_THE_OTHER_IS_STOPPED = """
import json, os, signal, sys, time
if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1:
    with open(sys.argv[1] + "new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(sys.argv[1] + "new", sys.argv[1])
    os.kill(os.getpid(), signal.SIGSTOP)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
stat = f"/proc/{open(sys.argv[1]).read()}/stat"
while open(stat).read().rpartition(")")[2].split()[0] != "T":
    time.sleep(0.01)
sys.exit(7)
"""


@pytest.fixture
def program(tmp_path):
    """:return: makes a script"""

    def write(text):
        path = tmp_path / "program.py"
        path.write_text(text)
        return str(path)

    return write


@pytest.fixture(autouse=True)
def own_signals():
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-n", "2"], "what should be started? Such as: python -m returnn.launch --processes 2 returnn my.config"),
        (["-n", "0", "rnn.py"], "--processes should be at least 1, not 0"),
        (["-n", "2", "no-such-program"], "there is no program 'no-such-program'"),
        (
            ["-n", "2", "no-such.py"],
            "there is no file 'no-such.py'. Such as: python -m returnn.launch --processes 2 returnn",
        ),
        (["rnn.py"], "the following arguments are required: -n/--processes"),
    ],
)
def test_a_wrong_call_says_what_to_write(arguments, expected, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert expected in capsys.readouterr().err


def test_each_process_knows_its_rank_and_all_addresses(program, tmp_path):
    assert main(["-n", "3", program(TELLS_ITS_TASK), str(tmp_path / "task")]) == 0
    tasks = [json.loads((tmp_path / f"task{rank}").read_text()) for rank in range(3)]
    assert [task["task"] for task in tasks] == [{"type": "worker", "index": rank} for rank in range(3)]
    workers = tasks[0]["cluster"]["worker"]
    assert len(set(workers)) == 3
    assert all(task["cluster"]["worker"] == workers for task in tasks)


def test_the_toolkit_is_found_where_no_program_has_its_name(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("PYTHONPATH", str(Path(launch.__file__).parent.parent))
    monkeypatch.setenv("PATH", "")
    monkeypatch.chdir(tmp_path)
    assert main(["-n", "2", "returnn", "--version"]) == 0
    assert capfd.readouterr().out.split() == [__version__] * 2


def test_the_status_of_the_first_that_fails_is_the_status_of_all(program, tmp_path, capfd):
    assert main(["-n", "2", program(FAILS_ONCE), str(tmp_path / "failed")]) == 7
    assert "process 1 ended with status 7" in capfd.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="whether a process is stopped is known on Linux alone")
def test_one_that_is_stopped_is_not_waited_for(program, tmp_path):
    arguments = ["-n", "2", "--end-s", "1000000", program(FAILS_WHEN_THE_OTHER_IS_STOPPED), str(tmp_path / "pid")]
    launcher = [sys.executable, "-m", "returnn.launch", *arguments]
    assert subprocess.run(launcher, stderr=subprocess.DEVNULL, timeout=PATIENCE_S, check=False).returncode == 7


def test_all_are_started_again(program, tmp_path, capfd):
    assert main(["-n", "2", "--max-restarts", "2", program(FAILS_ONCE), str(tmp_path / "failed")]) == 0
    assert capfd.readouterr().err.count("starts all again, 1 of 2") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_reaches_all_processes(number, program, tmp_path):
    script = program("import os, time; os.write(1, b'ready\\n'); time.sleep(1000)")
    launcher = [sys.executable, "-m", "returnn.launch", "-n", "2", "--max-restarts", "3", script]
    with subprocess.Popen(launcher, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert [process.stdout.readline(), process.stdout.readline()] == [b"ready\n"] * 2
        process.send_signal(number)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + number
    assert b"starts all again" not in errors


def test_launchers_do_not_take_the_same_ports(monkeypatch):
    numbers = iter([20001, 20001, 20002, 20001, 20002, 20003, 20004, 20001])

    class Drawn:
        def randrange(self, start, stop):
            return next(numbers) + 0 * (start + stop)

    monkeypatch.setattr(launch.random, "SystemRandom", Drawn)
    one, other = launch._Ports(2), launch._Ports(2)
    assert not set(one.addresses) & set(other.addresses)
    one.close()
    again = launch._Ports(1)
    assert again.addresses == ["127.0.0.1:20001"]
    again.close()
    other.close()
