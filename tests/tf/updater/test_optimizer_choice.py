import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.tf.optimizers.adam import AdamOptimizer
from returnn.tf.updater.optimizer_choice import choose_optimizer
from returnn.util.errors import ConfigError


def choose(**options):
    choice = choose_optimizer(Config(options))
    return getattr(choice.factory, "__name__", None), dict(choice.options)


DEFAULTS = {"epsilon": 1e-16, "use_locking": False}


@pytest.mark.parametrize(
    ("options", "name", "expected"),
    [
        ({}, "GradientDescentOptimizer", {"use_locking": False}),
        ({"adam": True}, "AdamOptimizer", DEFAULTS),
        ({"nadam": True, "optimizer_epsilon": 1e-8}, "NadamOptimizer", {**DEFAULTS, "epsilon": 1e-8}),
        ({"adadelta": True}, "AdadeltaOptimizer", DEFAULTS),
        ({"adagrad": True}, "AdagradOptimizer", {"use_locking": False}),
        ({"rmsprop": True}, "RMSPropOptimizer", DEFAULTS),
        ({"rmsprop": 0.8, "momentum": 0.5}, "RMSPropOptimizer", {**DEFAULTS, "decay": 0.8, "momentum": 0.5}),
        ({"momentum": 0.9}, "MomentumOptimizer", {"use_locking": False, "momentum": 0.9}),
        ({"optimizer": "momentum"}, "MomentumOptimizer", {"use_locking": False, "momentum": 0.0}),
        ({"optimizer": AdamOptimizer}, "AdamOptimizer", DEFAULTS),
        (
            {"optimizer": {"class": "AdamW", "beta_1": 0.5}, "optimizer_use_locking": True},
            "AdamW",
            {"beta_1": 0.5, "epsilon": 1e-16, "use_locking": True},
        ),
        ({"optimizer": {"class": "muon"}}, "Muon", DEFAULTS),
        ({"optimizer": "adam", "adagrad": True}, "AdamOptimizer", DEFAULTS),
    ],
    ids=str,
)
def test_choice_of_the_config(options, name, expected):
    assert choose(**options) == (name, expected)


def test_equal_choices_are_equal():
    config = Config({"optimizer": {"class": "adam", "beta1": 0.8}})
    assert choose_optimizer(config) == choose_optimizer(config, {"class": "adam", "beta1": 0.8})
    assert choose_optimizer(config) != choose_optimizer(config, {"class": "adam", "beta1": 0.7})
    assert str(choose_optimizer(config)) == "AdamOptimizer(epsilon=1e-16, use_locking=False, beta1=0.8)"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"optimizer": {"class": "adam", "beta_1": 0.5}},
            "config: optimizer 'adam': there is no option 'beta_1'.\n  Did you mean 'beta1' or 'beta2'?",
        ),
        (
            {"optimizer": {"beta1": 0.5}},
            "config: optimizer: {'beta1': 0.5} has no 'class'.\n  E.g. {'class': 'adam', 'epsilon': 1e-8}.",
        ),
        (
            {"optimizer": {"class": "adam", "learning_rate": 0.5}},
            "config: optimizer: option 'learning_rate' is not for here, as it changes during training.\n"
            "  Set 'learning_rate' of the config, and 'learning_rate_multiplier' here.",
        ),
        (
            {"adam": True, "momentum": 0.9},
            "option 'momentum' is 0.9, but the optimizer 'adam' has none.\n"
            "  Remove it, or use e.g. optimizer = {'class': 'momentum'}.",
        ),
        ({"optimizer": "adma"}, "config: there is no optimizer 'adma'.\n  Did you mean 'adamax' or 'adam' or 'nadam'?"),
    ],
)
def test_wrong_choice(options, text):
    with pytest.raises(ConfigError) as error:
        choose(**options)
    assert str(error.value) == text


def test_class_of_keras():
    with pytest.raises(ConfigError) as error:
        choose(optimizer={"class": tf.keras.optimizers.Adam})
    lines = str(error.value).split("\n")
    assert lines[0].startswith("config: optimizer: class 'Adam' of 'keras")
    assert lines[1:] == ["  Use the name of an optimizer, e.g. 'adamw', or derive from returnn.tf.updater.Optimizer."]


def test_function_that_makes_the_optimizer():
    def make(learning_rate, size):
        return AdamOptimizer(learning_rate, beta1=size)

    choice = choose_optimizer(Config({"optimizer": {"class": make, "size": 0.3}}))
    assert choice.create(0.1).beta1 == 0.3


def test_option_without_a_value():
    class Own(AdamOptimizer):
        def __init__(self, learning_rate, size):
            super().__init__(learning_rate, beta1=size)

    with pytest.raises(ConfigError, match=r"^config: optimizer 'Own': option 'size' is missing[.]$"):
        choose(optimizer={"class": Own})
