"""The highest values of rows against sorting by numpy."""

import numpy
import pytest

from returnn.native.numpy_call import call_kernel
from returnn.util.errors import UserError
from tests.native.kernels import LEVELS, library
from tests.native.sanitized import run_sanitized


def run(x, wanted, *, level=None, threads=1):
    """:return: values, places"""
    inputs = {"x": x, "wanted": numpy.zeros([wanted], "int32")}
    results = call_kernel(library(level).kernels["best_of_row"], inputs, threads=threads)
    return results["values"], results["places"]


def expected_places(x, wanted):
    """:return: of the highest, of equal ones the first; NaN is the lowest"""
    is_nan = numpy.isnan(x)
    keys = -numpy.where(is_nan, 0, x)
    order = [numpy.lexsort((range(len(key)), key, nan)) for key, nan in zip(keys, is_nan, strict=True)]
    return numpy.array(order, "int32").reshape(x.shape)[:, :wanted]


def check(x, wanted, **options):
    values, places = run(x, wanted, **options)
    expected = expected_places(x, wanted)
    numpy.testing.assert_array_equal(places, expected)
    numpy.testing.assert_array_equal(values, numpy.take_along_axis(x, expected.astype("int64"), axis=1))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(0, 3, 1), (1, 1, 1), (3, 5, 0), (3, 5, 5), (7, 40, 3), (4, 1000, 12), (2, 33, 32)])
def test_values_and_places(level, dtype, shape):
    num, size, wanted = shape
    random = numpy.random.RandomState(1)
    check(random.normal(size=(num, size)).astype(dtype), wanted, level=level)
    check(numpy.sort(random.normal(size=(num, size)).astype(dtype), axis=-1), wanted, level=level)
    check(random.randint(0, 4, size=(num, size)).astype(dtype), wanted, level=level)  # many are equal


def test_infinite_ones_and_nan():
    x = numpy.random.RandomState(1).normal(size=(6, 50)).astype("float32")
    x[0] = -numpy.inf
    x[1, :47] = -numpy.inf
    x[2, 3], x[2, 30] = numpy.inf, -numpy.inf
    x[3, :45] = numpy.nan
    x[4, 7:] = numpy.nan
    x[5] = numpy.nan
    check(x, 10)


def test_threads_and_strides_change_nothing():
    x = numpy.random.RandomState(1).normal(size=(50, 4000)).astype("float32")
    check(x[:, :3001], 12, threads=3)


def test_too_many_are_wanted():
    with pytest.raises(UserError, match=r"there are fewer values in a row than are wanted"):
        run(numpy.zeros([2, 3], "float32"), 4)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(0, 3, 1), (5, 21, 4)])
def test_no_memory_is_used_beyond_arrays(shape, tmp_path):
    x = numpy.random.RandomState(1).normal(size=shape[:2]).astype("float32")
    inputs = {"x": x, "wanted": numpy.zeros([shape[2]], "int32")}
    run_sanitized("best_of_row", library().kernels["best_of_row"].signature, inputs, tmp_path, threads=2)
