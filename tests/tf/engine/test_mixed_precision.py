"""Trainings in mixed precision: parameters are those of a float32 training, to a few digits, and resume as ever."""

import numpy
import pytest
import tensorflow as tf

from returnn.tf.engine import tasks
from tests.tf.engine.small_config import assert_same, config, parameters

ONE_SCALE = {"init_scale": 64.0, "growth_interval": 3}


@pytest.fixture(autouse=True)
def new_graph():
    yield
    tf.compat.v1.reset_default_graph()


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    """:return: parameters after a training in float32"""
    folder = tmp_path_factory.mktemp("exact")
    tasks.train(config(folder, num_epochs=2))
    return parameters(folder / "net.002")


@pytest.mark.parametrize("options", [{"tf_amp": "bfloat16"}, {"tf_amp": "float16", "grad_scaler": ONE_SCALE}], ids=str)
def test_it_trains_to_about_the_same(options, exact, tmp_path):
    tasks.train(config(tmp_path, num_epochs=2, **options))
    found = parameters(tmp_path / "net.002")
    for name, value in exact.items():
        if value.dtype == numpy.float32 and not name.endswith(("_m", "_v")):
            # To 10 %: processors without bfloat16 also sum up with few digits.
            assert numpy.linalg.norm(found[name] - value) < 0.1 * numpy.linalg.norm(value), name
    assert any((found[name] != value).any() for name, value in exact.items())


def test_the_scale_of_the_losses_goes_on_where_it_was(tmp_path):
    options = {"tf_amp": "float16", "grad_scaler": ONE_SCALE}
    for name, epochs in [("one", [2]), ("two", [1, 2])]:
        (tmp_path / name).mkdir()
        for num_epochs in epochs:
            tasks.train(config(tmp_path / name, num_epochs=num_epochs, **options))
    found = parameters(tmp_path / "one" / "net.002")
    assert found["optimize/loss_scale"] == 128  # it grew once within 4 steps
    assert_same(found, parameters(tmp_path / "two" / "net.002"))
