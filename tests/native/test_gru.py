import numpy
import pytest

from returnn.native.numpy_call import call_kernel
from returnn.util.errors import UserError
from tests.native.kernels import LEVELS, library
from tests.native.lstm_reference import sigmoid
from tests.native.sanitized import run_sanitized

TOLERANCE = {"float32": 2e-5, "float64": 1e-12}
# frames, batch, units: of one vector and less, of several tiles, one sequence, many
SIZES = [(0, 2, 3), (1, 1, 1), (5, 3, 7), (9, 70, 40), (4, 1, 130), (3, 33, 64), (2, 0, 5)]
DIFFERENTIABLE = ("x", "gate_weights", "weights", "h0")


def gru(*, x, gate_weights, weights, h0, lengths, backward=False):
    """:return: h (T, N, F), 0 behind the ends; last h (N, F). Also of complex numbers"""
    kind = numpy.result_type(x, gate_weights, weights, h0)
    all_h, last_h = numpy.zeros([*x.shape[:2], h0.shape[1]], kind), h0.astype(kind)
    for n, length in enumerate(lengths):
        for t in range(length)[:: -1 if backward else 1]:
            x_r, x_u, x_n = numpy.split(x[t, n], 3)
            z_r, z_u = numpy.split(last_h[n] @ gate_weights, 2)
            r, u = sigmoid(x_r + z_r), sigmoid(x_u + z_u)
            candidate = numpy.tanh(x_n + (r * last_h[n]) @ weights)
            all_h[t, n] = last_h[n] = u * last_h[n] + (1 - u) * candidate
    return {"h": all_h, "last_h": last_h}


def random_case(sizes, dtype):
    """:return: inputs, and gradients of the outputs; behind the ends there is NaN"""
    frames, batch, units = sizes
    random = numpy.random.RandomState(sum(sizes))
    shapes = {
        "x": (frames, batch, 3 * units),
        "gate_weights": (units, 2 * units),
        "weights": (units, units),
        "h0": (batch, units),
        "d_h": (frames, batch, units),
        "d_last_h": (batch, units),
    }
    values = {name: random.normal(size=shape).astype(dtype) for name, shape in shapes.items()}
    for name in ("gate_weights", "weights"):
        values[name] /= numpy.asarray(units**0.5, dtype)
    lengths = random.randint(0, frames + 1, size=batch).astype("int32")
    for n, length in enumerate(lengths):
        values["x"][length:, n] = values["d_h"][length:, n] = numpy.nan
    grads = {name: values.pop(name) for name in ("d_h", "d_last_h")}
    return {**values, "lengths": lengths}, grads


def derivative(inputs, grads, name, direction, **options):
    """:return: of the sum of outputs times their gradients, when the input of this name changes in a direction"""
    values = {key: numpy.nan_to_num(x).astype("float64") if x.dtype.kind == "f" else x for key, x in inputs.items()}
    values[name] = values[name] + 1e-30j * direction
    outputs = gru(**values, **options)
    return sum((outputs[key[2:]] * numpy.nan_to_num(grad)).sum().imag for key, grad in grads.items()) / 1e-30


def run(inputs, grads, *, level=None, threads=1, **options):
    """:return: outputs, and gradients of the inputs"""
    kernels = library(level).kernels
    outputs = call_kernel(kernels["gru"], inputs, threads=threads, **options)
    values = {**inputs, **outputs, **grads}
    return outputs | call_kernel(kernels["gru_grad"], values, threads=threads, **options)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("backward", [False, True])
def test_values_and_gradients(level, dtype, sizes, backward):
    inputs, grads = random_case(sizes, dtype)
    results = run(inputs, grads, level=level, backward=backward)
    for name, value in gru(**inputs, backward=backward).items():
        numpy.testing.assert_allclose(results[name], value, rtol=0, atol=TOLERANCE[dtype], err_msg=name)
    for name in DIFFERENTIABLE:
        direction = numpy.random.RandomState(1).normal(size=inputs[name].shape)
        products = results[f"d_{name}"] * direction
        expected = derivative(inputs, grads, name, direction, backward=backward)
        tolerance = TOLERANCE[dtype] * max(1, numpy.abs(products).sum())
        assert products.sum() == pytest.approx(expected, rel=0, abs=tolerance)


@pytest.mark.parametrize("sizes", [(9, 70, 40), (4, 1, 130), (6, 5, 33)], ids=str)
@pytest.mark.parametrize("threads", [2, 5])
def test_threads_change_no_bit(sizes, threads):
    one, many = (run(*random_case(sizes, "float32"), threads=num, backward=False) for num in (1, threads))
    for name, value in one.items():
        numpy.testing.assert_array_equal(value, many[name], err_msg=name)


def test_behind_the_ends_all_is_zero():
    inputs, grads = random_case((6, 5, 9), "float32")
    results = run(inputs, grads, backward=False)
    behind = numpy.arange(6)[:, None] >= inputs["lengths"]
    assert behind.any()
    for name in ("h", "gates", "reset", "d_x"):
        assert not results[name][behind].any(), name


def test_wrong_lengths():
    inputs, grads = random_case((6, 5, 9), "float32")
    inputs["lengths"][3] = 7
    with pytest.raises(UserError, match=r"^gru: a length is below 0, or above the number of frames\.$"):
        run(inputs, grads, backward=False)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(5, 3, 7), (4, 35, 33), (0, 2, 3), (3, 2, 130)], ids=str)
def test_no_memory_is_used_beyond_arrays(sizes, tmp_path):
    inputs, grads = random_case(sizes, "float32")
    kernels, values = library().kernels, {**inputs, **grads, **run(inputs, grads, backward=True)}
    for name in ("gru", "gru_grad"):
        run_sanitized(name, kernels[name].signature, values, tmp_path, threads=2, backward=True)
