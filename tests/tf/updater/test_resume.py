"""A training that is saved, ended and continued in a new process gives the same bits as one that just goes on."""

import numpy
import pytest
import tensorflow as tf

from returnn.tf.checkpoint import CheckpointWriter, CustomCheckpointLoader
from returnn.tf.optimizers import registry
from tests.tf.updater.training import Training

OPTIMIZERS = sorted({cls: name for name, cls in sorted(registry._classes.items())}.values())
EXTRA_OPTIONS = {"momentum": {"momentum": 0.9}, "sgd": {"momentum": 0.9, "use_ema": True, "ema_overwrite_frequency": 3}}


def gradients(step):
    random = numpy.random.default_rng(step)
    return {
        "hidden/W": random.normal(size=(2, 2)),
        "hidden/b": random.normal(size=2),
        "output/W": random.normal(size=3),
    }


def saved_variables(training):
    network = training.network
    return [*network.params.values(), *network.extra_vars_to_save, network.global_train_step_var]


def save(training, checkpoint):
    with training.graph.as_default():
        CheckpointWriter({var.op.name: var for var in saved_variables(training)}).save(training.session, checkpoint)


@pytest.mark.parametrize("options", [{}, {"accum_grad_multiple_step": 2, "gradient_clip_global_norm": 0.5}], ids=str)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_continued_training_gives_the_same_bits(name, options, tmp_path):
    options = {"optimizer": {"class": name, **EXTRA_OPTIONS.get(name.removesuffix("optimizer"), {})}, **options}
    undisturbed, first, second = (Training(learning_rate=0.1, **options) for _ in range(3))
    for step in range(7):
        undisturbed.step(gradients(step))
    for step in range(3):
        first.step(gradients(step))
    save(first, str(tmp_path / "m.001"))
    with second.graph.as_default():
        CustomCheckpointLoader(str(tmp_path / "m.001"), saved_variables(second)).load_now(second.session)
    for step in range(3, 7):
        second.step(gradients(step))
    for one, other in zip(saved_variables(undisturbed), saved_variables(second), strict=True):
        numpy.testing.assert_array_equal(undisturbed.session.run(one), second.session.run(other), err_msg=one.op.name)


def test_all_that_changes_is_saved(tmp_path):
    training = Training(optimizer="schedulefreeadamw", accum_grad_multiple_step=2)
    save(training, str(tmp_path / "m.001"))
    assert set(tf.train.load_checkpoint(str(tmp_path / "m.001")).get_variable_to_shape_map()) == {
        var.op.name
        for var in training.graph.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES)
        if var.op.name != "learning_rate"
    }
