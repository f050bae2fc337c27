"""What a training survives, done to real processes."""

import os

import pytest

from tests.tf.engine.small_config import assert_same, parameters, start

SECOND_EPOCH = "8"  # of the steps, 4 train and 1 dev per epoch: the third one of the second epoch


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    status, output = start(folder)
    assert status == 0, output
    return parameters(folder / "model" / "net.002")


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_the_same_command_again_ends_with_the_same_parameters(signal, tmp_path, undisturbed):
    status, output = start(tmp_path, SIGNAL=signal, SIGNAL_AT_STEP=SECOND_EPOCH)
    assert status != 0
    if signal != "SIGKILL":
        assert f"interrupted by {signal} after train epoch 2, step 3" in output
        assert "The same command again goes on there." in output
        assert "Traceback" not in output
    assert not (tmp_path / "model" / "net.002.index").exists()
    status, output = start(tmp_path)
    assert status == 0, output
    assert f"start training at epoch 2 of 2{'' if signal == 'SIGKILL' else ', after step 3'}\n" in output
    assert_same(undisturbed, parameters(tmp_path / "model" / "net.002"))


@pytest.mark.parametrize("step", [9])
def test_killed_inside_of_an_epoch(step, tmp_path, undisturbed):
    options = {"SAVE_INTERVAL_STEPS": "1", "SECONDS_OF_STEP": "0.5"}
    status, output = start(tmp_path, SIGNAL="SIGKILL", SIGNAL_AT_STEP=str(step), **options)
    assert status == -9, output
    status, output = start(tmp_path)
    assert status == 0, output
    assert f"start training at epoch 2 of 2, after step {step - 6}\n" in output
    assert_same(undisturbed, parameters(tmp_path / "model" / "net.002"))
    assert not [name for name in os.listdir(tmp_path / "model") if "unfinished" in name]


@pytest.mark.parametrize(("call", "save_interval_steps"), [(3, 0), (10, 0), (17, 0), (24, 0), (14, 1), (31, 2)])
def test_killed_while_files_are_written(call, save_interval_steps, tmp_path, undisturbed):
    status, output = start(tmp_path, KILL_AT_FILE_CALL=str(call), SAVE_INTERVAL_STEPS=str(save_interval_steps))
    assert status == -9, output
    status, output = start(tmp_path)
    assert status == 0, output
    assert_same(undisturbed, parameters(tmp_path / "model" / "net.002"))
    assert not [name for name in os.listdir(tmp_path / "model") if name.endswith((".saving", ".ready"))]


def test_full_disk_names_the_file_and_loses_nothing(tmp_path, undisturbed):
    status, output = start(tmp_path, DISK_FULL_AT_STEP=SECOND_EPOCH)
    assert status == 1, output
    error = output[output.rindex("error: ") :]
    assert "checkpoint 'model/net.002' cannot be written: " in error
    assert "Checkpoints that are there are as they were." in error
    assert len(error.strip().splitlines()) <= 5
    assert (tmp_path / "model" / "net.001.index").exists()
    status, output = start(tmp_path)
    assert status == 0, output
    assert "start training at epoch 2 of 2" in output
    assert_same(undisturbed, parameters(tmp_path / "model" / "net.002"))
