import os
import re
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest

from returnn.util.errors import UserError
from returnn.util.files import file_lock
from returnn.util.files.file_lock import LockFile
from returnn.util.files.lock_holder import LockHolder
from returnn.util.system import waiting


@pytest.fixture(autouse=True)
def fast_polling(monkeypatch):
    monkeypatch.setattr(file_lock, "_POLL_S", 0.001)


def test_one_at_a_time(tmp_path):
    first, second = LockFile(str(tmp_path / "dir")), LockFile(str(tmp_path / "dir"))
    with first:
        assert second.is_locked()
        assert not second.try_lock()
    assert not second.is_locked()
    with second:
        assert os.listdir(tmp_path / "dir") == ["lock_file"]
    assert os.listdir(tmp_path / "dir") == []


def test_many_threads(tmp_path):
    inside, most = [], []

    def work():
        with LockFile(str(tmp_path)):
            inside.append(1)
            most.append(len(inside))
            inside.pop()

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 5


def test_lock_of_a_dead_process_does_not_count(tmp_path):
    (tmp_path / "lock_file").write_text("")
    past = time.time() - 100
    os.utime(tmp_path / "lock_file", (past, past))
    assert LockFile(str(tmp_path), lock_timeout=1000).is_locked()
    lock = LockFile(str(tmp_path), lock_timeout=50)
    assert lock.is_old_lockfile()
    assert not lock.is_locked()
    assert lock.try_lock()
    lock.unlock()
    assert os.listdir(tmp_path) == []


def test_unlock_leaves_the_lock_of_others(tmp_path):
    lock = LockFile(str(tmp_path))
    lock.lock()
    os.unlink(lock.lockfile)
    (tmp_path / "lock_file").write_text("of somebody else")
    lock.unlock()
    assert (tmp_path / "lock_file").exists()


def test_lock_of_a_killed_process_is_free_at_once(tmp_path):
    code = (
        "import os, signal, sys; from returnn.util.files.file_lock import LockFile; LockFile(sys.argv[1]).lock();"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == -9
    lock = LockFile(str(tmp_path))
    assert os.path.exists(lock.lockfile)
    assert not lock.is_locked()
    assert lock.try_lock()
    assert lock.holder().is_this_process
    lock.unlock()


def test_lock_of_another_machine_counts_until_it_is_too_old(tmp_path):
    lock = LockFile(str(tmp_path), lock_timeout=100)
    other = replace(LockHolder.this_process(), host="other/1", pid=1)
    (tmp_path / "lock_file").write_text(other.text())
    assert not lock.try_lock()
    assert str(lock.holder()).startswith("process 1 on other, since 20")
    past = time.time() - 200
    os.utime(lock.lockfile, (past, past))
    assert lock.try_lock()
    lock.unlock()


def set_age(path, age_s):
    then = time.time() - age_s
    os.utime(path, (then, then))


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "{}", "\x00\xff", '{"host": 1}'])
@pytest.mark.parametrize(("age_s", "counts"), [(0, True), (90, True), (-90, True), (110, False), (-110, False)])
def test_lock_that_does_not_say_whose_it_is_counts_by_its_time(text, age_s, counts, tmp_path):
    (tmp_path / "lock_file").write_text(text, encoding="latin1")
    set_age(tmp_path / "lock_file", age_s)
    lock = LockFile(str(tmp_path), lock_timeout=100)
    assert lock.is_locked() == counts
    assert lock.holder() is None
    assert lock.try_lock() != counts
    assert os.listdir(tmp_path) == ["lock_file"]
    if not counts:
        lock.unlock()


@pytest.mark.parametrize("age_s", [200, -200])
def test_time_of_a_lock_does_not_matter_while_its_process_is_there(age_s, tmp_path):
    with LockFile(str(tmp_path), lock_timeout=100) as lock:
        set_age(lock.lockfile, age_s)
        assert not LockFile(str(tmp_path), lock_timeout=100).try_lock()
        assert lock.is_ours()


def test_clock_of_this_machine_does_not_matter(tmp_path, monkeypatch):
    other = replace(LockHolder.this_process(), host="other/1")
    (tmp_path / "lock_file").write_text(other.text())
    now_s = time.time()
    for jump_s in (-1e6, 1e6):
        monkeypatch.setattr("time.time", lambda jump_s=jump_s: now_s + jump_s)
        assert not LockFile(str(tmp_path), lock_timeout=100).try_lock()


def test_pipe_in_the_place_of_a_lock_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "lock_file")
    assert not LockFile(str(tmp_path)).try_lock()
    set_age(tmp_path / "lock_file", 1e6)
    lock = LockFile(str(tmp_path))
    assert lock.try_lock()
    lock.unlock()


def test_number_of_an_ended_process_that_another_one_has_now(tmp_path):
    old = replace(LockHolder.this_process(), process_start="1")
    (tmp_path / "lock_file").write_text(old.text())
    assert not LockFile(str(tmp_path)).is_locked()


def test_waiting_names_the_holder(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(waiting, "FIRST_REPORT_S", 0.01)
    monkeypatch.setattr(file_lock, "_WAIT_LIMIT_S", 0.1)
    with LockFile(str(tmp_path)) as lock, pytest.raises(UserError) as info:
        LockFile(str(tmp_path)).lock()
    holder = f"lock '{lock.lockfile}' of process {os.getpid()} on {socket.gethostname()}, since "
    assert re.search(rf"waited for \d+ s: {re.escape(holder)}", str(info.value))
    assert "That is the limit, so this ends here." in str(info.value)
    assert re.search(rf"waiting for \d+ s now: {re.escape(holder)}", capsys.readouterr().err)
