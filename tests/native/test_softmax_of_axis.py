"""Softmax over an axis that is not the last one, against numpy."""

import numpy
import pytest

from returnn.native.numpy_call import call_kernel
from tests.native.kernels import LEVELS, library
from tests.native.sanitized import run_sanitized


def run(x, *, level=None, threads=1):
    """:return: softmax over the second axis; x has three or four"""
    y = call_kernel(
        library(level).kernels["softmax_of_axis"], {"x": x if x.ndim == 4 else x[..., None]}, threads=threads
    )["y"]
    return y.reshape(x.shape)


def reference(x):
    x = x.astype("float64")
    with numpy.errstate(invalid="ignore"):
        y = numpy.exp(x - x.max(axis=1, keepdims=True, initial=-numpy.inf))
        return y / y.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 0, 3), (1, 1, 1), (3, 9, 12), (2, 50, 1), (5, 7, 33), (2, 9, 12, 3)])
def test_values(level, dtype, shape):
    x = numpy.random.RandomState(1).normal(0.0, 5.0, size=shape).astype(dtype)
    tolerance = 1e-6 if dtype == "float32" else 1e-13
    numpy.testing.assert_allclose(run(x, level=level), reference(x), rtol=10 * tolerance, atol=tolerance)


def test_frames_beyond_the_end_get_nothing():
    x = numpy.random.RandomState(1).normal(size=(3, 8, 5)).astype("float32")
    x[0, 5:], x[1, 1:] = -numpy.inf, -numpy.inf
    y = run(x)
    assert (y[0, 5:] == 0).all()
    assert (y[1, 0] == 1).all()
    numpy.testing.assert_allclose(y, reference(x), rtol=1e-5)


def test_nan_stays_in_its_column():
    x = numpy.random.RandomState(1).normal(size=(2, 8, 5)).astype("float32")
    x[0, 3, 1] = numpy.nan
    x[1, :, 2] = -numpy.inf  # no frame at all
    numpy.testing.assert_array_equal(numpy.isnan(run(x)).any(axis=1), [[0, 1, 0, 0, 0], [0, 0, 1, 0, 0]])


def test_threads_and_strides_change_no_bit():
    x = numpy.random.RandomState(1).normal(size=(100, 30, 40)).astype("float32")
    numpy.testing.assert_array_equal(run(x[:, :, :13], threads=3), run(x[:, :, :13].copy()))
    x = x.reshape(100, 30, 4, 10)
    for part in (x[:, :, :3], x[..., :9], x[:, 3:, 1:3, 5:]):
        numpy.testing.assert_array_equal(run(part, threads=2), run(part.copy()))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(0, 3, 2, 1), (3, 9, 5, 1)])
def test_no_memory_is_used_beyond_arrays(shape, tmp_path):
    x = numpy.random.RandomState(1).normal(size=shape).astype("float32")
    run_sanitized("softmax_of_axis", library().kernels["softmax_of_axis"].signature, {"x": x}, tmp_path, threads=2)
