import numpy
import pytest

from returnn.native.numpy_call import call_kernel
from returnn.util.errors import UserError
from tests.native import alignment_reference as reference
from tests.native.kernels import LEVELS, library
from tests.native.sanitized import run_sanitized

TOLERANCE = {"float32": 2e-5, "float64": 1e-11}
# batch, frames, labels, classes: without frames, without labels, one of each, more labels than a vector
SIZES = [(2, 0, 2, 3), (3, 4, 0, 2), (1, 1, 1, 2), (5, 6, 4, 5), (2, 3, 11, 40), (0, 3, 2, 4)]


def random_case(sizes, dtype):
    """:return: inputs; behind the ends there is NaN, and labels that are none"""
    batch, num_frames, num_labels, classes = sizes
    random = numpy.random.RandomState(sum(sizes))
    inputs = {
        "logits": random.normal(size=(batch, num_frames, num_labels + 1, classes), scale=2).astype(dtype),
        "labels": random.randint(1, classes, size=(batch, num_labels)).astype("int32"),
        "num_frames": random.randint(0, num_frames + 1, size=batch).astype("int32"),
        "num_labels": random.randint(0, num_labels + 1, size=batch).astype("int32"),
    }
    for n in range(batch):
        inputs["logits"][n, inputs["num_frames"][n] :] = numpy.nan
        inputs["logits"][n, :, inputs["num_labels"][n] + 1 :] = numpy.nan
        inputs["labels"][n, inputs["num_labels"][n] :] = -7
    return inputs


def losses(inputs, monotonic):
    found = []
    for x, labels, t, u in zip(*(inputs[key] for key in ("logits", "labels", "num_frames", "num_labels")), strict=True):
        x = x[:t, : u + 1].astype(complex if x.dtype.kind == "c" else float)
        log_probs = reference.log_softmax(x) if t else x
        found.append(-reference.transducer(log_probs, labels[:u], 0, monotonic=monotonic))
    return numpy.array(found)


def run(inputs, *, level=None, threads=1, monotonic):
    """:return: all results, and the gradient for random gradients of the losses"""
    kernels, options = library(level).kernels, {"blank": 0, "monotonic": monotonic}
    results = call_kernel(kernels["transducer_loss"], inputs, threads=threads, **options)
    d_loss = numpy.random.RandomState(3).normal(size=results["loss"].shape).astype(inputs["logits"].dtype)
    values = {**inputs, **results, "d_loss": d_loss}
    return {**values, **call_kernel(kernels["transducer_loss_grad"], values, threads=threads, **options)}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("monotonic", [False, True])
def test_values_and_gradients(level, dtype, sizes, monotonic):
    inputs = random_case(sizes, dtype)
    results = run(inputs, level=level, monotonic=monotonic)
    expected = losses(inputs, monotonic)
    numpy.testing.assert_allclose(results["loss"], expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    direction = numpy.random.RandomState(2).normal(size=inputs["logits"].shape)
    moved = losses({**inputs, "logits": inputs["logits"] + 1e-30j * direction}, monotonic)
    derivative = numpy.where(numpy.isfinite(expected), numpy.imag(moved) / 1e-30, 0.0) @ results["d_loss"]
    products = results["d_logits"] * direction
    assert products.sum() == pytest.approx(derivative, rel=0, abs=TOLERANCE[dtype] * max(1, abs(products).sum()))


@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize("monotonic", [False, True])
def test_threads_change_no_bit(threads, monotonic):
    inputs = random_case((7, 9, 5, 30), "float32")
    one, many = (run(inputs, threads=num, monotonic=monotonic) for num in (1, threads))
    for name, value in one.items():
        numpy.testing.assert_array_equal(value, many[name], err_msg=name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": numpy.zeros([2, 2], "int32")}, r"labels has the shape \(2, 2\), but \[B, U\] is expected, with .*"),
        ({"num_frames": numpy.array([4, 6], "int32")}, "a number of frames is below 0, or above that of the logits"),
        ({"num_labels": numpy.array([4, 2], "int32")}, "a number of labels is below 0, or above that of the labels"),
        ({"labels": numpy.full([2, 3], 6, "int32")}, "a label is not one of the classes"),
    ],
)  # fmt: skip
def test_wrong_inputs(change, message):
    inputs = {"logits": numpy.zeros([2, 5, 4, 6], "float32"), "labels": numpy.zeros([2, 3], "int32")}
    inputs |= {"num_frames": numpy.array([5, 3], "int32"), "num_labels": numpy.array([2, 3], "int32"), **change}
    with pytest.raises(UserError, match=f"^transducer_loss: {message}"):
        call_kernel(library().kernels["transducer_loss"], inputs, blank=0, monotonic=False)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(5, 6, 4, 5), (2, 0, 2, 3), (2, 3, 11, 19)], ids=str)
@pytest.mark.parametrize("monotonic", [False, True])
def test_no_memory_is_used_beyond_arrays(sizes, monotonic, tmp_path):
    results = run(random_case(sizes, "float32"), monotonic=monotonic)
    for name in ("transducer_loss", "transducer_loss_grad"):
        signature = library().kernels[name].signature
        run_sanitized(name, signature, results, tmp_path, threads=2, blank=0, monotonic=monotonic)
