import numpy
import pytest

from returnn.native.numpy_call import call_kernel
from returnn.util.errors import UserError
from tests.native import lstm_reference
from tests.native.kernels import LEVELS, library
from tests.native.sanitized import run_sanitized

TOLERANCE = {"float32": 2e-5, "float64": 1e-12}
# frames, batch, units: of one vector and less, of several tiles, one sequence, many
SIZES = [(0, 2, 3), (1, 1, 1), (5, 3, 7), (9, 70, 40), (4, 1, 130), (3, 33, 64), (2, 0, 5)]


def run(inputs, *, level=None, threads=1, **options):
    return call_kernel(library(level).kernels["lstm"], inputs, threads=threads, **options)


def run_grad(inputs, outputs, grads, *, level=None, threads=1, **options):
    values = {**{key: x for key, x in inputs.items() if key != "x"}, **outputs, **grads}
    return call_kernel(library(level).kernels["lstm_grad"], values, threads=threads, **options)


def random_case(sizes, dtype, peepholes=False):
    random = numpy.random.RandomState(sum(sizes))
    frames, batch, units = sizes
    inputs = lstm_reference.random_inputs(random, dtype, frames=frames, batch=batch, units=units, peepholes=peepholes)
    return random, inputs


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("options", [(False, False), (True, False), (False, True)], ids=["", "backward", "peepholes"])
def test_values_and_gradients(level, dtype, sizes, options):
    backward, peepholes = options
    random, inputs = random_case(sizes, dtype, peepholes)
    outputs = run(inputs, level=level, backward=backward)
    expected = lstm_reference.lstm(**inputs, backward=backward)
    for name, value in expected.items():
        numpy.testing.assert_allclose(outputs[name], value, rtol=0, atol=TOLERANCE[dtype], err_msg=name)
    grads = lstm_reference.random_gradients(random, outputs, inputs["lengths"])
    results = run_grad(inputs, outputs, grads, level=level, backward=backward)
    for name in ("x", "weights", "c0", "h0", *(["peepholes"] if peepholes else [])):
        direction = random.normal(size=inputs[name].shape)
        expected = lstm_reference.derivative(inputs, grads, name, direction, backward=backward)
        scale = max(1, numpy.abs(results[f"d_{name}"] * direction).sum())
        assert (results[f"d_{name}"] * direction).sum() == pytest.approx(expected, rel=0, abs=TOLERANCE[dtype] * scale)


@pytest.mark.parametrize("sizes", [(9, 70, 40), (4, 1, 130), (6, 5, 33)], ids=str)
@pytest.mark.parametrize("threads", [2, 5])
def test_threads_change_no_bit(sizes, threads):
    random, inputs = random_case(sizes, "float32", peepholes=True)
    one, many = (run(inputs, threads=num, backward=False) for num in (1, threads))
    grads = lstm_reference.random_gradients(random, one, inputs["lengths"])
    one |= run_grad(inputs, one, grads, backward=False)
    many |= run_grad(inputs, many, grads, threads=threads, backward=False)
    for name, value in one.items():
        numpy.testing.assert_array_equal(value, many[name], err_msg=name)


def test_gradients_that_are_left_out_are_zero():
    random, inputs = random_case((6, 5, 9), "float64")
    outputs = run(inputs, backward=False)
    grads = lstm_reference.random_gradients(random, outputs, inputs["lengths"])
    for left_out in grads:
        some = {name: grad for name, grad in grads.items() if name != left_out}
        zero = {**some, left_out: numpy.zeros_like(grads[left_out])}
        with_zero, without = (run_grad(inputs, outputs, given, backward=False) for given in (zero, some))
        for name, value in with_zero.items():
            numpy.testing.assert_array_equal(value, without[name], err_msg=f"{name} without {left_out}")


def test_frames_can_lie_in_any_order():
    _, inputs = random_case((6, 5, 9), "float32")
    batch_major = numpy.ascontiguousarray(inputs["x"].swapaxes(0, 1))
    wide = numpy.zeros([9, 50], "float32")
    wide[:, :36] = inputs["weights"]
    views = {**inputs, "x": batch_major.swapaxes(0, 1), "weights": wide[:, :36], "c0": inputs["c0"][::-1][::-1]}
    expected, outputs = run(inputs, backward=True), run(views, backward=True)
    for name, value in expected.items():
        numpy.testing.assert_array_equal(outputs[name], value, err_msg=name)


def test_behind_the_ends_all_is_zero():
    random, inputs = random_case((6, 5, 9), "float32")
    outputs = run(inputs, backward=False)
    grads = lstm_reference.random_gradients(random, outputs, inputs["lengths"])
    results = {**outputs, **run_grad(inputs, outputs, grads, backward=False)}
    behind = numpy.arange(6)[:, None] >= inputs["lengths"]
    assert behind.any()
    for name in ("h", "c", "gates", "d_x"):
        assert not results[name][behind].any(), name


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_accuracy_of_activations(level, dtype):
    """In units in the last place; the gates are the activations, when the state is 0."""
    z = numpy.concatenate([numpy.linspace(-30, 30, 4001), numpy.geomspace(1e-30, 1, 1000)]).astype(dtype)
    zeros = numpy.zeros([1, len(z)], dtype)
    inputs = {"x": numpy.tile(z, 4)[None, None], "weights": numpy.zeros([len(z), 4 * len(z)], dtype)}
    gates = run({**inputs, "c0": zeros, "h0": zeros, "lengths": numpy.ones([1], "int32")}, level=level, backward=False)[
        "gates"
    ][0, 0]
    exact = z.astype("longdouble")
    for value, expected, limit in (
        (gates[: len(z)], numpy.tanh(exact), 4),
        (gates[len(z) : 2 * len(z)], 1 / (1 + numpy.exp(-exact)), 3),
    ):
        distance = numpy.abs(value - expected) / numpy.spacing(numpy.abs(expected).astype(dtype))
        assert distance.max() <= limit


@pytest.mark.parametrize("value", [numpy.nan, numpy.inf, -numpy.inf])
def test_values_that_are_not_finite(value):
    """NaN is seen; infinite gates are open or closed."""
    _, inputs = random_case((1, 1, 3), "float32")
    inputs |= {"lengths": numpy.ones([1], "int32"), "x": numpy.full([1, 1, 12], value, "float32")}
    inputs |= {"c0": numpy.zeros([1, 3], "float32"), "h0": numpy.zeros([1, 3], "float32")}
    outputs = run(inputs, backward=False)
    expected = {numpy.inf: numpy.tanh(1.0), -numpy.inf: 0.0}.get(value, numpy.nan)
    numpy.testing.assert_allclose(outputs["h"], numpy.full([1, 1, 3], expected), atol=1e-6)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"x": (6, 5, 35)}, "[T, N, 4F] is expected, with T = 6, N = 5"),
        ({"c0": (5, 8)}, "[N, F] is expected, with T = 6, N = 5, F = 9"),
        ({"h0": (5, 9, 1)}, "[N, F] is expected, with T = 6, N = 5, F = 9"),
        ({"peepholes": (2, 9)}, "[3, F] is expected, with T = 6, N = 5, F = 9"),
    ],
)
def test_wrong_shapes(change, expected):
    _, inputs = random_case((6, 5, 9), "float32")
    inputs |= {name: numpy.zeros(shape, "float32") for name, shape in change.items()}
    ((name, shape),) = change.items()
    with pytest.raises(UserError) as info:
        run(inputs, backward=False)
    assert str(info.value) == f"lstm: {name} has the shape {shape}, but {expected}."


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": "float64"}, "lstm: weights has the type float64, but float32 is expected."),
        ({"lengths": "int64"}, "lstm: lengths has the type int64, but int32 is expected."),
    ],
)
def test_wrong_types(change, message):
    _, inputs = random_case((6, 5, 9), "float32")
    inputs |= {name: inputs[name].astype(dtype) for name, dtype in change.items()}
    with pytest.raises(UserError) as info:
        run(inputs, backward=False)
    assert str(info.value) == message


@pytest.mark.parametrize("length", [-1, 7])
def test_wrong_lengths(length):
    _, inputs = random_case((6, 5, 9), "float32")
    inputs["lengths"][3] = length
    with pytest.raises(UserError, match=r"^lstm: a length is below 0, or above the number of frames\.$"):
        run(inputs, backward=False)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(5, 3, 7), (4, 35, 33), (0, 2, 3), (3, 2, 130)], ids=str)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_no_memory_is_used_beyond_arrays(sizes, dtype, tmp_path):
    random, inputs = random_case(sizes, dtype, peepholes=True)
    kernels = library().kernels
    run_sanitized("lstm", kernels["lstm"].signature, inputs, tmp_path, threads=2, backward=True)
    outputs = run(inputs, backward=True)
    grads = lstm_reference.random_gradients(random, outputs, inputs["lengths"])
    values = {**{key: x for key, x in inputs.items() if key != "x"}, **outputs, **grads}
    run_sanitized("lstm_grad", kernels["lstm_grad"].signature, values, tmp_path, threads=2, backward=True)
