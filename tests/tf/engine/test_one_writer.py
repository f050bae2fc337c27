"""Two trainings with the same model files: the second one says who is there, and changes nothing."""

import os
import signal
import subprocess
import sys

import pytest

from returnn.tf.engine import tasks
from returnn.util.errors import UserError
from tests.patience import wait_until
from tests.tf.engine.small_config import ROOT, config, start, start_run


def test_second_training_names_the_first_one(fork_server, tmp_path):
    first = start_run(fork_server, tmp_path, SIGNAL="SIGSTOP", SIGNAL_AT_STEP="3")
    lock = tmp_path / "model" / "net.lock"
    try:
        wait_until(lock.exists)
        before = sorted(os.listdir(tmp_path / "model"))
        status, output = start(fork_server, tmp_path)
        assert status == 1, output
        error = output[output.rindex("\nerror: ") :]
        assert f"option 'model': 'model/net' is trained already, by process {first.pid} on " in error
        assert "Two trainings would write over each other's models." in error
        assert {name for name in before if ".index" in name} == {
            name for name in os.listdir(tmp_path / "model") if ".index" in name
        }
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    status, output = start(fork_server, tmp_path)  # a dead process does not keep it
    assert status == 0, output
    assert not lock.exists()


def test_training_that_lost_its_lock_writes_nothing(tmp_path, monkeypatch):
    other = "from returnn.util.files.lock_holder import LockHolder; print(LockHolder.this_process().text())"
    env = {**os.environ, "PYTHONPATH": ROOT}
    text = subprocess.run([sys.executable, "-c", other], env=env, capture_output=True, text=True, check=True).stdout

    def take_over(**_kwargs):
        (tmp_path / "net.lock").unlink()
        (tmp_path / "net.lock").write_text(text)

    with pytest.raises(UserError, match=r"'.*net' is trained already, by "):
        tasks.train(config(tmp_path, init_new_network_callback=take_over))
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".index")]
