"""Products with packed matrices against numpy."""

import numpy
import pytest

from returnn.native.numpy_call import call_kernel
from returnn.util.errors import UserError
from tests.native.kernels import LEVELS, library
from tests.native.sanitized import run_sanitized

TOLERANCE = {"float32": 2e-5, "float64": 1e-13}
SIZES = [
    (1, 1, 1),
    (5, 7, 33),
    (100, 40, 70),
    (3, 130, 64),
    (0, 3, 5),
    (4, 0, 5),
    (4, 3, 0),
]  # rows, their size, columns


def random_case(sizes, dtype):
    """:return: x (N, K) and matrix (K, M)"""
    rows, size, columns = sizes
    random = numpy.random.RandomState(sum(sizes))
    return random.normal(size=(rows, size)).astype(dtype), random.normal(size=(size, columns)).astype(dtype)


def run(x, matrix, *, level=None, threads=1, transposed=False):
    """:return: the product of x with the matrix, or with the transposed one"""
    kernels = library(level).kernels
    kernel = kernels["pack_transposed_matrix" if transposed else "pack_matrix"]
    packed = call_kernel(kernel, {"matrix": matrix}, threads=threads)["packed"]
    return call_kernel(kernels["packed_product"], {"x": x, "packed": packed}, threads=threads)["product"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_products(level, dtype, sizes):
    x, matrix = random_case(sizes, dtype)
    allowed = TOLERANCE[dtype] * max(1, sizes[1])
    numpy.testing.assert_allclose(run(x, matrix, level=level), x @ matrix, rtol=0, atol=allowed)
    by_transposed = run(x, matrix.T.copy(), level=level, transposed=True)
    numpy.testing.assert_allclose(by_transposed, x @ matrix, rtol=0, atol=allowed)


@pytest.mark.parametrize("rows", [3, 250])
def test_neither_threads_nor_other_rows_change_a_bit(rows):
    x, matrix = random_case((rows, 70, 130), "float32")
    expected = run(x, matrix)
    numpy.testing.assert_array_equal(run(x, matrix, threads=3), expected)
    numpy.testing.assert_array_equal(run(x[1:2], matrix), expected[1:2])


def test_nan_stays_in_its_row():
    x, matrix = random_case((5, 7, 33), "float32")
    expected = run(x, matrix)
    x[2] = numpy.nan
    product = run(x, matrix)
    assert numpy.isnan(product[2]).all()
    numpy.testing.assert_array_equal(numpy.delete(product, 2, axis=0), numpy.delete(expected, 2, axis=0))


def run_parts(parts, matrix, *, level=None, threads=1):
    """:return: the product of rows in parts with the matrix"""
    kernels = library(level).kernels
    packed = call_kernel(kernels["pack_matrix"], {"matrix": matrix}, threads=threads)["packed"]
    none = matrix[0, :0]
    rows = {f"x{i + 1}": part for i, part in enumerate([*parts, none][:3])}
    inputs = {**rows, "packed": packed, **dict.fromkeys(("weights_by_row", "weights_by_frame", "frames"), none)}
    return call_kernel(kernels["packed_product_of_parts"], inputs, threads=threads)["product"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("sizes", [(1, 3, 1), (5, 7, 33), (250, 40, 70)], ids=str)
@pytest.mark.parametrize("ends", [(1,), (0,), (2, 3)], ids=str)
def test_rows_in_parts(level, sizes, ends):
    x, matrix = random_case(sizes, "float32")
    parts = [x[:, begin:end] for begin, end in zip((0, *ends), (*ends, None), strict=True)]  # not dense
    expected = run(x, matrix, level=level)
    for threads in (1, 3):
        numpy.testing.assert_array_equal(run_parts(parts, matrix, level=level, threads=threads), expected)


def sums_of_frames(shape, columns, dtype="float32"):
    """:return: weights (B, H, S) and frames (B, S, M)"""
    num_seqs, _, num_frames = shape
    random = numpy.random.RandomState(sum(shape))
    frames = random.normal(size=(num_seqs, num_frames, columns)).astype(dtype)
    return random.normal(size=shape).astype(dtype), frames


def run_with_sums(x, matrix, weights, frames, *, by_frame=False, level=None, threads=1):
    """:return: the product of x with the matrix, and the sums of frames"""
    kernels = library(level).kernels
    packed = call_kernel(kernels["pack_matrix"], {"matrix": matrix}, threads=threads)["packed"]
    none = numpy.zeros([0], x.dtype)
    given = {"weights_by_frame": none, "weights_by_row": weights}
    if by_frame:
        given = {"weights_by_frame": weights.transpose(0, 2, 1).copy(), "weights_by_row": none}
    inputs = {"x1": x, "x2": none, "x3": none, "packed": packed, **given, "frames": frames}
    return call_kernel(kernels["packed_product_of_parts"], inputs, threads=threads)["product"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", [(1, 5, 3), (50, 5, 9), (125, 2, 1), (250, 1, 0)], ids=str)
def test_sums_of_frames(level, dtype, shape):
    x, matrix = random_case((shape[0] * shape[1], 40, 70), dtype)
    weights, frames = sums_of_frames(shape, 70, dtype)
    expected = x @ matrix + (weights @ frames).reshape(-1, 70)
    for by_frame in (False, True):
        results = [run_with_sums(x, matrix, weights, frames, by_frame=by_frame, level=level, threads=n) for n in (1, 3)]
        numpy.testing.assert_allclose(results[0], expected, rtol=0, atol=100 * TOLERANCE[dtype])
        numpy.testing.assert_array_equal(*results)


def test_other_rows_than_weights():
    x, matrix = random_case((7, 3, 5), "float32")
    with pytest.raises(UserError, match="there are other rows than weights"):
        run_with_sums(x, matrix, *sums_of_frames((2, 3, 4), 5))


def test_frames_without_weights():
    x, matrix = random_case((6, 3, 5), "float32")
    weights, frames = sums_of_frames((2, 3, 4), 5)
    with pytest.raises(UserError, match="frames need weights, and weights need frames"):
        run_with_sums(x, matrix, weights[0, 0, :0], frames)
    with pytest.raises(UserError, match="frames need weights, and weights need frames"):
        run_with_sums(x, matrix, weights, frames[0, :0, 0])


def test_parts_of_another_size():
    x, matrix = random_case((5, 7, 33), "float32")
    with pytest.raises(UserError, match=r"the parts of x have another size than the matrix has rows"):
        run_parts([x, x], matrix)


@pytest.mark.slow
def test_parts_use_no_memory_beyond_arrays(tmp_path):
    x, matrix = random_case((100, 7, 33), "float32")
    kernels = library("plain").kernels
    packed = call_kernel(kernels["pack_matrix"], {"matrix": matrix})["packed"]
    weights, frames = sums_of_frames((20, 5, 3), 33)
    inputs = {"x1": x[:, :3].copy(), "x2": x[:, 3:].copy(), "x3": x[0, :0], "packed": packed}
    inputs |= {"weights_by_row": weights, "weights_by_frame": x[0, :0], "frames": frames}
    name = "packed_product_of_parts"
    run_sanitized(name, kernels[name].signature, inputs, tmp_path, threads=2)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(5, 7, 33), (0, 3, 5), (4, 3, 16)], ids=str)
def test_no_memory_is_used_beyond_arrays(sizes, tmp_path):
    x, matrix = random_case(sizes, "float32")
    kernels = library("plain").kernels
    packed = call_kernel(kernels["pack_matrix"], {"matrix": matrix})["packed"]
    for kernel in ("pack_matrix", "pack_transposed_matrix"):
        run_sanitized(kernel, kernels[kernel].signature, {"matrix": matrix}, tmp_path, threads=2)
    run_sanitized(
        "packed_product", kernels["packed_product"].signature, {"x": x, "packed": packed}, tmp_path, threads=2
    )
