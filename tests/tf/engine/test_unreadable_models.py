"""Models that cannot be read are no reason to start anew: only proven damage is passed over."""

import errno
import os

import pytest

from returnn.tf.engine import tasks
from returnn.util.errors import ConfigError, UserError
from tests.faults import faulty_environment
from tests.tf.engine.small_config import config, start, start_alone


@pytest.fixture(scope="module")
def trained(fork_server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    status, output = start(fork_server, folder)
    assert status == 0, output
    return folder


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (f"open {errno.EACCES} model/net.002.index", "Permission denied: 'model/net.002.index'"),
        (f"read {errno.EIO} model/net.002.data", "Input/output error: 'model/net.002.data-00000-of-00001'"),
        (f"open {errno.ESTALE} model/net.00", "Stale file handle: 'model/net.002.index'"),
    ],
)
def test_training_stops_and_changes_nothing(rule, reason, trained, tmp_path):
    before = contents(trained / "model")
    (tmp_path / "rules").write_text(rule)
    status, output = start_alone(trained, **faulty_environment(tmp_path / "rules"))
    assert status == 1, output
    error = output[output.rindex("\nerror: ") :]
    assert f"checkpoint 'model/net.002' cannot be read: {reason}.\n" in error
    assert "It may be intact, so nothing goes on without it. Make it readable, or move it away." in error
    assert "Traceback" not in output
    assert contents(trained / "model") == before


@pytest.fixture
def folder(tmp_path):
    tasks.train(config(tmp_path, num_epochs=3, learning_rate_file=str(tmp_path / "rates")))
    return tmp_path


def test_all_damaged_stops_unless_asked_to_start_anew(folder):
    for name in os.listdir(folder):
        if ".data-" in name:
            os.truncate(folder / name, 10)
    before = contents(folder)
    with pytest.raises(ConfigError) as info:
        tasks.train(config(folder, num_epochs=3))
    text = str(info.value)
    assert f"option 'model': all 3 checkpoints of '{folder}/net' are damaged. The newest: checkpoint" in text
    assert "'start_epoch = 1' starts anew, and writes over them." in text
    assert len(text.splitlines()) <= 5
    assert contents(folder) == before
    tasks.train(config(folder, num_epochs=1, start_epoch="1"))
    assert (folder / "net.001.data-00000-of-00001").stat().st_size > 10


def test_link_to_a_disk_that_is_not_there(folder):
    data = folder / "net.003.data-00000-of-00001"
    data.unlink()
    data.symlink_to("/not/mounted")
    before = contents(folder)
    with pytest.raises(UserError, match=r"'.*net\.003' cannot be read: No such file or directory"):
        tasks.train(config(folder, num_epochs=4))
    assert contents(folder) == before


def test_models_that_are_gone_are_missed(folder):
    for name in os.listdir(folder):
        if name.startswith("net."):
            os.remove(folder / name)
    options = {"num_epochs": 3, "learning_rate_file": str(folder / "rates")}
    with pytest.raises(ConfigError) as info:
        tasks.train(config(folder, **options))
    assert str(info.value) == (
        f"option 'model': '{folder}/net' has no checkpoint, but '{folder}/rates' has the scores of 3 epochs.\n"
        "  Is the folder mounted? Another model needs another 'learning_rate_file'. 'start_epoch = 1' starts anew."
    )
    tasks.train(config(folder, start_epoch="1", **options))


@pytest.mark.parametrize("task", ["train", "search"])
def test_folder_that_cannot_be_read(task, tmp_path, monkeypatch):
    def fails(_folder):
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr(os, "listdir", fails)
    with pytest.raises(UserError, match=r"cannot be read: Stale file handle"):
        (tasks.train if task == "train" else tasks.search_task)(config(tmp_path, task=task, search_data={}))
