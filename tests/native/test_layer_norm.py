"""Layer normalization against float64 numpy, its gradients against finite differences."""

import numpy
import pytest

from returnn.native.numpy_call import call_kernel
from returnn.util.errors import UserError
from tests.native.kernels import LEVELS, library
from tests.native.sanitized import run_sanitized

EPSILON = 1e-3
SIZES = [(0, 5), (1, 1), (3, 2), (31, 7), (33, 16), (70, 35), (200, 129)]


def reference(x, gamma, beta):
    x = x - x.mean(axis=1, keepdims=True)
    return x / numpy.sqrt((x**2).mean(axis=1, keepdims=True) + EPSILON) * gamma + beta


def random_inputs(num, size, dtype="float64", seed=1):
    """:return: inputs of all kernels by name"""
    random = numpy.random.RandomState(seed)
    shapes = {"x": (num, size), "gamma": size, "beta": size, "d_y": (num, size)}
    shapes |= {"d_d_x": (num, size), "d_d_gamma": size, "d_d_beta": size}
    return {name: random.normal(0.5, size=shape).astype(dtype) for name, shape in shapes.items()}


def run(name, inputs, *, level=None, threads=1):
    """:return: outputs by name"""
    kernel = library(level).kernels[name]
    values = {spec.name: inputs[spec.name] for spec in kernel.signature.inputs}
    return call_kernel(kernel, values, threads=threads, epsilon=EPSILON)


def numeric_gradient(function, inputs, name):
    """:return: of function(inputs), a number, by what is called `name`"""
    result = numpy.zeros_like(inputs[name])
    for index in numpy.ndindex(result.shape):
        ends = []
        for step in (1e-5, -1e-5):
            changed = inputs[name].copy()
            changed[index] += step
            ends.append(function({**inputs, name: changed}))
        result[index] = (ends[0] - ends[1]) / 2e-5
    return result


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SIZES)
def test_values(level, dtype, shape):
    inputs = random_inputs(*shape, dtype)
    wide = {name: value.astype("float64") for name, value in inputs.items()}
    tolerance = 1e-4 if dtype == "float32" else 1e-11
    y = run("layer_norm", inputs, level=level)["y"]
    numpy.testing.assert_allclose(y, reference(wide["x"], wide["gamma"], wide["beta"]), rtol=tolerance, atol=tolerance)
    for name in ("layer_norm_grad", "layer_norm_grad_grad"):
        expected = run(name, wide, level="plain")
        for key, value in run(name, inputs, level=level).items():
            scale = max(1.0, abs(expected[key]).max(initial=0.0))
            numpy.testing.assert_allclose(
                value / scale, expected[key] / scale, atol=tolerance, err_msg=f"{name}, {key}"
            )


@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (2, 9), (5, 17)])
def test_gradients(shape):
    inputs = random_inputs(*shape)

    def total(values):
        return (run("layer_norm", values)["y"] * values["d_y"]).sum()

    def total_of_gradients(values):
        results = run("layer_norm_grad", values)
        return sum((results[key] * values[f"d_{key}"]).sum() for key in ("d_x", "d_gamma", "d_beta"))

    for function, kernel, names in (
        (total, "layer_norm_grad", {"d_x": "x", "d_gamma": "gamma", "d_beta": "beta"}),
        (total_of_gradients, "layer_norm_grad_grad", {"d_x": "x", "d_gamma": "gamma", "d_d_y": "d_y"}),
    ):
        results = run(kernel, inputs)
        assert set(results) == set(names)
        for key, name in names.items():
            expected = numeric_gradient(function, inputs, name)
            numpy.testing.assert_allclose(results[key], expected, rtol=1e-5, atol=1e-6, err_msg=f"{kernel}, {key}")


@pytest.mark.parametrize("name", ["layer_norm", "layer_norm_grad", "layer_norm_grad_grad"])
def test_threads_and_strides_change_no_bit(name):
    inputs = random_inputs(700, 100, "float32")
    expected = run(name, inputs)
    wide = {key: numpy.concatenate([x, x], axis=1)[:, :100] if x.ndim == 2 else x for key, x in inputs.items()}
    assert wide["x"].strides != inputs["x"].strides
    for key, value in run(name, wide, threads=3).items():
        numpy.testing.assert_array_equal(value, expected[key], err_msg=key)


def test_padded_frames_give_no_gradient_to_parameters():
    inputs = random_inputs(70, 20)
    inputs["x"][[3, 69]] = numpy.nan
    inputs["d_y"][[3, 69]] = 0
    results = run("layer_norm_grad", inputs)
    inputs["x"][[3, 69]] = 1
    for name, expected in run("layer_norm_grad", inputs).items():
        numpy.testing.assert_array_equal(results[name], expected)
        assert numpy.isfinite(expected).all()


def test_nan_stays_in_its_row():
    inputs = random_inputs(5, 20)
    inputs["x"][3, 4] = numpy.nan
    y = run("layer_norm", inputs)["y"]
    assert numpy.isnan(y).any(axis=1).tolist() == [False, False, False, True, False]


def test_wrong_shapes():
    inputs = random_inputs(3, 4)
    with pytest.raises(UserError, match=r"gamma has the shape"):
        run("layer_norm", {**inputs, "gamma": inputs["gamma"][:3]})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["layer_norm", "layer_norm_grad", "layer_norm_grad_grad"])
@pytest.mark.parametrize("shape", [(0, 3), (40, 13)])
def test_no_memory_is_used_beyond_arrays(name, shape, tmp_path):
    signature = library().kernels[name].signature
    inputs = random_inputs(*shape, "float32")
    values = {spec.name: inputs[spec.name] for spec in signature.inputs}
    run_sanitized(name, signature, values, tmp_path, threads=2, epsilon=EPSILON)
