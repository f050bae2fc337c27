"""The pointwise part of the LSTM against numpy, its gradients against derivatives by complex numbers."""

import numpy
import pytest

from returnn.native.numpy_call import call_kernel
from returnn.util.errors import UserError
from tests.native.kernels import LEVELS, library
from tests.native.lstm_reference import sigmoid
from tests.native.sanitized import run_sanitized

TOLERANCE = {"float32": 2e-5, "float64": 1e-12}
SIZES = [(0, 3), (1, 1), (3, 7), (70, 40), (2, 130), (130, 70)]


def lstm_step(*, z, c_before, peepholes=None, bias=0.0, i_first=False):
    """:return: h and c, (N, F) each. Also of complex numbers"""
    p_i, p_f, p_o = numpy.zeros([3, c_before.shape[1]]) if peepholes is None else peepholes
    first, second, z_f, z_o = numpy.split(z + bias, 4, axis=1)
    z_j, z_i = (second, first) if i_first else (first, second)
    c = sigmoid(z_f + p_f * c_before) * c_before + sigmoid(z_i + p_i * c_before) * numpy.tanh(z_j)
    return {"h": sigmoid(z_o + p_o * c) * numpy.tanh(c), "c": c}


def random_case(sizes, dtype, *, more):
    """:return: inputs, and gradients of the outputs"""
    num, units = sizes
    random = numpy.random.RandomState(sum(sizes))
    shapes = {"z": (num, 4 * units), "c_before": (num, units)}
    if more:
        shapes |= {"peepholes": (3, units), "bias": (4 * units,)}
    inputs = {name: random.normal(size=shape).astype(dtype) for name, shape in shapes.items()}
    return inputs, {f"d_{name}": random.normal(size=(num, units)).astype(dtype) for name in ("h", "c")}


def run(inputs, grads, *, level=None, threads=1, i_first=False):
    """:return: outputs, and gradients of the inputs"""
    kernels = library(level).kernels
    outputs = call_kernel(kernels["lstm_step"], inputs, threads=threads, i_first=i_first)
    values = {**inputs, "c": outputs["c"], **grads}
    return outputs | call_kernel(kernels["lstm_step_grad"], values, threads=threads, i_first=i_first)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("options", [(False, False), (True, True)], ids=["", "peepholes, bias, i first"])
def test_values_and_gradients(level, dtype, sizes, options):
    more, i_first = options
    inputs, grads = random_case(sizes, dtype, more=more)
    results = run(inputs, grads, level=level, i_first=i_first)
    for name, value in lstm_step(**inputs, i_first=i_first).items():
        numpy.testing.assert_allclose(results[name], value, rtol=0, atol=TOLERANCE[dtype], err_msg=name)
    for name, value in inputs.items():
        direction = numpy.random.RandomState(1).normal(size=value.shape)
        values = {key: x.astype("float64") for key, x in inputs.items()}
        outputs = lstm_step(**{**values, name: values[name] + 1e-30j * direction}, i_first=i_first)
        expected = sum((outputs[key[2:]].imag * grad).sum() for key, grad in grads.items()) / 1e-30
        products = results[f"d_{name}"] * direction
        tolerance = TOLERANCE[dtype] * max(1, abs(products).sum())
        assert products.sum() == pytest.approx(expected, rel=0, abs=tolerance), name


def test_threads_change_no_bit():
    inputs, grads = random_case((130, 300), "float32", more=True)
    expected = run(inputs, grads)
    for name, value in run(inputs, grads, threads=3).items():
        numpy.testing.assert_array_equal(value, expected[name], err_msg=name)


def test_gradients_that_are_left_out_are_zero():
    inputs, grads = random_case((3, 7), "float64", more=True)
    zeros = numpy.zeros_like(grads["d_h"])
    for name in grads:
        expected = run(inputs, {**grads, name: zeros})
        for key, value in run(inputs, {key: x for key, x in grads.items() if key != name}).items():
            numpy.testing.assert_array_equal(value, expected[key], err_msg=key)


def test_nan_stays_in_its_sequence():
    inputs, grads = random_case((3, 9), "float32", more=False)
    expected = run(inputs, grads)
    inputs["z"][1] = inputs["c_before"][1] = numpy.nan
    results = run(inputs, grads)
    for name in ("h", "c", "d_z", "d_c_before"):
        numpy.testing.assert_array_equal(results[name][::2], expected[name][::2], err_msg=name)
        assert numpy.isnan(results[name][1]).all(), name


def test_wrong_shapes():
    inputs, grads = random_case((3, 9), "float32", more=False)
    with pytest.raises(UserError, match="c_before has the shape"):
        run({**inputs, "c_before": inputs["c_before"][:, 1:]}, grads)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(0, 3), (3, 7), (2, 130)], ids=str)
def test_no_memory_is_used_beyond_arrays(sizes, tmp_path):
    inputs, grads = random_case(sizes, "float32", more=True)
    kernels = library().kernels
    run_sanitized("lstm_step", kernels["lstm_step"].signature, inputs, tmp_path, threads=2, i_first=True)
    values = {**inputs, "c": run(inputs, grads, i_first=True)["c"], **grads}
    run_sanitized("lstm_step_grad", kernels["lstm_step_grad"].signature, values, tmp_path, threads=2, i_first=True)
