"""Gradients that are not finite stop the step before anything changes."""

import numpy
import pytest
import tensorflow as tf

from returnn.tf.updater.finite_gradients import NON_FINITE_GRADIENT
from tests.tf.updater.training import Network, Training

WRONG = [numpy.nan, numpy.inf, -numpy.inf, 1e30]  # the square of the last one is infinite


def feed(training, gradients):
    feeds = {holder: numpy.zeros(holder.shape) for holder in training.network.gradients.values()}
    return {**feeds, **{training.network.gradients[name]: value for name, value in gradients.items()}}


@pytest.mark.parametrize("value", WRONG)
@pytest.mark.parametrize(
    "options", [{}, {"optimizer": "adam"}, {"accum_grad_multiple_step": 2}, {"gradient_clip_global_norm": 1.0}], ids=str
)
def test_nothing_changes_in_the_step(value, options):
    training = Training(**options)
    gradients = {"output/W": [1.0, value, 2.0], "hidden/b": [1.0, 2.0]}
    for _ in range(2):
        with pytest.raises(tf.errors.InvalidArgumentError, match=NON_FINITE_GRADIENT):
            training.step(gradients)
    assert all(not training.change(name).any() for name in Network.VALUES)
    assert all(numpy.isfinite(training.session.run(var)).all() for var in training.updater.optimizer_vars)
    assert training.session.run(training.network.global_train_step_var) == 0
    training.step({"output/W": [1.0, 1.0, 1.0]})  # and the next one is as ever


def test_the_parameter_nearest_to_the_losses_is_named():
    training = Training()
    gradients = feed(training, {"output/W": [1.0, numpy.nan, 2.0], "hidden/b": [numpy.inf, 2.0]})
    found = training.updater.find_non_finite_gradients(training.session, gradients)
    assert str(found) == (
        "That of the parameter 'output/W' of layer 'output' is the nearest to the losses; 2 of 3 parameters have one."
    )
    assert training.updater.find_non_finite_gradients(training.session, feed(training, {})) is None


@pytest.mark.parametrize(
    ("options", "value"),
    [({"gradient_clip": 1.0}, numpy.inf), ({"gradient_nan_inf_filter": True}, numpy.nan),
     ({"grad_norm_to_clip_to_zero": 9.0}, numpy.nan)],
    ids=str,
)  # fmt: skip
def test_options_that_make_gradients_finite_still_do(options, value):
    training = Training(**options)
    training.step({"output/W": [1.0, value, 2.0]})
    assert numpy.isfinite(training.change("output/W")).all()
