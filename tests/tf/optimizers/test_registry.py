import inspect

import pytest
import tensorflow as tf

from returnn.tf.optimizers import registry
from returnn.tf.optimizers.adam import AdamOptimizer, NadamOptimizer
from returnn.tf.optimizers.adaptive import AdagradOptimizer, FtrlOptimizer
from returnn.tf.optimizers.keras_adam import AdamW, Nadam
from returnn.tf.optimizers.keras_others import SGD, Muon
from returnn.tf.optimizers.registry import get_optimizer_class, optimizer_options, register_optimizer_class
from returnn.util.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "cls"),
    [
        ("adam", AdamOptimizer),
        ("Adam", AdamOptimizer),
        ("AdamOptimizer", AdamOptimizer),
        ("nadam", NadamOptimizer),
        ("NadamKeras", Nadam),
        ("AdamW", AdamW),
        (AdamW, AdamW),
    ],
)
def test_names_in_any_case_with_and_without_suffix(name, cls):
    assert get_optimizer_class(name) is cls


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("adm", "config: there is no optimizer 'adm'.\n  Did you mean 'adam' or 'nadam' or 'adamw'?"),
        (3, "optimizer: the class is 3.\n  It has to be a name such as 'adam', or a class."),
    ],
)
def test_unknown_name(name, text):
    with pytest.raises(ConfigError) as error:
        get_optimizer_class(name)
    assert str(error.value) == text


def test_registered_class_is_found_and_its_name_is_taken(monkeypatch):
    monkeypatch.setattr(registry, "_classes", dict(registry._classes))

    class TinyOptimizer(tf.compat.v1.train.GradientDescentOptimizer):
        pass

    register_optimizer_class(TinyOptimizer)
    register_optimizer_class(TinyOptimizer)
    assert get_optimizer_class("tiny") is get_optimizer_class("tinyOptimizer") is TinyOptimizer
    with pytest.raises(ConfigError, match=r"^optimizer 'adam' is already there: AdamOptimizer\.$"):
        register_optimizer_class(TinyOptimizer, "adam")


def test_options_go_up_to_the_class_that_takes_no_more():
    assert {"momentum", "nesterov", "clipnorm", "use_ema", "learning_rate"} <= set(optimizer_options(SGD))
    assert "beta_1" not in optimizer_options(Muon)
    assert set(optimizer_options(lambda learning_rate, factor: None)) == {"learning_rate", "factor"}


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: AdagradOptimizer(0.1, initial_accumulator_value=-1.0),
            "optimizer 'Adagrad': option 'initial_accumulator_value' is -1.0.\n  It has to be at least 1e-30.",
        ),
        (
            lambda: FtrlOptimizer(0.1, learning_rate_power=0.5),
            "optimizer 'Ftrl': option 'learning_rate_power' is 0.5.\n  It has to be at least -inf and at most 0.",
        ),
        (
            lambda: SGD(use_ema=True, ema_momentum=2.0),
            "optimizer 'SGD': option 'ema_momentum' is 2.0.\n  It has to be at least 0 and at most 1.",
        ),
        (
            lambda: SGD(clipnorm=1.0, clipvalue=1.0),
            "optimizer 'SGD': options 'clipnorm' and 'clipvalue' exclude each other.",
        ),
        (
            lambda: SGD(gradient_accumulation_steps=1),
            "optimizer 'SGD': option 'gradient_accumulation_steps' is 1.\n  It has to be at least 2.",
        ),
    ],
)
def test_values_out_of_range(make, text):
    with pytest.raises(ConfigError) as error:
        make()
    assert str(error.value) == text


DOCUMENTED_VARIABLES = {
    "adadelta": ["W/Adadelta", "W/Adadelta_1", "b/Adadelta", "b/Adadelta_1"],
    "adagrad": ["W/Adagrad", "b/Adagrad"],
    "adam": ["beta1_power", "beta2_power", "W/Adam", "W/Adam_1", "b/Adam", "b/Adam_1"],
    "nadam": ["beta1_power", "beta2_power", "W/Adam", "W/Adam_1", "b/Adam", "b/Adam_1"],
    "customadam": [
        "beta1_power",
        "beta2_power",
        "W/CustomAdamOptimizer",
        "W/CustomAdamOptimizer_1",
        "b/CustomAdamOptimizer",
        "b/CustomAdamOptimizer_1",
    ],
    "gradvariancescaled": [
        "beta1_power",
        "beta2_power",
        "W/GradVarianceScaledOptimizer",
        "W/GradVarianceScaledOptimizer_1",
        "b/GradVarianceScaledOptimizer",
        "b/GradVarianceScaledOptimizer_1",
    ],
    "ftrl": ["W/Ftrl", "W/Ftrl_1", "b/Ftrl", "b/Ftrl_1"],
    "gradientdescent": [],
    "momentum": ["W/Momentum", "b/Momentum"],
    "neuraloptimizer1": ["W/NeuralOptimizer1", "b/NeuralOptimizer1"],
    "normalizedsgd": [],
    "proximaladagrad": ["W/ProximalAdagrad", "b/ProximalAdagrad"],
    "rmsprop": ["W/RMSProp", "W/RMSProp_1", "b/RMSProp", "b/RMSProp_1"],
}


@pytest.mark.parametrize("name", DOCUMENTED_VARIABLES)
def test_names_of_variables_are_those_of_existing_checkpoints(name):
    options = {"momentum": 0.9} if name == "momentum" else {}
    with tf.Graph().as_default(), tf.compat.v1.variable_scope("optimize"):
        optimizer = get_optimizer_class(name)(learning_rate=0.1, **options)
        with tf.compat.v1.variable_scope(tf.compat.v1.VariableScope(reuse=False, name="")):
            params = [tf.compat.v1.get_variable(n, (2, 2), use_resource=True) for n in ("W", "b")]
        optimizer.create_slots(params)
        names = {var.op.name for var in optimizer.variables()}
    assert names == {f"optimize/{name}" for name in DOCUMENTED_VARIABLES[name]}


def test_second_optimizer_of_a_kind_has_its_own_shared_variables():
    with tf.Graph().as_default(), tf.compat.v1.variable_scope("optimize"):
        optimizers = [AdamOptimizer(), AdamOptimizer()]
        for i, optimizer in enumerate(optimizers):
            optimizer.create_slots([tf.compat.v1.get_variable(f"W{i}", (), use_resource=True)])
        names = [[var.op.name for var in optimizer.variables()[:2]] for optimizer in optimizers]
    assert names == [
        ["optimize/beta1_power", "optimize/beta2_power"],
        ["optimize/beta1_power_1", "optimize/beta2_power_1"],
    ]


def test_no_gradient_at_all():
    with tf.Graph().as_default():
        var = tf.compat.v1.get_variable("W", (), use_resource=True)
        with pytest.raises(ValueError, match="Adam: no variable has a gradient"):
            AdamOptimizer().apply_gradients([(None, var)])


@pytest.mark.parametrize("cls", sorted(set(registry._classes.values()), key=lambda cls: cls.__name__))
def test_each_option_is_documented(cls):
    texts = "\n".join(
        inspect.getdoc(vars(base)["__init__"]) or "" for base in cls.__mro__[:-1] if "__init__" in vars(base)
    )
    options = set(optimizer_options(cls))
    assert options == {option for option in options if f":param {option}:" in texts}
    assert inspect.getdoc(cls)
