"""Energies of attention against numpy, their gradients against derivatives by complex numbers."""

import numpy
import pytest

from returnn.native.numpy_call import call_kernel
from returnn.util.errors import UserError
from tests.native.kernels import LEVELS, library
from tests.native.sanitized import run_sanitized

TOLERANCE = {"float32": 2e-5, "float64": 1e-12}
# axes of the energies, of a, of b; entries of the sums
SIZES = [
    ((1, 5, 3), (1, 5, 3), (1, 1, 3), 7),
    ((4, 2, 6), (4, 1, 6), (4, 2, 1), 130),
    ((1, 3, 4), (1, 3, 4), (1, 3, 1), 64),
    ((2, 3, 1), (1, 1, 1), (2, 3, 1), 1),
    ((1, 0, 3), (1, 0, 3), (1, 1, 3), 9),
    ((1, 2, 0), (1, 2, 0), (1, 2, 1), 9),
]


def energies(*, feedback, feedback_weights, a, b, v):
    """:return: (P, Q, R). Also of complex numbers"""
    return numpy.tanh(a + b + feedback[..., None] * feedback_weights) @ v


def random_case(sizes, dtype):
    """:return: inputs, and the gradient of the energies"""
    axes, of_a, of_b, size = sizes
    random = numpy.random.RandomState(size)
    shapes = {"feedback": axes, "feedback_weights": (size,), "a": (*of_a, size), "b": (*of_b, size), "v": (size,)}
    inputs = {name: random.normal(size=shape).astype(dtype) for name, shape in shapes.items()}
    return inputs, random.normal(size=axes).astype(dtype)


def run(inputs, grad, *, level=None, threads=1):
    """:return: energies, and gradients of the inputs"""
    kernels = library(level).kernels
    outputs = call_kernel(kernels["attention_energies"], inputs, threads=threads)
    return outputs | call_kernel(kernels["attention_energies_grad"], {**inputs, "d_energies": grad}, threads=threads)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_values_and_gradients(level, dtype, sizes):
    inputs, grad = random_case(sizes, dtype)
    results = run(inputs, grad, level=level)
    tolerance = TOLERANCE[dtype] * sizes[-1]
    numpy.testing.assert_allclose(results["energies"], energies(**inputs), rtol=0, atol=tolerance)
    for name, value in inputs.items():
        direction = numpy.random.RandomState(1).normal(size=value.shape)
        values = {key: x.astype("float64") for key, x in inputs.items()}
        changed = energies(**{**values, name: values[name] + 1e-30j * direction})
        products = results[f"d_{name}"] * direction
        allowed = TOLERANCE[dtype] * max(1, abs(products).sum())
        assert products.sum() == pytest.approx((changed.imag * grad).sum() / 1e-30, rel=0, abs=allowed), name


def test_threads_change_no_bit():
    inputs, grad = random_case(((4, 12, 30), (4, 1, 30), (4, 12, 1), 200), "float32")
    expected = run(inputs, grad)
    for name, value in run(inputs, grad, threads=3).items():
        numpy.testing.assert_array_equal(value, expected[name], err_msg=name)


def test_frames_without_gradient_can_be_nan():
    inputs, grad = random_case(((3, 2, 6), (3, 1, 6), (3, 2, 1), 70), "float32")
    grad[1, :, 4:] = 0
    expected = run(inputs, grad)
    inputs["a"][1, :, 4:] = inputs["feedback"][1, :, 4:] = numpy.nan
    results = run(inputs, grad)
    for name, value in results.items():
        if name != "energies":
            numpy.testing.assert_array_equal(value, expected[name], err_msg=name)
    numpy.testing.assert_array_equal(results["energies"][1, :, :4], expected["energies"][1, :, :4])


def test_axes_that_do_not_fit():
    inputs, grad = random_case(SIZES[1], "float32")
    with pytest.raises(UserError, match="the axes of a and b have to be those of feedback, or of size 1"):
        run({**inputs, "b": inputs["b"][:2]}, grad)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", SIZES[1:3], ids=str)
def test_no_memory_is_used_beyond_arrays(sizes, tmp_path):
    inputs, grad = random_case(sizes, "float32")
    kernels = library().kernels
    run_sanitized("attention_energies", kernels["attention_energies"].signature, inputs, tmp_path, threads=2)
    signature = kernels["attention_energies_grad"].signature
    run_sanitized("attention_energies_grad", signature, {**inputs, "d_energies": grad}, tmp_path, threads=2)
