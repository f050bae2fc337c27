import numpy
import pytest

from returnn.native.numpy_call import call_kernel
from returnn.util.errors import UserError
from tests.native.kernels import LEVELS, library
from tests.native.lstm_reference import sigmoid
from tests.native.sanitized import run_sanitized

TOLERANCE = {"float32": 4e-5, "float64": 1e-12}
# frames, batch, units, depth
SIZES = [(0, 2, 3, 2), (1, 1, 1, 1), (5, 3, 7, 3), (6, 70, 40, 2), (4, 1, 130, 2), (3, 33, 64, 1)]


def rhn(*, x, weights, h0, lengths, mask=None, backward=False):
    """:return: h (T, N, F), 0 behind the ends; last h (N, F). Also of complex numbers"""
    kind = numpy.result_type(x, weights, h0)
    all_h, last_h = numpy.zeros([*x.shape[:2], h0.shape[1]], kind), h0.astype(kind)
    for n, length in enumerate(lengths):
        for t in range(length)[:: -1 if backward else 1]:
            y = last_h[n]
            for layer, matrix in enumerate(weights):
                z = (y if mask is None else y * mask[n]) @ matrix + (x[t, n] if layer == 0 else 0)
                z_h, z_t = numpy.split(z, 2)
                y = y + sigmoid(z_t) * (numpy.tanh(z_h) - y)
            all_h[t, n] = last_h[n] = y
    return {"h": all_h, "last_h": last_h}


def random_case(sizes, dtype, *, with_mask):
    """:return: inputs, and gradients of the outputs; behind the ends there is NaN"""
    frames, batch, units, depth = sizes
    random = numpy.random.RandomState(sum(sizes))
    shapes = {
        "x": (frames, batch, 2 * units),
        "weights": (depth, units, 2 * units),
        "h0": (batch, units),
        "d_h": (frames, batch, units),
        "d_last_h": (batch, units),
    }
    values = {name: random.normal(size=shape).astype(dtype) for name, shape in shapes.items()}
    values["weights"] /= numpy.asarray(units**0.5, dtype)
    lengths = random.randint(0, frames + 1, size=batch).astype("int32")
    for n, length in enumerate(lengths):
        values["x"][length:, n] = values["d_h"][length:, n] = numpy.nan
    grads = {name: values.pop(name) for name in ("d_h", "d_last_h")}
    if with_mask:
        values["mask"] = (random.randint(0, 2, size=(batch, units)) * 2).astype(dtype)
    return {**values, "lengths": lengths}, grads


def derivative(inputs, grads, name, direction, **options):
    """:return: of the sum of outputs times their gradients, when the input of this name changes in a direction"""
    values = {key: numpy.nan_to_num(x).astype("float64") if x.dtype.kind == "f" else x for key, x in inputs.items()}
    values[name] = values[name] + 1e-30j * direction
    outputs = rhn(**values, **options)
    return sum((outputs[key[2:]] * numpy.nan_to_num(grad)).sum().imag for key, grad in grads.items()) / 1e-30


def run(inputs, grads, *, level=None, threads=1, **options):
    """:return: outputs, and gradients of the inputs"""
    kernels = library(level).kernels
    outputs = call_kernel(kernels["rhn"], inputs, threads=threads, **options)
    values = {**inputs, **outputs, **grads}
    return outputs | call_kernel(kernels["rhn_grad"], values, threads=threads, **options)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize(("backward", "with_mask"), [(False, False), (True, True)])
def test_values_and_gradients(level, dtype, sizes, backward, with_mask):
    inputs, grads = random_case(sizes, dtype, with_mask=with_mask)
    results = run(inputs, grads, level=level, backward=backward)
    for name, value in rhn(**inputs, backward=backward).items():
        numpy.testing.assert_allclose(results[name], value, rtol=0, atol=TOLERANCE[dtype], err_msg=name)
    for name in ("x", "weights", "h0"):
        direction = numpy.random.RandomState(1).normal(size=inputs[name].shape)
        products = results[f"d_{name}"] * direction
        expected = derivative(inputs, grads, name, direction, backward=backward)
        tolerance = TOLERANCE[dtype] * max(1, numpy.abs(products).sum())
        assert products.sum() == pytest.approx(expected, rel=0, abs=tolerance)


@pytest.mark.parametrize("sizes", [(6, 70, 40, 2), (4, 1, 130, 3)], ids=str)
@pytest.mark.parametrize("threads", [2, 5])
def test_threads_change_no_bit(sizes, threads):
    case = random_case(sizes, "float32", with_mask=True)
    one, many = (run(*case, threads=num, backward=False) for num in (1, threads))
    for name, value in one.items():
        numpy.testing.assert_array_equal(value, many[name], err_msg=name)


def test_without_layers():
    inputs, grads = random_case((6, 5, 9, 0), "float32", with_mask=False)
    with pytest.raises(UserError, match=r"^rhn: there has to be a layer\.$"):
        run(inputs, grads, backward=False)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(5, 3, 7, 2), (4, 35, 33, 1), (0, 2, 3, 2)], ids=str)
def test_no_memory_is_used_beyond_arrays(sizes, tmp_path):
    inputs, grads = random_case(sizes, "float32", with_mask=True)
    kernels, values = library().kernels, {**inputs, **grads, **run(inputs, grads, backward=True)}
    for name in ("rhn", "rhn_grad"):
        run_sanitized(name, kernels[name].signature, values, tmp_path, threads=2, backward=True)
