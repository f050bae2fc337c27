"""What a training survives, done to real processes."""

import os
import re

import pytest

from tests.tf.engine.small_config import assert_same, parameters, start, start_alone

SECOND_EPOCH = "8"  # of the steps, 4 train and 1 dev per epoch: the third one of the second epoch


@pytest.fixture(scope="module")
def undisturbed(fork_server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    status, output = start(fork_server, folder)
    assert status == 0, output
    return parameters(folder / "model" / "net.002")


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_the_same_command_again_ends_with_the_same_parameters(signal, fork_server, tmp_path, undisturbed):
    status, output = start(fork_server, tmp_path, SIGNAL=signal, SIGNAL_AT_STEP=SECOND_EPOCH)
    assert status != 0
    if signal != "SIGKILL":
        assert f"interrupted by {signal} after train epoch 2, step 3" in output
        assert "The same command again goes on there." in output
        assert "Traceback" not in output
    assert not (tmp_path / "model" / "net.002.index").exists()
    status, output = start(fork_server, tmp_path)
    assert status == 0, output
    assert f"start training at epoch 2 of 2{'' if signal == 'SIGKILL' else ', after step 3'}\n" in output
    assert_same(undisturbed, parameters(tmp_path / "model" / "net.002"))


def test_killed_inside_of_an_epoch(fork_server, tmp_path, undisturbed):
    options = {"SAVE_INTERVAL_STEPS": "1", "SIGNAL_AFTER_FILE": "model/net.002.unfinished.index"}
    status, output = start(fork_server, tmp_path, SIGNAL="SIGKILL", SIGNAL_AT_STEP="9", **options)
    assert status == -9, output
    status, output = start(fork_server, tmp_path)
    assert status == 0, output
    assert re.search(r"start training at epoch 2 of 2, after step [123]\n", output), (
        output
    )  # the last one that is whole
    assert_same(undisturbed, parameters(tmp_path / "model" / "net.002"))
    assert not [name for name in os.listdir(tmp_path / "model") if "unfinished" in name]


@pytest.mark.parametrize(("call", "save_interval_steps"), [(3, 0), (10, 0), (17, 0), (24, 0), (14, 1), (21, 2)])
def test_killed_while_files_are_written(call, save_interval_steps, fork_server, tmp_path, undisturbed):
    status, output = start(
        fork_server, tmp_path, KILL_AT_FILE_CALL=str(call), SAVE_INTERVAL_STEPS=str(save_interval_steps)
    )
    assert status == -9, output
    status, output = start(fork_server, tmp_path)
    assert status == 0, output
    assert_same(undisturbed, parameters(tmp_path / "model" / "net.002"))
    assert not [name for name in os.listdir(tmp_path / "model") if name.endswith((".saving", ".ready"))]


def test_full_disk_names_the_file_and_loses_nothing(fork_server, tmp_path, undisturbed):
    status, output = start_alone(
        tmp_path, DISK_FULL_AT_STEP=SECOND_EPOCH
    )  # the output is no file, it would be full too
    assert status == 1, output
    error = output[output.rindex("error: ") :]
    assert "checkpoint 'model/net.002' cannot be written: " in error
    assert "Checkpoints that are there are as they were." in error
    assert len(error.strip().splitlines()) <= 5
    assert (tmp_path / "model" / "net.001.index").exists()
    status, output = start(fork_server, tmp_path)
    assert status == 0, output
    assert "start training at epoch 2 of 2" in output
    assert_same(undisturbed, parameters(tmp_path / "model" / "net.002"))
