import io
from contextlib import redirect_stdout

import numpy
import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.tf.optimizers import registry
from returnn.tf.updater import Updater, get_optimizer_class, register_optimizer_class
from returnn.tf.util import collectives
from returnn.util.errors import ConfigError
from tests.tf.updater.training import Network, Training

GRADIENT = [3.0, 0.0, -4.0]  # L2 norm 5
GRADIENTS = {"output/W": GRADIENT, "hidden/b": [0.0, 12.0]}  # L2 norm 13


def output_change(*gradients, **options):
    """:return: change of the parameter output/W after plain gradient descent with these gradients of all parameters"""
    training = Training(**options)
    for gradient in gradients:
        training.step(gradient)
    return training.change("output/W")


def assert_close(actual, expected, rtol=1e-6):
    numpy.testing.assert_allclose(actual, expected, rtol=rtol, atol=1e-6)


def test_default_is_gradient_descent():
    assert_close(output_change(GRADIENTS, learning_rate=0.5), -0.5 * numpy.array(GRADIENT))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"gradient_clip": 3.5}, [3.0, 0.0, -3.5]),
        ({"gradient_clip_norm": 1.0}, [0.6, 0.0, -0.8]),
        ({"gradient_clip_norm": 7.0}, GRADIENT),
        ({"gradient_clip_avg_norm": 1.0}, [1.8, 0.0, -2.4]),
        ({"gradient_clip_global_norm": 1.3}, [0.3, 0.0, -0.4]),
        ({"gradient_clip_global_norm": 14}, GRADIENT),
        ({"grad_norm_to_clip_to_zero": 13.1}, GRADIENT),
        ({"grad_norm_to_clip_to_zero": 12.9}, [0.0, 0.0, 0.0]),
        ({"gradient_clip": 3.0, "gradient_clip_norm": 3.0}, [9 / 18**0.5, 0.0, -9 / 18**0.5]),
    ],
    ids=str,
)
def test_clipping(options, expected):
    assert_close(output_change(GRADIENTS, **options), -numpy.array(expected))


@pytest.mark.parametrize("option", ["gradient_clip_global_norm", "grad_norm_to_clip_to_zero"])
def test_global_norm_of_variables_with_a_tag(option):
    limit = {"gradient_clip_global_norm": 2.5, "grad_norm_to_clip_to_zero": 6.0}[option]
    layers = {"output": {"updater_opts": {"tags": ["top"], "global_norm_tag": "top", option: limit}}}
    expected = numpy.array(GRADIENT) * (0.5 if limit == 2.5 else 1.0)
    assert_close(output_change(GRADIENTS, layers=layers), -expected)


def test_unknown_tag():
    layers = {"output": {"updater_opts": {"tags": "decoder", "gradient_clip_global_norm": 1}}}
    with pytest.raises(ConfigError) as error:
        Training(layers, global_norm_tag="decodr")
    assert str(error.value) == (
        "option 'gradient_clip_global_norm_tag': there is no tag 'decodr'.\n  Did you mean 'decoder'?"
    )


def test_entries_that_are_not_finite_can_be_dropped():
    gradient = {"output/W": [numpy.nan, 2.0, -numpy.inf]}
    assert_close(output_change(gradient, gradient_nan_inf_filter=True), [0.0, -2.0, 0.0])
    assert not numpy.isfinite(output_change(gradient, stop_on_nonfinite_train_score=False)).all()


def test_a_norm_that_is_not_finite_shows_if_training_is_not_to_stop():
    gradients = {"output/W": GRADIENT, "hidden/b": [numpy.nan, 0.0]}
    changed = output_change(gradients, gradient_clip_global_norm=1.0, stop_on_nonfinite_train_score=False)
    assert numpy.isnan(changed).all()


def test_gradient_clip_to_zero_skips_a_step_that_is_not_finite():
    gradients = {"output/W": GRADIENT, "hidden/b": [numpy.nan, 0.0]}
    assert_close(output_change(gradients, grad_norm_to_clip_to_zero=100.0), [0.0, 0.0, 0.0])


def test_noise_has_the_deviation_and_is_new_in_each_step():
    training = Training(gradient_noise=0.5)
    changes = []
    for _ in range(300):
        before = training.value("hidden/W")
        training.step()
        changes.append(training.value("hidden/W") - before)
    assert len({change.tobytes() for change in changes}) == len(changes)
    assert numpy.max(numpy.abs(changes)) <= 1.0 + 1e-5
    assert abs(numpy.std(changes) - 0.5 * 0.88) < 0.03  # 0.88: deviation of the standard normal, cut off at 2


def test_accumulated_gradients_are_summed_and_then_clipped():
    training = Training(accum_grad_multiple_step=3, gradient_clip=5.0)
    for i in range(7):
        training.step({"output/W": [1.0, 2.0, i]})
        if i < 2:
            assert_close(training.change("output/W"), 0.0)
        else:
            assert_close(training.change("output/W"), [-3.0, -5.0, -3.0] if i < 5 else [-6.0, -10.0, -8.0])
    assert training.session.run(training.network.global_train_step_var) == 7


@pytest.mark.parametrize("optimizer", ["adam", "nadamkeras", "amsgrad"])
def test_accumulation_equals_one_step_with_the_sum(optimizer):
    collected = Training(accum_grad_multiple_step=2, optimizer={"class": optimizer}, learning_rate=0.1)
    at_once = Training(optimizer={"class": optimizer}, learning_rate=0.1)
    for scale in (1.0, -0.3):
        at_once.step({"output/W": numpy.array(GRADIENT) * scale * 2})
        for _ in range(2):
            collected.step({"output/W": numpy.array(GRADIENT) * scale})
    assert_close(collected.value("output/W"), at_once.value("output/W"))


def test_accumulators_are_saved():
    training = Training(accum_grad_multiple_step=2, optimizer="adam")
    names = {var.op.name for var in training.network.extra_vars_to_save}
    assert {"optimize/output/W/accum_grad", "optimize/output/W/Adam", "optimize/beta1_power"} <= names
    assert training.network.num_saver_resets == 1


def test_layers_with_options_of_their_own():
    layers = {
        "output": {"updater_opts": {"optimizer": {"class": "adam", "learning_rate_multiplier": 0.1}}},
        "hidden": {"updater_opts": {"accum_grad_multiple_step": 2, "gradient_clip": 1.0}},
    }
    training = Training(layers, learning_rate=1.0)
    training.step(GRADIENTS)
    assert_close(training.change("output/W"), [-0.1, 0.0, 0.1])  # first step of Adam: sign of the gradient
    assert_close(training.change("hidden/b"), [0.0, 0.0])
    training.step(GRADIENTS)
    assert_close(training.change("hidden/b"), [0.0, -1.0])
    updater = training.updater
    assert sorted(updater.get_slot_names_per_optimizer().values()) == [[], ["m", "v"]]
    assert updater.get_slot(training.network.params["output/W"], "m").op.name == "optimize/output/W/Adam"
    assert updater.get_slot(training.network.params["hidden/W"], "m") is None
    by_key = [updater.filter_var_list_per_optimizer_key(updater.trainable_vars, key) for key in updater.optimizers]
    assert sorted(len(variables) for variables in by_key) == [1, 2]


def test_decoupled_constraints():
    training = Training({"hidden": {"L2": 0.5}}, decouple_constraints=True, decouple_constraints_factor=0.1)
    training.step(GRADIENTS)
    assert_close(training.value("hidden/W"), 0.9 * numpy.array(Network.VALUES["hidden/W"]))
    assert_close(training.value("hidden/b"), [0.9 * 1.0, 0.9 * (1.0 - 12.0)])
    assert_close(training.change("output/W"), -numpy.array(GRADIENT))


def test_extra_updates_run_after_the_update():
    training = Training(extra_updates={"output/W": lambda var: var.assign(2.0 * var.read_value(), read_value=False)})
    training.step(GRADIENTS)
    assert_close(training.value("output/W"), [-2.0, -2.0, 16.0])


def test_loss_scale_of_an_optimizer_changes_nothing():
    assert_close(
        output_change(GRADIENTS, optimizer={"class": "sgd", "loss_scale_factor": 64.0}), -numpy.array(GRADIENT)
    )


def test_running_average_at_the_end_of_the_training():
    assert Training().updater.get_end_of_training_op() is None
    training = Training(optimizer={"class": "sgd", "use_ema": True, "ema_momentum": 0.5})
    with training.graph.as_default():
        end = training.updater.get_end_of_training_op()
    for _ in range(2):
        training.step(GRADIENTS)
    assert_close(training.change("output/W"), -2.0 * numpy.array(GRADIENT))
    training.session.run(end)
    assert_close(training.change("output/W"), -1.5 * numpy.array(GRADIENT))


def test_maximize_grad_norm():
    """Objective `sum(x^2) / 2`, so the gradient is x and its norm |x|, with gradient x / |x|."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.get_variable("x", initializer=[3.0, 4.0], use_resource=True)
        updater = Updater(Config({"maximize_grad_norm": 0.5}), objective=tf.nn.l2_loss(x))
        updater.set_trainable_vars([x])
        op = updater.get_optim_op()
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(op)
        assert_close(session.run(x), [0.5 * 0.6, 0.5 * 0.8])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gradient_noise": 1e-9},
        {"gradient_clip": 0.5},
        {"gradient_clip_norm": 0.5},
        {"gradient_clip_global_norm": 0.5},
        {"accum_grad_multiple_step": 1},
        {"gradient_clip_avg_norm": 0.01},
    ],
)
def test_sparse_gradients_are_treated_as_dense_ones(options):
    def train(lookup):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            table = tf.compat.v1.get_variable("table", initializer=numpy.ones((4, 2), "float32"), use_resource=True)
            rows = lookup(table, tf.constant([1, 3, 1]))
            updater = Updater(Config(options), objective=tf.reduce_sum(rows * [[1.0, 2.0], [3.0, 4.0], [-0.5, 6.0]]))
            updater.set_trainable_vars([table])
            op = updater.get_optim_op()
            session.run(tf.compat.v1.global_variables_initializer())
            session.run(op)
            return session.run(table)

    dense = train(lambda table, indices: tf.matmul(tf.one_hot(indices, 4), table))
    assert_close(train(tf.gather), dense)


def test_learning_rate_is_set_between_steps():
    training = Training(learning_rate=1.0)
    training.updater.set_learning_rate(0.25, training.session)
    training.step(GRADIENTS)
    assert_close(training.change("output/W"), -0.25 * numpy.array(GRADIENT))


def test_dynamic_learning_rate_by_function():
    def warm_up(*, global_train_step, learning_rate, network, **_kwargs):
        assert isinstance(network, Network)
        return learning_rate * (1 + tf.cast(global_train_step, tf.float32))

    training = Training(dynamic_learning_rate=warm_up)
    rates = [training.step(fetch=[training.updater.learning_rate])[0] for _ in range(3)]
    assert rates == [1.0, 2.0, 3.0]


def test_dynamic_learning_rate_by_interval():
    training = Training(dynamic_learning_rate={"interval": 2, "decay": 0.25}, learning_rate=8.0)
    rates = [training.step(fetch=[training.updater.learning_rate])[0] for _ in range(4)]
    assert_close(rates, [8.0, 4.0, 8.0, 4.0])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            0.5,
            "option 'dynamic_learning_rate': got 0.5, but expected a function, or a dict with 'interval' and 'decay'.\n"
            "  Changes the learning rate in each step. '--help dynamic_learning_rate' says more.",
        ),
        ({"interval": 3}, "option 'dynamic_learning_rate': 'decay' is None.\n  It has to be a number above 0."),
        (
            {"intervall": 3},
            "option 'dynamic_learning_rate': there is no key 'intervall'.\n  Did you mean 'interval'?",
        ),
        (
            lambda **_: None,
            "option 'dynamic_learning_rate': the function returned None for the graph.\n"
            "  It has to be a number. Each of its branches needs a `return`.",
        ),
        (
            lambda step: step,
            "option 'dynamic_learning_rate': the function cannot be called, missing a required argument: 'step'.\n"
            "  It has to be as: def dynamic_learning_rate(*, network, global_train_step, learning_rate, **kwargs).",
        ),
    ],
)
def test_wrong_dynamic_learning_rate(value, text):
    with pytest.raises(ConfigError) as error:
        Training(dynamic_learning_rate=value)
    assert str(error.value) == text


def test_norm_of_the_gradients_can_be_fetched():
    training = Training(log_grad_norm=True)
    assert training.step(GRADIENTS, [training.updater.log_grad_norm_tensor]) == [13.0]


def test_summaries():
    training = Training({"output": {"updater_opts": {"debug_grad_summaries": True}}})
    with training.graph.as_default():
        summary = tf.compat.v1.summary.merge_all()
    (text,) = training.step(GRADIENTS, [summary])
    values = {value.tag: value.simple_value for value in tf.compat.v1.Summary.FromString(text).value}
    assert values == {
        "optimize/grad/output/W/norm": 5.0,
        "optimize/grad/output/W/max_abs": 4.0,
        "optimize/grad/output/W": 0.0,
    }


def test_numeric_checks_name_the_first_tensor_and_keep_the_parameters():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.get_variable("x", initializer=[-1.0], use_resource=True)
        objective = tf.reduce_sum(tf.math.log(x, name="bad") + tf.while_loop(lambda i: i < 3, lambda i: i + 1, [x])[0])
        updater = Updater(Config({"debug_add_check_numerics_ops": True}), objective=objective)
        updater.set_trainable_vars([x])
        op = updater.get_optim_op()
        session.run(tf.compat.v1.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="Log 'bad' : Tensor had NaN"):
            session.run(op)
        assert session.run(x) == [-1.0]


def test_list_of_variables_on_demand():
    out = io.StringIO()
    with redirect_stdout(out):
        Training(debug_save_updater_vars=True, optimizer="momentum")
    assert "optimize/output/W/Momentum [3]" in out.getvalue()


def test_parameters_without_gradient_stay():
    training = Training()
    with training.graph.as_default():
        unused = tf.compat.v1.get_variable("unused", initializer=[1.0], use_resource=True)
        training.updater.set_trainable_vars([*training.updater.trainable_vars, unused])
        assert training.updater.optim_op is None
        calls = []
        training.op = training.updater.get_optim_op(callback_on_new=lambda: calls.append(1))
        training.session.run(unused.initializer)
    training.step(GRADIENTS)
    assert calls == [1]
    assert training.session.run(unused) == [1.0]
    assert_close(training.change("output/W"), -numpy.array(GRADIENT))


def test_new_op_keeps_the_variables_of_the_optimizer():
    training = Training(optimizer="adam")
    with training.graph.as_default():
        num_variables = len(tf.compat.v1.global_variables())
        training.updater.reset_optim_op()
        training.updater.get_optim_op()
        assert len(tf.compat.v1.global_variables()) == num_variables


def test_nothing_to_train():
    with tf.Graph().as_default(), pytest.raises(ConfigError) as error:
        Updater(Config({}), objective=tf.constant(1.0)).get_optim_op()
    assert str(error.value) == "training: the network has no trainable parameters.\n  Use task 'eval', or add a layer."


def test_no_parameter_matters():
    with tf.Graph().as_default():
        updater = Updater(Config({}), objective=tf.constant(1.0))
        updater.set_trainable_vars([tf.compat.v1.get_variable("x", initializer=[1.0], use_resource=True)])
        with pytest.raises(ConfigError) as error:
            updater.get_optim_op()
    assert str(error.value) == "training: the losses depend on none of the 1 parameter, so none can change."


@pytest.mark.parametrize(
    ("options", "layers", "text"),
    [
        (
            {"gradient_clip": -1.0},
            {},
            "option 'gradient_clip': got -1.0, but expected a number of at least 0.\n"
            "  The largest absolute value of an entry of a gradient; 0 is no limit. Default: 0.0.",
        ),
        (
            {},
            {"output": {"updater_opts": {"accum_grad_multiple_step": -2}}},
            "layer 'output': updater_opts: option 'accum_grad_multiple_step': got -2, but expected an integer from 0 "
            "or a function.\n"
            "  An update comes after so many steps, with the sum of their gradients. With PyTorch, it may be a "
            "function that returns the number: `def accum_grad_multiple_step(*, epoch, epoch_continuous, "
            "global_train_step, **kwargs)`. Default: 0.",
        ),
        (
            {},
            {"output": {"updater_opts": {"gradient_clp": 1}}},
            "layer 'output': updater_opts: there is no option 'gradient_clp'.\n"
            "  Did you mean 'gradient_clip' or 'gradient_clip_norm' or 'gradient_clip_avg_norm'?",
        ),
        (
            {"extra_updates": {"output/V": None}},
            {},
            "option 'extra_updates': there is no parameter 'output/V'.\n  Did you mean 'output/W'?",
        ),
    ],
)
def test_wrong_options(options, layers, text):
    with pytest.raises(ConfigError) as error:
        Training(layers, **options)
    assert str(error.value) == text


def test_own_optimizer_class_of_tensorflow_1(monkeypatch):
    monkeypatch.setattr(registry, "_classes", dict(registry._classes))

    class TwiceAdam(tf.compat.v1.train.AdamOptimizer):
        pass

    register_optimizer_class(TwiceAdam, "twice_adam")
    assert get_optimizer_class("twice_adam") is TwiceAdam
    for accum in (1, 2):
        options = {"optimizer_epsilon": 1e-6, "accum_grad_multiple_step": accum}
        own = Training(optimizer={"class": "twice_adam", "learning_rate_multiplier": 0.5}, **options)
        built_in = Training(optimizer="adam", learning_rate=0.5, **options)
        for training in (own, built_in):
            for _ in range(4):
                training.step(GRADIENTS)
        names, expected = ({var.op.name for var in t.updater.optimizer_vars} for t in (own, built_in))
        assert names == expected or accum == 2  # theirs knows no scope inside of a condition
        assert_close(own.value("output/W"), built_in.value("output/W"), rtol=1e-5)


def test_workers_reduce_gradients_and_scale_the_learning_rate(monkeypatch):
    """As if three others had the same gradients."""
    monkeypatch.setattr(collectives, "all_reduce", lambda value: 4 * value)
    gradient = numpy.array(GRADIENT)
    with collectives.group_ctx(collectives.WorkerGroup(size=4, timeout_s=1)):
        assert_close(output_change(GRADIENTS, use_horovod=True), -4 * gradient)
        assert_close(output_change(GRADIENTS, use_horovod=True, horovod_avg_grad=True), -gradient)
        options = {"use_horovod": True, "horovod_reduce_type": "param", "horovod_scale_lr": True}
        assert_close(output_change(GRADIENTS, **options), -4 * gradient)


def test_deterministic_train_asks_tensorflow_for_it(monkeypatch):
    calls = []
    monkeypatch.setattr(tf.config.experimental, "enable_op_determinism", lambda: calls.append(1))
    Training(deterministic_train=True)
    assert calls == [1]
