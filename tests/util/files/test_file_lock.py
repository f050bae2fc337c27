import os
import threading
import time

import pytest

from returnn.util.files import file_lock
from returnn.util.files.file_lock import LockFile


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
