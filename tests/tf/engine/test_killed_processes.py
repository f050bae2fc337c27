"""What a training survives, done to real processes."""

import pytest

from tests.tf.engine.small_config import assert_same, parameters, start

SECOND_EPOCH = "8"  # of the steps, 4 train and 1 dev per epoch: the third one of the second epoch


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    status, output = start(folder)
    assert status == 0, output
    return parameters(folder / "model" / "net.002")


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGTERM"])
def test_the_same_command_again_ends_with_the_same_parameters(signal, tmp_path, undisturbed):
    status, output = start(tmp_path, SIGNAL=signal, AT_STEP=SECOND_EPOCH)
    assert status != 0
    if signal == "SIGTERM":
        assert "interrupted by SIGTERM after train epoch 2, step 3" in output
        assert "The same command again starts at epoch 2." in output
        assert "Traceback" not in output
    assert not (tmp_path / "model" / "net.002.index").exists()
    status, output = start(tmp_path)
    assert status == 0, output
    assert "start training at epoch 2 of 2" in output
    assert_same(undisturbed, parameters(tmp_path / "model" / "net.002"))
