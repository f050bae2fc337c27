"""The GRU for GPUs, on the CPU: `cuda_on_host`."""

import numpy
import pytest

from tests.native import cuda_on_host
from tests.native.sanitized import run_sanitized
from tests.native.test_gru import DIFFERENTIABLE, derivative, gru, random_case
from tests.native.test_gru import run as run_on_cpu

METHODS = ("stepwise", "persistent")
SIZES = [(0, 2, 3), (3, 0, 3), (1, 1, 1), (5, 3, 7), (4, 1, 70), (6, 37, 20), (3, 2, 130)]


@pytest.fixture(params=METHODS)
def method(request):
    library = cuda_on_host.library()
    library.set_method(1, 1, request.param)
    yield request.param
    library.clear_methods()


def run(inputs, grads, **options):
    """:return: outputs and gradients"""
    outputs = cuda_on_host.run("gru", inputs, **options)
    values = {key: x for key, x in inputs.items() if key != "x"}
    values |= {key: x for key, x in outputs.items() if key != "last_h"}
    return outputs | cuda_on_host.run("gru_grad", {**values, **grads}, **options)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("backward", [False, True])
def test_values_and_gradients(method, sizes, backward):
    inputs, grads = random_case(sizes, "float32")
    random = numpy.random.RandomState(1)
    results = run(inputs, grads, backward=backward)
    for name, value in gru(**inputs, backward=backward).items():
        numpy.testing.assert_allclose(results[name], value, rtol=0, atol=2e-5, err_msg=name)
    for name in DIFFERENTIABLE:
        direction = random.normal(size=inputs[name].shape)
        expected = derivative(inputs, grads, name, direction, backward=backward)
        scale = max(1, numpy.abs(results[f"d_{name}"] * direction).sum())
        assert (results[f"d_{name}"] * direction).sum() == pytest.approx(expected, rel=0, abs=2e-5 * scale)
    if sizes[1]:
        assert cuda_on_host.library().last_method() == method


def test_all_is_as_on_the_cpu(method):
    """Also what is behind the ends, gates, and gradients that are left out."""
    inputs, grads = random_case((6, 5, 19), "float32")
    for some in (grads, {"d_h": grads["d_h"]}, {"d_last_h": grads["d_last_h"]}):
        expected, results = run_on_cpu(inputs, some, backward=True), run(inputs, some, backward=True)
        assert expected.keys() == results.keys()
        for name, value in expected.items():
            numpy.testing.assert_allclose(results[name], value, rtol=0, atol=1e-4, err_msg=name)


def test_which_thread_is_first_changes_no_bit(method, monkeypatch):
    inputs, grads = random_case((5, 20, 40), "float32")
    results = []
    for seed in range(4):
        monkeypatch.setenv("RETURNN_CUDA_SEED", str(seed))
        results.append(run(inputs, grads, backward=False))
    for result in results[1:]:
        for name, value in results[0].items():
            numpy.testing.assert_array_equal(result[name], value, err_msg=name)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 5e-3), ("bfloat16", 4e-2)])
def test_half_precision(method, dtype, tolerance):
    """What goes through all frames as a sum, the gradient of the state, has 32 bits."""
    pytest.importorskip("ml_dtypes")  # it makes bfloat16 known to numpy
    inputs, grads = random_case((6, 5, 40), "float32")
    half, half_grads = (
        {k: x.astype(dtype) if x.dtype == "float32" else x for k, x in d.items()} for d in (inputs, grads)
    )
    exact, exact_grads = (
        {k: x.astype("float32") if x.dtype == dtype else x for k, x in d.items()} for d in (half, half_grads)
    )
    results, expected = run(half, half_grads, backward=False), run_on_cpu(exact, exact_grads, backward=False)
    for name, value in results.items():
        assert value.dtype == dtype
        scale = max(1, numpy.abs(expected[name]).max())
        numpy.testing.assert_allclose(value.astype("float32") / scale, expected[name] / scale, rtol=0, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(5, 3, 7), (4, 20, 33)], ids=str)
def test_no_memory_is_used_beyond_arrays(sizes, tmp_path):
    inputs, grads = random_case(sizes, "float32")
    signatures = {name: kernel.signature for name, kernel in cuda_on_host.library().kernels.items()}
    run_sanitized("gru", signatures["gru"], inputs, tmp_path, for_gpu=True, backward=True)
    outputs = cuda_on_host.run("gru", inputs, backward=True)
    values = {**{key: x for key, x in inputs.items() if key != "x"}, **outputs, **grads}
    run_sanitized("gru_grad", signatures["gru_grad"], values, tmp_path, for_gpu=True, backward=True)
