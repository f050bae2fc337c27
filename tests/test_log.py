import io
import os
import subprocess
import sys

import pytest

from returnn.config import Config
from returnn.log import log, wrap_log_streams
from returnn.util.errors import ConfigError
from returnn.util.system.warn_once import forget_shown

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@pytest.fixture(autouse=True)
def restore_log():
    yield
    log.initialize(verbosity=[5])


def _print_all():
    for level in range(1, 6):
        print(f"v{level}", file=getattr(log, f"v{level}"))


@pytest.mark.parametrize("verbosity", range(6))
def test_verbosity(capsys, verbosity):
    log.initialize(verbosity=[verbosity])
    _print_all()
    assert capsys.readouterr().out.split() == [f"v{level}" for level in range(1, verbosity + 1)]


@pytest.mark.parametrize("process", [0, 1])
def test_log_that_a_config_imports_is_no_target(capsys, process):
    config = Config({"log": log, "log_verbosity": [2]})
    log.init_by_config(config, process=process)
    _print_all()
    assert capsys.readouterr().out.split() == ([] if process else ["v1", "v2"])


def test_several_targets_from_config(capsys, tmp_path):
    file = tmp_path / "log"
    config = Config({"log": [str(file), "stdout"], "log_verbosity": [5, 1], "log_format": ["verbose", "raw"]})
    log.init_by_config(config)
    _print_all()
    assert capsys.readouterr().out == "v1\n"
    lines = file.read_text().splitlines()
    assert [line.split()[-1] for line in lines] == ["v1", "v2", "v3", "v4", "v5"]
    assert lines[0].startswith("CRITICAL - ")
    assert log.filename == str(file)


def test_log_file_is_appended_to_and_knows_the_date(tmp_path):
    for text in ("first", "second"):
        log.initialize(logs=[str(tmp_path / "log.$date")])
        print(text, file=log.v1)
    (file,) = tmp_path.iterdir()
    assert "$" not in file.name
    assert file.read_text() == "first\nsecond\n"


def test_pipe(tmp_path):
    log.initialize(logs=[f"| cat > {tmp_path}/out"])
    print("through the pipe", file=log.v2)
    log.initialize()
    assert (tmp_path / "out").read_text() == "through the pipe\n"


def test_lines_are_kept_until_they_end(capsys):
    log.initialize()
    print("a", end="", file=log.v1)
    assert capsys.readouterr().out == ""
    print("b\nc", end="", file=log.v1)
    assert capsys.readouterr().out == "ab\n"
    log.flush()
    assert capsys.readouterr().out == "c\n"


def test_percent_signs_are_only_text(capsys):
    log.initialize()
    print("100% %s", file=log.v1)
    assert capsys.readouterr().out == "100% %s\n"


def test_stdout_can_be_redirected_later(monkeypatch):
    log.initialize()
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    print("here", file=log.v1)
    assert stream.getvalue() == "here\n"


def test_wrap_log_streams(capsys):
    log.initialize(verbosity=[1])
    stream = io.StringIO()
    with wrap_log_streams(stream, also_sys_stdout=True, tf_log_verbosity="ERROR"):
        print("a", file=log.v5)
        print("b")
    print("c", file=log.v1)
    assert stream.getvalue() == "a\nb\n"
    assert capsys.readouterr().out == "c\n"


def test_warnings_come_once(capsys):
    log.initialize()
    forget_shown()
    for _ in range(2):
        log.print_warning("careful", extra_text="really")
        log.print_deprecation_warning("use new", behavior_version=3)
    assert capsys.readouterr().out == (
        "WARNING: careful\nreally\nDEPRECATION WARNING: use new\nThis is an error since behavior_version 3.\n"
    )


def test_wrong_options():
    with pytest.raises(ConfigError, match=r"option 'log_format': there is no log format 'timd'\.\n.*'timed'"):
        log.initialize(formatter=["timd"])
    with pytest.raises(ConfigError, match=r"option 'log': cannot write the file '/nowhere/log': No such file"):
        log.initialize(logs=["/nowhere/log"])


PRINTING = """
task = "config:print_lines"
log_verbosity = 5

def print_lines():
    from returnn.log import log
    for i in range({num_lines}):
        print(i, file=log.v1)
"""


def run_printing(folder, log_option, *, num_lines=2000):
    """:return: command, and options of the process"""
    (folder / "x.py").write_text(f"log = {log_option!r}{PRINTING.format(num_lines=num_lines)}")
    env = {**os.environ, "PYTHONPATH": ROOT}
    return [sys.executable, "-m", "returnn", "x.py"], {
        "cwd": folder, "env": env, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True,
    }  # fmt: skip


def test_full_disk_of_the_log_is_said_once(tmp_path):
    command, options = run_printing(tmp_path, ["/dev/full", "stdout"])
    result = subprocess.run(command, check=False, **options)
    assert result.returncode == 0, result.stderr
    assert result.stderr == (
        "WARNING: the log file '/dev/full' cannot be written: No space left on device. The run goes on.\n"
    )
    assert "1999" in result.stdout.splitlines()


def test_full_disk_of_stdout_is_said_once(tmp_path):
    command, options = run_printing(tmp_path, ["stdout"])
    with open("/dev/full", "w") as full:
        result = subprocess.run(command, check=False, **{**options, "stdout": full})
    warning = "WARNING: the output cannot be written: No space left on device. The run goes on."
    assert result.stderr.count(warning) == 1
    assert len(result.stderr.splitlines()) < 6


def test_reader_that_ends_ends_the_run_quietly(tmp_path):
    command, options = run_printing(tmp_path, ["stdout"], num_lines=100_000)
    with subprocess.Popen(command, **options) as process:
        for _ in range(3):
            process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141
