"""Losses that are scaled for gradients in float16."""

import numpy
import pytest
import tensorflow as tf

from returnn.tf.updater.finite_gradients import NON_FINITE_GRADIENT
from returnn.util.errors import ConfigError
from tests.tf.updater.training import Network, Training

STEPS = [
    {"output/W": [1.0, -0.5, 2.0], "hidden/b": [0.3, 0.1]},
    {"output/W": [0.1, 0.2, 0.3]},
    {"hidden/b": [1.0, 2.0]},
]
INFINITE = {"output/W": [1.0, numpy.inf, 2.0], "hidden/b": [0.3, 0.1]}


def scale_of(training):
    return float(training.session.run(training.updater._loss_scale.variables[0]))


@pytest.mark.parametrize(
    "options", [{}, {"optimizer": "adam"}, {"accum_grad_multiple_step": 2}, {"gradient_clip_global_norm": 0.1}], ids=str
)
def test_a_scale_changes_nothing(options):
    plain, scaled = Training(**options), Training(**options, tf_amp="float16")
    for step in STEPS:
        plain.step(step)
        scaled.step(step)
    assert scale_of(scaled) == 65536
    for name in Network.VALUES:
        numpy.testing.assert_allclose(scaled.change(name), plain.change(name), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("options", [{}, {"optimizer": "adam"}], ids=str)
def test_a_step_with_infinite_gradients_is_left_out(options):
    plain, scaled = Training(**options), Training(**options, grad_scaler={"init_scale": 8.0})
    for step in STEPS:
        plain.step(step)
        scaled.step(INFINITE)
        scaled.step(step)
    assert scale_of(scaled) == 1.0
    for name in Network.VALUES:
        numpy.testing.assert_allclose(scaled.change(name), plain.change(name), rtol=1e-5, atol=1e-7)


def test_the_others_of_an_accumulated_update_count():
    plain, scaled = (Training(accum_grad_multiple_step=2, grad_scaler=scaled) for scaled in (False, True))
    for first, second in [(STEPS[0], INFINITE), (INFINITE, STEPS[1])]:
        for step in (first, second):
            plain.step({} if step is INFINITE else step)
            scaled.step(step)
    for name in Network.VALUES:
        numpy.testing.assert_allclose(scaled.change(name), plain.change(name), rtol=1e-5, atol=1e-7)


def test_it_grows_and_shrinks():
    training = Training(
        grad_scaler={"init_scale": 4.0, "growth_interval": 2, "growth_factor": 3.0, "backoff_factor": 0.25}
    )
    scales = []
    for step in [*STEPS, INFINITE, *STEPS]:
        training.step(step)
        scales.append(scale_of(training))
    assert scales == [4, 12, 12, 3, 3, 9, 9]


def test_gradients_that_no_scale_makes_finite_are_an_error():
    training = Training(grad_scaler={"init_scale": 2.0})
    training.step(INFINITE)
    training.step(INFINITE)
    with pytest.raises(tf.errors.InvalidArgumentError, match=NON_FINITE_GRADIENT):
        training.step(INFINITE)
    assert all(not training.change(name).any() for name in Network.VALUES)


def test_it_is_saved_with_the_optimizer():
    names = [var.op.name for var in Training(tf_amp="float16").updater.optimizer_vars]
    assert {"optimize/loss_scale", "optimize/loss_scale_num_finite"} <= set(names)
    assert not [var for var in Training(tf_amp="bfloat16").updater.optimizer_vars if "loss_scale" in var.op.name]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grad_scaler": {"init_scale": "8"}}, "'init_scale' has to be .*, not '8'"),
        ({"grad_scaler": {"init_scal": 1}}, "Did you mean 'init_scale'"),
        ({"grad_scaler": {"init_scale": 0}}, "should be above 0"),
        ({"tf_amp": "float8"}, "option 'tf_amp': there is no dtype 'float8'"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ConfigError, match=message):
        Training(**options)
