"""Dropout against Philox in numpy."""

import numpy
import pytest

from returnn.native.numpy_call import call_kernel
from returnn.util.errors import UserError
from tests.native.kernels import LEVELS, library
from tests.native.sanitized import run_sanitized

SEED = numpy.array([2**62 + 5, -3], "int64")
SIZES = [0, 1, 5, 63, 64, 65, 40_003]
OPTIONS = {"rate": 0.3, "scale": 1 / 0.7}


def philox(key, counters):
    """:return: (N, 4), four numbers for each counter (N, 4), by the paper"""
    low = numpy.uint64(0xFFFFFFFF)
    a, b, c, d = (counters[:, i].astype("uint64") for i in range(4))
    keys = [int(key[0]), int(key[1])]
    for _ in range(10):
        first, second = a * numpy.uint64(0xD2511F53), c * numpy.uint64(0xCD9E8D57)
        shift = numpy.uint64(32)
        a, b, c, d = (
            (second >> shift) ^ b ^ numpy.uint64(keys[0]), second & low,
            (first >> shift) ^ d ^ numpy.uint64(keys[1]), first & low,
        )  # fmt: skip
        keys = [(keys[0] + 0x9E3779B9) % 2**32, (keys[1] + 0xBB67AE85) % 2**32]
    return numpy.stack([a, b, c, d], axis=1).astype("uint32")


def uniform(seed, num):
    """:return: (num,), float32, in [0, 1)"""
    mixed = philox((0x3EC8F720, 0x02461E29), seed.view("uint32")[None])[0]
    counters = numpy.zeros([-(-num // 4), 4], "uint32")
    counters[:, 0] = numpy.arange(len(counters))
    counters[:, 2:] = mixed[2:]
    bits = philox(mixed[:2], counters).reshape(-1)[:num]
    return ((bits & 0x7FFFFF) | 0x3F800000).astype("uint32").view("float32") - numpy.float32(1)


def run(x, *, level=None, threads=1, **options):
    """:return: outputs, by name"""
    return call_kernel(
        library(level).kernels["dropout"], {"x": x, "seed": SEED}, threads=threads, **(options or OPTIONS)
    )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("size", SIZES)
def test_values_and_gradients(level, size):
    x = numpy.random.RandomState(1).normal(size=size).astype("float32")
    results = run(x, level=level)
    keep = uniform(SEED, size) >= numpy.float32(0.3)
    factors = numpy.where(keep, numpy.float32(1 / 0.7), numpy.float32(0))
    numpy.testing.assert_array_equal(results["keep"], keep)
    numpy.testing.assert_array_equal(results["y"], x * factors)
    for name, output in (("dropout_grad", "d_y"), ("dropout_grad_grad", "d_d_x")):
        values = {"keep": results["keep"], output: x}
        result = call_kernel(library(level).kernels[name], values, threads=1, scale=1 / 0.7)
        numpy.testing.assert_array_equal(*result.values(), x * factors)


def test_threads_change_no_bit():
    x = numpy.random.RandomState(1).normal(size=100_001).astype("float32")
    expected = run(x)
    for name, value in run(x, threads=3).items():
        numpy.testing.assert_array_equal(value, expected[name], err_msg=name)


def test_nan_stays_where_it_is():
    x = numpy.ones([100], "float32")
    x[7] = numpy.nan
    assert numpy.flatnonzero(numpy.isnan(run(x)["y"])).tolist() == [7]


def test_wrong_shapes():
    with pytest.raises(UserError, match="x has the shape"):
        run(numpy.zeros([2, 3], "float32"))


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 5, 130])
def test_no_memory_is_used_beyond_arrays(size, tmp_path):
    inputs = {"x": numpy.ones([size], "float32"), "seed": SEED}
    kernels = library().kernels
    run_sanitized("dropout", kernels["dropout"].signature, inputs, tmp_path, threads=2, **OPTIONS)
    values = {"keep": run(inputs["x"])["keep"], "d_y": inputs["x"]}
    run_sanitized("dropout_grad", kernels["dropout_grad"].signature, values, tmp_path, threads=2, scale=1 / 0.7)
