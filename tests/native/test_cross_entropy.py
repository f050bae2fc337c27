"""Cross entropy against float64 numpy, its gradients against finite differences."""

import numpy
import pytest
import tensorflow as tf

from returnn.native.numpy_call import call_kernel
from returnn.tf.frontend_low_level.kernels.cross_entropy import native_cross_entropy
from returnn.util.errors import UserError
from tests.native.kernels import LEVELS, library
from tests.native.sanitized import run_sanitized

NAMES = ["cross_entropy", "cross_entropy_grad", "cross_entropy_grad_grad"]
SIZES = [(0, 5), (1, 1), (3, 2), (31, 7), (33, 16), (70, 35), (20, 1029)]
PROBS = [(1.0, 0.0), (0.9, 0.02)]  # of the label, and of each other class


def random_inputs(num, classes, dtype="float64", seed=1):
    """:return: inputs of all kernels by name"""
    random = numpy.random.RandomState(seed)
    shapes = {"logits": (num, classes), "d_losses": num, "d_d_logits": (num, classes)}
    values = {name: random.normal(0.5, 2.0, size=shape).astype(dtype) for name, shape in shapes.items()}
    return {**values, "labels": random.randint(0, classes, num).astype("int32")}


def reference(inputs, probs):
    """:return: losses"""
    x = inputs["logits"].astype("float64")
    shifted = x - x.max(axis=1, keepdims=True)
    log_prob = shifted - numpy.log(numpy.exp(shifted).sum(axis=1, keepdims=True))
    is_label = numpy.arange(x.shape[1]) == inputs["labels"][:, None]
    return -(numpy.where(is_label, *probs) * log_prob).sum(axis=1)


def run(name, inputs, probs=PROBS[1], *, level=None, threads=1):
    """:return: outputs by name"""
    kernel = library(level).kernels[name]
    values = {spec.name: inputs[spec.name] for spec in kernel.signature.inputs}
    return call_kernel(kernel, values, threads=threads, label_prob=probs[0], other_prob=probs[1])


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
@pytest.mark.parametrize("probs", PROBS)
@pytest.mark.parametrize("shape", SIZES)
def test_values(level, dtype, probs, shape):
    inputs = random_inputs(*shape, dtype)
    wide = {name: value if value.dtype == "int32" else value.astype("float64") for name, value in inputs.items()}
    tolerance = 3e-5 if dtype == "float32" else 1e-11
    losses = run("cross_entropy", inputs, probs, level=level)["losses"]
    numpy.testing.assert_allclose(losses, reference(wide, probs), rtol=tolerance, atol=tolerance)
    for name in NAMES[1:]:
        expected = run(name, wide, probs, level="plain")
        for key, value in run(name, inputs, probs, level=level).items():
            scale = max(1.0, abs(expected[key]).max(initial=0.0))
            numpy.testing.assert_allclose(
                value / scale, expected[key] / scale, atol=tolerance, err_msg=f"{name}, {key}"
            )


@pytest.mark.parametrize("probs", [*PROBS, (0.7, 0.7)])
@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (2, 9), (4, 17)])
def test_gradients(probs, shape):
    inputs = random_inputs(*shape)

    def total(values):
        return (reference(values, probs) * values["d_losses"]).sum()

    def total_of_gradients(values):
        return (run("cross_entropy_grad", values, probs)["d_logits"] * values["d_d_logits"]).sum()

    for function, kernel, names in (
        (total, "cross_entropy_grad", {"d_logits": "logits"}),
        (total_of_gradients, "cross_entropy_grad_grad", {"d_logits": "logits", "d_d_losses": "d_losses"}),
    ):
        results = run(kernel, inputs, probs)
        assert set(results) == set(names)
        for key, name in names.items():
            expected = numeric_gradient(function, inputs, name)
            numpy.testing.assert_allclose(results[key], expected, rtol=1e-5, atol=1e-6, err_msg=f"{kernel}, {key}")


@pytest.mark.parametrize("name", NAMES)
def test_threads_and_strides_change_no_bit(name):
    inputs = random_inputs(700, 100, "float32")
    expected = run(name, inputs)
    wide = {key: numpy.concatenate([x, x], axis=1)[:, :100] if x.ndim == 2 else x for key, x in inputs.items()}
    assert wide["logits"].strides != inputs["logits"].strides
    for key, value in run(name, wide, threads=3).items():
        numpy.testing.assert_array_equal(value, expected[key], err_msg=key)


def test_padded_frames_get_no_gradient():
    inputs = random_inputs(70, 20)
    inputs["logits"][[3, 69]] = numpy.nan
    inputs["d_losses"][[3, 69]] = 0
    inputs["d_d_logits"][[3, 69]] = 0
    assert numpy.isnan(run("cross_entropy", inputs)["losses"]).nonzero()[0].tolist() == [3, 69]
    for name in NAMES[1:]:
        d_logits = run(name, inputs)["d_logits"]
        assert (d_logits[[3, 69]] == 0).all()
        assert numpy.isfinite(d_logits).all()


def test_classes_that_are_excluded():
    inputs = random_inputs(4, 20, "float32")
    inputs["labels"][:] = 2
    inputs["logits"][:, 5:] = -numpy.inf
    losses, d_logits = (run(name, inputs, PROBS[0]) for name in NAMES[:2])
    inputs["logits"] = inputs["logits"][:, :5]
    numpy.testing.assert_allclose(losses["losses"], run("cross_entropy", inputs, PROBS[0])["losses"], rtol=1e-6)
    assert (d_logits["d_logits"][:, 5:] == 0).all()


@pytest.mark.parametrize("label", [-1, 4])
def test_wrong_labels(label):
    inputs = random_inputs(3, 4)
    inputs["labels"][1] = label
    for name in NAMES:
        with pytest.raises(UserError, match=r"a label is below 0, or not below the number of classes"):
            run(name, inputs)


def test_wrong_shapes():
    inputs = random_inputs(3, 4)
    with pytest.raises(UserError, match=r"labels has the shape"):
        run("cross_entropy", {**inputs, "labels": inputs["labels"][:2]})


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(0, 3), (40, 13)])
def test_no_memory_is_used_beyond_arrays(name, shape, tmp_path):
    signature = library().kernels[name].signature
    inputs = random_inputs(*shape, "float32")
    values = {spec.name: inputs[spec.name] for spec in signature.inputs}
    run_sanitized(name, signature, values, tmp_path, threads=2, label_prob=0.9, other_prob=0.1)


def test_probabilities_of_double_precision_are_not_rounded():
    with tf.Graph().as_default():
        logits, labels = tf.zeros([2, 3], tf.float64), tf.zeros([2], tf.int32)
        assert native_cross_entropy(logits, labels, label_prob=0.9, other_prob=0.05) is None
