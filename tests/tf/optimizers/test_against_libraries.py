"""Each optimizer does the same as that of TensorFlow 1, Keras or PyTorch, over several steps."""

import numpy
import pytest
import tensorflow as tf

from returnn.tf.optimizers.keras_others import Adafactor
from returnn.tf.optimizers.registry import get_optimizer_class, known_optimizers
from tests.tf.optimizers.steps import assert_same, densify, make_problem, run_in_graph, run_keras, run_torch

TENSORFLOW_CASES = [
    ("GradientDescentOptimizer", {}),
    ("MomentumOptimizer", {"momentum": 0.9}),
    ("MomentumOptimizer", {"momentum": 0.9, "use_nesterov": True}),
    ("AdagradOptimizer", {"initial_accumulator_value": 0.3}),
    ("ProximalAdagradOptimizer", {"l1_regularization_strength": 0.25, "l2_regularization_strength": 0.5}),
    ("ProximalGradientDescentOptimizer", {"l1_regularization_strength": 0.25, "l2_regularization_strength": 0.5}),
    ("AdadeltaOptimizer", {"rho": 0.9, "epsilon": 1e-3}),
    ("RMSPropOptimizer", {"momentum": 0.5}),
    ("RMSPropOptimizer", {"momentum": 0.5, "centered": True, "decay": 0.8}),
    ("FtrlOptimizer", {"l1_regularization_strength": 0.1, "l2_regularization_strength": 0.1, "beta": 0.5}),
    ("FtrlOptimizer", {"l2_shrinkage_regularization_strength": 0.1, "accum_name": "Sum", "linear_name": "Linear"}),
    ("AdamOptimizer", {"beta1": 0.8, "epsilon": 1e-3}),
]


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "options"), TENSORFLOW_CASES)
def test_same_variables_names_and_values_as_tensorflow(name, options, dtype, is_sparse):
    problem = make_problem(dtype, is_sparse=is_sparse)
    takes_float32_only = name.startswith("Proximal")
    their_problem = make_problem("float32", is_sparse=is_sparse) if takes_float32_only else problem
    ours = run_in_graph(lambda: get_optimizer_class(name)(learning_rate=0.1, **options), problem)
    theirs = run_in_graph(lambda: getattr(tf.compat.v1.train, name)(learning_rate=0.1, **options), their_problem)
    assert set(ours) == set(theirs)
    assert_same(ours, theirs)


KERAS_CASES = [
    ("AdamW", {}),
    ("AdamW", {"amsgrad": True, "weight_decay": 0.1, "beta_1": 0.8}),
    ("Adamax", {}),
    ("Nadam", {}),
    ("Lamb", {}),
    ("Lion", {}),
    ("SGD", {}),
    ("SGD", {"momentum": 0.9}),
    ("SGD", {"momentum": 0.9, "nesterov": True}),
    ("Adafactor", {}),
    ("Adafactor", {"relative_step": False, "clip_threshold": 0.5}),
    ("Muon", {}),
    ("Muon", {"nesterov": False, "rms_rate": None, "adam_lr_ratio": 0.5, "ns_steps": 3}),
    ("Lion", {"weight_decay": 0.1}),
    ("SGD", {"clipnorm": 0.5}),
    ("SGD", {"clipvalue": 0.5}),
    ("Adamax", {"global_clipnorm": 0.5}),
    ("SGD", {"use_ema": True, "ema_momentum": 0.7, "ema_overwrite_frequency": 2}),
    ("Lamb", {"gradient_accumulation_steps": 2, "clipnorm": 0.7}),
]


@pytest.mark.parametrize(("name", "options"), KERAS_CASES)
def test_same_values_as_keras(name, options):
    problem = make_problem("float64" if name == "SGD" else "float32")
    ours = {"Nadam": "nadamkeras"}.get(name, name)
    actual = run_in_graph(lambda: get_optimizer_class(ours)(learning_rate=0.1, **options), problem)
    assert_same(actual, run_keras(lambda: getattr(tf.keras.optimizers, name)(learning_rate=0.1, **options), problem))


@pytest.mark.parametrize(
    "name", sorted({name for name, _ in KERAS_CASES} - {"Nadam"} | {"nadamkeras", "customadam", "schedulefreeadamw"})
)
def test_sparse_gradient_gives_the_same_as_the_dense_one(name):
    problem = make_problem(is_sparse=True)
    options = {"clipvalue": 0.5, "use_ema": True} if name != "customadam" else {}
    sparse = run_in_graph(lambda: get_optimizer_class(name)(learning_rate=0.1, **options), problem)
    dense = run_in_graph(lambda: get_optimizer_class(name)(learning_rate=0.1, **options), densify(problem))
    assert_same(sparse, dense, rtol=1e-6)


TORCH_CASES = [
    ("adamw", "AdamW", {"weight_decay": 0.1}, {"weight_decay": 0.1}),
    ("adamax", "Adamax", {}, {}),
    ("nadamkeras", "NAdam", {}, {"momentum_decay": 1.0}),
    ("sgd", "SGD", {"momentum": 0.9}, {"momentum": 0.9}),
    ("adadelta", "Adadelta", {"rho": 0.9, "epsilon": 1e-6}, {"rho": 0.9}),
    ("adagrad", "Adagrad", {"initial_accumulator_value": 0.1}, {"initial_accumulator_value": 0.1, "eps": 1e-7}),
    ("adam", "Adam", {}, {}),
    ("customadam", "Adam", {}, {}),
]


@pytest.mark.parametrize(("name", "torch_name", "options", "torch_options"), TORCH_CASES)
def test_same_values_as_pytorch(name, torch_name, options, torch_options):
    torch = pytest.importorskip("torch")
    problem = make_problem("float64")
    torch_optimizer = getattr(torch.optim, torch_name)
    expected = run_torch(lambda params: torch_optimizer(params, lr=0.1, **torch_options), problem)
    actual = run_in_graph(lambda: get_optimizer_class(name)(learning_rate=0.1, **options), problem)
    assert_same(actual, expected)


def _by_formula(problem, update):
    """:param update: (state, value, gradient, step from 1) -> new value"""
    values, states = dict(problem.initial), {name: {} for name in problem.initial}
    for step, gradients in enumerate(problem.gradients, start=1):
        for name, grad in gradients.items():
            values[name] = update(states[name], values[name], grad, step)
    return values


def _mean(state, name, value, decay):
    state[name] = decay * state.get(name, 0.0) + (1 - decay) * value
    return state[name]


def _nadam(state, x, grad, t):
    m, v = _mean(state, "m", grad, 0.9), _mean(state, "v", grad**2, 0.999)
    rate = 0.1 * numpy.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    return x - rate * (0.9 * m + 0.1 * grad) / (numpy.sqrt(v) + 1e-8)


def _amsgrad(state, x, grad, t):
    m, v = _mean(state, "m", grad, 0.9), _mean(state, "v", grad**2, 0.99)
    state["v_hat"] = numpy.maximum(state.get("v_hat", 0.0), v)
    return x - 0.1 / numpy.sqrt(t) * m / numpy.sqrt(state["v_hat"])


def _neural1(state, x, grad, t):
    m = _mean(state, "m", grad, 0.9)
    return x - 0.1 * grad * numpy.where(numpy.sign(m) == numpy.sign(grad), 1.0, 0.1)


def _variance_scaled(state, x, grad, t):
    m = _mean(state, "m", grad, 0.9) / (1 - 0.9**t)
    deviation = (grad - m) ** 2
    variance = _mean(state, "v", deviation, 0.999) / (1 - 0.999**t)
    return x - 0.1 * grad * numpy.minimum((variance + 1e-8) / (deviation + 1e-8), 1.0)


def _schedule_free(state, y, grad, t):
    """Algorithm 1 of the paper, with the denominator of Adam. Keras reads `z` after its update, by mistake."""
    v = _mean(state, "v", grad**2, 0.999) / (1 - 0.999**t)
    z, x = state.get("z", y), state.get("x", y)
    state["z"] = z - 0.1 * min(t / 3, 1) * grad / (numpy.sqrt(v) + 1e-8)
    state["x"] = (1 - 1 / t) * x + 1 / t * state["z"]
    return 0.1 * state["z"] + 0.9 * state["x"]


FORMULAS = {
    "schedulefreeadamw": (_schedule_free, {"warmup_steps": 3}),
    "nadam": (_nadam, {}),
    "amsgrad": (_amsgrad, {"decay": True}),
    "neuraloptimizer1": (_neural1, {}),
    "gradvariancescaled": (_variance_scaled, {}),
    "normalizedsgd": (lambda state, x, grad, t: x - 0.1 * grad / numpy.linalg.norm(grad), {}),
    "customgradientdescent": (lambda state, x, grad, t: x - 0.1 * grad, {}),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_same_values_as_the_formula(name):
    update, options = FORMULAS[name]
    problem = make_problem("float64")
    actual = run_in_graph(lambda: get_optimizer_class(name)(learning_rate=0.1, **options), problem)
    assert_same(actual, _by_formula(problem, update))


def test_muon_leaves_embeddings_and_excluded_layers_to_adamw():
    problem = make_problem()
    with_exclusion = run_in_graph(lambda: get_optimizer_class("muon")(0.1, exclude_layers=["^output/"]), problem)
    adamw = run_in_graph(lambda: get_optimizer_class("adamw")(0.1), problem)
    assert_same(with_exclusion, {name: adamw[name] for name in ("output/W", "output/b")})


def test_amsgrad_without_epsilon_leaves_a_weight_without_gradient():
    problem = make_problem()
    for step in problem.gradients:
        step["output/b"][:] = 0.0
    actual = run_in_graph(lambda: get_optimizer_class("amsgrad")(0.1), problem)
    numpy.testing.assert_array_equal(actual["output/b"], problem.initial["output/b"])


def test_average_of_variables_can_replace_them_at_the_end():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        var = tf.compat.v1.get_variable("W", initializer=[0.0], use_resource=True)
        optimizer = get_optimizer_class("sgd")(1.0, use_ema=True, ema_momentum=0.5)
        update = optimizer.apply_gradients([(tf.constant([-1.0]), var)])
        session.run(tf.compat.v1.global_variables_initializer())
        for _ in range(3):
            session.run(update)
        session.run(optimizer.overwrite_with_average())
        assert session.run(var).tolist() == [0.5 * (0.5 * 1 + 0.5 * 2) + 0.5 * 3]


def _small_problem(kind):
    """:return: where rows and columns of gradients, and in some steps all, are 0 or too small to be squared"""
    problem = make_problem()
    factor = {"zero": 0.0, "tiny": 1e-25, "denormal": 1e-40}[kind]
    for step, gradients in enumerate(problem.gradients):
        gradients["output/W"][1] *= factor
        gradients["output/W"][:, 2] *= factor
        gradients["output/b"][1] *= factor
        if step in (1, 2):
            gradients["output/W"] *= factor
        if step == 3:
            gradients["output/W"][0] *= 1e15
    return problem


@pytest.mark.parametrize("kind", ["zero", "tiny", "denormal"])
@pytest.mark.parametrize("name", known_optimizers())
def test_gradients_of_0_leave_all_finite(name, kind):
    options = {"momentum": 0.9} if "momentum" in name else {}
    values = run_in_graph(lambda: get_optimizer_class(name)(learning_rate=0.1, **options), _small_problem(kind))
    assert all(numpy.isfinite(value).all() for value in values.values())


@pytest.mark.parametrize("epsilon_1", [1e-30, 0.0])
def test_adafactor_is_that_of_more_digits_also_where_gradients_are_0(epsilon_1):
    def run(dtype):
        problem = make_problem(dtype)
        for gradients in problem.gradients:
            gradients["output/W"][1] = 0
            gradients["output/W"][:, 2] = 0
        options = {"learning_rate": 0.1, "epsilon_1": epsilon_1}
        return problem.initial["output/W"], run_in_graph(lambda: Adafactor(**options), problem)["output/W"]

    (initial, found), (_, expected) = run("float32"), run("float64")
    numpy.testing.assert_allclose(found, expected, rtol=1e-5)
    numpy.testing.assert_array_equal(found[1], initial[1])
    numpy.testing.assert_array_equal(found[:, 2], initial[:, 2])
    assert (found[0, :2] != initial[0, :2]).all()
