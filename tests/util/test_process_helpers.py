import io
import os
import subprocess
import sys
import time

import pytest

from returnn.util import basic as util
from returnn.util import debug
from returnn.util.better_exchook import better_exchook, print_exc
from returnn.util.errors import UserError
from returnn.util.files.json_text import json_remove_comments, load_json


def test_environment(monkeypatch):
    monkeypatch.setenv("SOME_PATH", "/opt/a:/usr/bin:/opt/b")
    util.cleanup_env_var_path("SOME_PATH", "/opt")
    assert os.environ["SOME_PATH"] == "/usr/bin"
    assert util.expand_env_vars("${SOME_PATH}/x $UNSET_OF_COURSE") == "/usr/bin/x $UNSET_OF_COURSE"
    assert util.eval_shell_env("$SOME_PATH") == "/usr/bin"
    assert util.eval_shell_str("a $SOME_PATH 'b c'") == ["a", "/usr/bin", "b c"]
    with util.override_env_var("SOME_PATH", "x"):
        assert os.environ["SOME_PATH"] == "x"
    assert os.environ["SOME_PATH"] == "/usr/bin"


def test_folders(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert util.get_temp_dir() == str(tmp_path / util.get_login_username())
    assert util.get_temp_dir(with_username=False) == str(tmp_path)
    monkeypatch.setenv("RETURNN_CACHE_DIR", "/cache")
    assert util.get_cache_dir() == "/cache"
    util.maybe_make_dirs(str(tmp_path / "a" / "b"))
    util.touch_file(str(tmp_path / "a" / "b" / "c"))
    assert (tmp_path / "a" / "b" / "c").exists()


def test_machine(monkeypatch):
    assert util.available_physical_memory_in_bytes() > 2**20
    assert util.get_number_available_cpus() >= 1
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    log = io.StringIO()
    assert util.guess_requested_max_num_threads(log_file=log) == 3
    assert log.getvalue() == "3 threads, by the environment variable OMP_NUM_THREADS\n"


def test_time_of_a_slurm_job_by_its_environment(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 10_000))
    assert 9000 < util.slurm_time_left_sec() <= 10_000


@pytest.mark.parametrize(("text", "seconds"), [("1-02:03:04", 93784), ("02:03", 123), ("UNLIMITED", None)])
def test_time_of_a_slurm_job(monkeypatch, tmp_path, text, seconds):
    script = tmp_path / "squeue"
    script.write_text(f"#!/bin/sh\necho {text}\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.delenv("SLURM_JOB_END_TIME", raising=False)
    assert util.slurm_time_left_sec() == seconds
    assert util.is_running_on_cluster()


def test_commands():
    assert util.sys_exec_out("echo", "a") == "a\n"
    assert util.sys_cmd_out_lines("echo a; echo b") == ["a", "b"]
    assert util.sys_exec_ret_code("false") == 1
    assert util.pip_check_is_installed("numpy")
    assert not util.pip_check_is_installed("no-such-package-here")


def test_terminal(monkeypatch):
    stream = io.StringIO()
    assert util.terminal_size(stream) == (-1, -1)
    util.progress_bar(0.5, file=stream)
    assert stream.getvalue() == ""
    monkeypatch.setattr(stream, "isatty", lambda: True)
    util.progress_bar_with_time(0.5, prefix="work", file=stream)
    util.progress_bar_with_time(1.0, prefix="work", file=stream)
    assert " work [|" in stream.getvalue()
    assert " 50.00% " in stream.getvalue()
    answers = iter(["what", "n", "y"])
    monkeypatch.setattr("builtins.input", lambda _: next(answers))
    assert not util.confirm("Sure?")
    assert util.confirm("Sure?")


def test_a_question_without_anybody_to_answer(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(UserError, match="Nobody is there to answer; RETURNN_CONFIRM=1 means yes"):
        util.confirm("Sure?")


def test_threads():
    run = util.AsyncThreadRun("name", lambda: 42)
    assert run.get() == 42
    failing = util.AsyncThreadRun("name", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        failing.get()


def test_json_with_comments(tmp_path):
    text = '{ // one\n "a": "http://x # y", /* two\n */ "b": [1, 2] # three\n}'
    assert load_json(content=text) == {"a": "http://x # y", "b": [1, 2]}
    assert json_remove_comments(text) == '{"a":"http://x # y","b":[1,2]}'
    (tmp_path / "x.json").write_text('{"a": }')
    with pytest.raises(UserError, match=r"x\.json, line 1, column 7: Expecting value\."):
        load_json(str(tmp_path / "x.json"))


def test_versions():
    assert util.describe_returnn_version().startswith("2.")
    assert util.describe_torch_version() != ""
    assert util.git_commit_rev(git_dir="/") == ""


def test_tracebacks_show_variables_and_user_errors_only_their_message():
    stream = io.StringIO()
    try:
        secret = "val" + "ue"
        raise KeyError(secret)
    except KeyError:
        print_exc(file=stream)
    assert "secret = 'value'" in stream.getvalue()
    stream = io.StringIO()
    better_exchook(UserError, UserError("do this"), None, file=stream)
    assert stream.getvalue() == "error: do this\n"


def test_all_threads():
    stream = io.StringIO()
    debug.dump_all_thread_tracebacks(file=stream)
    assert "test_all_threads" in stream.getvalue()
    stream = io.StringIO()
    debug.dump_all_thread_tracebacks(file=stream, exclude_self=True)
    assert "test_all_threads" not in stream.getvalue()
    assert debug.format_signum(15) == "SIGTERM (15)"


def test_handlers_in_a_process():
    code = (
        "import os, signal\nfrom returnn.util import debug\ndebug.init_better_exchook(); debug.init_faulthandler()\n"
        "os.kill(os.getpid(), signal.SIGUSR1)\nx = 'val' + 'ue'\n1 / 0\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "most recent call first" in result.stderr
    assert "ZeroDivisionError" in result.stderr
