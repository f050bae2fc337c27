import numpy
import pytest

from returnn.native.numpy_call import call_kernel
from tests.native.kernels import LEVELS, library
from tests.native.lstm_reference import sigmoid
from tests.native.sanitized import run_sanitized

TOLERANCE = {"float32": 4e-5, "float64": 1e-12}
# source, target, batch, units: no frames, one, more of one than of the other, several tiles
SIZES = [(0, 2, 2, 3), (2, 0, 2, 3), (1, 1, 1, 1), (4, 2, 3, 7), (2, 5, 9, 40), (3, 1, 1, 130), (4, 4, 0, 3)]


def twod_lstm(*, source, target, weights, c0, h0):
    """:return: h and c (T, S, N, F), entry by entry. Also of complex numbers"""
    units = c0.shape[-1]
    shape = (len(target), *c0.shape)
    h, c = (numpy.zeros(shape, numpy.result_type(source, target, weights, c0, h0)) for _ in range(2))
    zero = numpy.zeros(c0.shape[1:])
    for i in range(len(target)):
        for j in range(len(source)):
            c_before, h_before = (c[i - 1, j], h[i - 1, j]) if i else (c0[j], h0[j])
            c_left, h_left = (c[i, j - 1], h[i, j - 1]) if j else (zero, zero)
            z = source[j] + target[i] + h_left @ weights[:units] + h_before @ weights[units:]
            z_n, *rest = numpy.split(z, 5, axis=-1)
            gate_in, f, o, left = map(sigmoid, rest)
            c[i, j] = f * (left * c_left + (1 - left) * c_before) + gate_in * numpy.tanh(z_n)
            h[i, j] = o * numpy.tanh(c[i, j])
    return {"h": h, "c": c}


def random_case(sizes, dtype):
    """:return: inputs, and gradients of the outputs"""
    num_source, num_target, batch, units = sizes
    random = numpy.random.RandomState(sum(sizes))
    shapes = {
        **{"source": (num_source, batch, 5 * units), "target": (num_target, batch, 5 * units)},
        **{"weights": (2 * units, 5 * units), "c0": (num_source, batch, units), "h0": (num_source, batch, units)},
        **{f"d_{name}": (num_target, num_source, batch, units) for name in "hc"},
    }
    values = {name: random.normal(size=shape).astype(dtype) for name, shape in shapes.items()}
    values["weights"] /= numpy.asarray(units**0.5, dtype)
    grads = {name: values.pop(name) for name in ("d_h", "d_c")}
    return values, grads


def run(inputs, grads, *, level=None, threads=1):
    """:return: outputs, and gradients of the inputs"""
    kernels = library(level).kernels
    outputs = call_kernel(kernels["twod_lstm"], inputs, threads=threads)
    return outputs | call_kernel(kernels["twod_lstm_grad"], {**inputs, **outputs, **grads}, threads=threads)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_values_and_gradients(level, dtype, sizes):
    inputs, grads = random_case(sizes, dtype)
    results = run(inputs, grads, level=level)
    for name, value in twod_lstm(**inputs).items():
        numpy.testing.assert_allclose(results[name], value, rtol=0, atol=TOLERANCE[dtype], err_msg=name)
    for name, value in inputs.items():
        direction = numpy.random.RandomState(1).normal(size=value.shape)
        products = results[f"d_{name}"] * direction
        outputs = twod_lstm(**{**inputs, name: value + 1e-30j * direction})
        expected = sum((outputs[key[2:]] * grad).sum().imag for key, grad in grads.items()) / 1e-30
        tolerance = TOLERANCE[dtype] * max(1, numpy.abs(products).sum())
        assert products.sum() == pytest.approx(expected, rel=0, abs=tolerance), name


@pytest.mark.parametrize("sizes", [(6, 4, 30, 20), (3, 4, 1, 130)], ids=str)
@pytest.mark.parametrize("threads", [2, 5])
def test_threads_change_no_bit(sizes, threads):
    case = random_case(sizes, "float32")
    one, many = (run(*case, threads=num) for num in (1, threads))
    for name, value in one.items():
        numpy.testing.assert_array_equal(value, many[name], err_msg=name)


def test_arrays_can_lie_in_any_order_and_gradients_be_left_out():
    inputs, grads = random_case((4, 3, 5, 9), "float64")
    views = {name: value.swapaxes(0, 1).copy().swapaxes(0, 1) for name, value in inputs.items() if name != "weights"}
    d_h = grads["d_h"].transpose(2, 1, 0, 3).copy().transpose(2, 1, 0, 3)
    results = run({**inputs, **views}, {"d_h": d_h})
    for name, value in run(inputs, {**grads, "d_c": numpy.zeros_like(d_h)}).items():
        numpy.testing.assert_array_equal(value, results[name], err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(4, 2, 3, 7), (2, 0, 2, 3), (3, 4, 33, 20)], ids=str)
def test_no_memory_is_used_beyond_arrays(sizes, tmp_path):
    inputs, grads = random_case(sizes, "float32")
    kernels, values = library().kernels, {**inputs, **grads, **run(inputs, grads)}
    for name in ("twod_lstm", "twod_lstm_grad"):
        run_sanitized(name, kernels[name].signature, values, tmp_path, threads=2)
