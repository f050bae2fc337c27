"""Matrices that are 0 where a mask is: the same as if they were dense, and what is masked is never looked at."""

import numpy
import pytest

from returnn.native.numpy_call import call_kernel
from tests.native import lstm_reference
from tests.native.kernels import LEVELS, library
from tests.native.sanitized import run_sanitized

TOLERANCE = {"float32": 2e-5, "float64": 1e-12}
# rows, input, output, block: blocks of one entry, that do not fit, as wide as vectors; no rows; nothing at all
SIZES = [(3, 5, 7, 1), (20, 40, 33, 4), (7, 64, 96, 32), (0, 3, 4, 1), (2, 0, 3, 1), (2, 3, 0, 1)]


def block_mask(random, rows, columns, block, share=0.3):
    blocks = random.uniform(size=(-(-rows // block), -(-columns // block))) < share
    return numpy.kron(blocks, numpy.ones([block, block]))[:rows, :columns].astype("uint8").reshape(rows, columns)


def random_case(sizes, dtype):
    """:return: inputs of the product, with NaN where the mask is 0, and the gradient of the result"""
    num, rows, columns, block = sizes
    random = numpy.random.RandomState(sum(sizes))
    mask = block_mask(random, rows, columns, block)
    weights = numpy.where(mask, random.normal(size=mask.shape), numpy.nan).astype(dtype)
    inputs = {"x": random.normal(size=(num, rows)).astype(dtype), "weights": weights, "mask": mask}
    return inputs, {"d_y": random.normal(size=(num, columns)).astype(dtype)}


def product(inputs, grads, *, level=None, threads=1):
    kernels = library(level).kernels
    outputs = call_kernel(kernels["sparse_product"], inputs, threads=threads)
    return outputs | call_kernel(kernels["sparse_product_grad"], {**inputs, **grads}, threads=threads)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_product(level, dtype, sizes):
    inputs, grads = random_case(sizes, dtype)
    x, weights, d_y = (value.astype("float64") for value in (inputs["x"], inputs["weights"], grads["d_y"]))
    weights = numpy.nan_to_num(weights)
    expected = {"y": x @ weights, "d_x": d_y @ weights.T, "d_weights": x.T @ d_y * inputs["mask"]}
    results = product(inputs, grads, level=level)
    for name, value in expected.items():
        numpy.testing.assert_allclose(results[name], value, rtol=0, atol=TOLERANCE[dtype], err_msg=name)


def random_lstm(sizes, dtype, block):
    frames, batch, units = sizes
    random = numpy.random.RandomState(sum(sizes))
    inputs = lstm_reference.random_inputs(random, dtype, frames=frames, batch=batch, units=units)
    mask = block_mask(random, units, 4 * units, block)
    inputs["weights"] = numpy.where(mask, inputs["weights"], numpy.nan).astype(dtype)
    return {**inputs, "mask": mask}


def lstm(inputs, *, level=None, threads=1):
    kernels = library(level).kernels
    outputs = call_kernel(kernels["lstm"], inputs, threads=threads, backward=True)
    grads = lstm_reference.random_gradients(numpy.random.RandomState(1), outputs, inputs["lengths"])
    values = {**inputs, **outputs, **grads}
    return outputs | call_kernel(kernels["lstm_grad"], values, threads=threads, backward=True)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("sizes", "block"), [((5, 3, 7), 2), ((4, 33, 64), 16), ((3, 2, 40), 1)], ids=str)
def test_lstm(level, dtype, sizes, block):
    inputs = random_lstm(sizes, dtype, block)
    dense = {**inputs, "weights": numpy.nan_to_num(inputs["weights"])}
    mask = dense.pop("mask")
    results, expected = (lstm(given, level=level) for given in (inputs, dense))
    expected["d_weights"] *= mask
    for name, value in expected.items():
        numpy.testing.assert_allclose(results[name], value, rtol=0, atol=TOLERANCE[dtype] * 10, err_msg=name)


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_change_no_bit(threads):
    for function, case in (
        (product, random_case((40, 70, 50, 8), "float32")),
        (lstm, (random_lstm((4, 35, 40), "float32", 8),)),
        (lstm, (random_lstm((4, 1, 130), "float32", 16),)),
    ):
        one, many = (function(*case, threads=num) for num in (1, threads))
        for name, value in one.items():
            numpy.testing.assert_array_equal(value, many[name], err_msg=name)


@pytest.mark.slow
def test_no_memory_is_used_beyond_arrays(tmp_path):
    kernels = library().kernels
    for sizes in SIZES:
        inputs, grads = random_case(sizes, "float32")
        for name in ("sparse_product", "sparse_product_grad"):
            run_sanitized(name, kernels[name].signature, {**inputs, **grads}, tmp_path, threads=2)
    inputs = random_lstm((4, 33, 40), "float32", 8)
    outputs = call_kernel(kernels["lstm"], inputs, backward=True)
    grads = lstm_reference.random_gradients(numpy.random.RandomState(1), outputs, inputs["lengths"])
    for name in ("lstm", "lstm_grad"):
        run_sanitized(name, kernels[name].signature, {**inputs, **outputs, **grads}, tmp_path, threads=2, backward=True)
