import itertools

import numpy
import pytest

from returnn.native.numpy_call import call_kernel
from returnn.util.errors import UserError
from tests.native import alignment_reference as reference
from tests.native.kernels import LEVELS, library
from tests.native.sanitized import run_sanitized

TOLERANCE = {"float32": 2e-5, "float64": 1e-11}
# frames, batch, classes, labels: without frames, one of each, many classes, more labels than fit
SIZES = [(0, 2, 3, 2), (1, 1, 2, 1), (1, 3, 2, 0), (7, 5, 4, 3), (20, 3, 70, 5), (3, 6, 4, 4), (5, 0, 3, 2)]
OPTIONS = [
    {"label_loop": loop, "normalized": normalized, "time_major": time_major}
    for loop, normalized, time_major in itertools.product([False, True], repeat=3)
]


def random_case(sizes, dtype, *, time_major, normalized, seed=1, **_):
    """:return: inputs; behind the ends there is NaN, and labels that are none"""
    num_frames, batch, classes, num_labels = sizes
    random = numpy.random.RandomState(seed + sum(sizes))
    logits = random.normal(size=(num_frames, batch, classes), scale=2)
    logits = (reference.log_softmax(logits) if normalized and logits.size else logits).astype(dtype)
    frames = random.randint(0, num_frames + 1, size=batch).astype("int32")
    labels = random.randint(0, num_labels + 1, size=batch).astype("int32")
    targets = random.randint(0, classes - 1, size=(batch, num_labels)).astype("int32")
    for n in range(batch):
        logits[frames[n] :, n] = numpy.nan
        targets[n, labels[n] :] = -7
    logits = logits if time_major else numpy.ascontiguousarray(logits.transpose(1, 0, 2))
    return {"logits": logits, "targets": targets, "num_frames": frames, "num_labels": labels}


def sequences(inputs, *, time_major, normalized, **_):
    """:return: log probabilities (T, C) and labels of each sequence"""
    logits = inputs["logits"].transpose(1, 0, 2) if time_major else inputs["logits"]
    for x, labels, t, s in zip(logits, *(inputs[key] for key in ("targets", "num_frames", "num_labels")), strict=True):
        x = x[:t].astype(complex if x.dtype.kind == "c" else float)
        yield x if normalized or not t else reference.log_softmax(x), list(labels[:s])


def losses(inputs, *, label_loop, combine=reference.log_sum, **options):
    blank = inputs["logits"].shape[2] - 1
    found = sequences(inputs, **options)
    return numpy.array(
        [-reference.ctc(x, labels, blank, label_loop=label_loop, combine=combine) for x, labels in found]
    )


def run(inputs, *, level=None, threads=1, max_approx=False, **options):
    """:return: all results, and the gradient for random gradients of the losses"""
    kernels, options = library(level).kernels, {**options, "blank": inputs["logits"].shape[2] - 1}
    results = call_kernel(kernels["ctc_loss"], inputs, threads=threads, max_approx=max_approx, **options)
    d_loss = numpy.random.RandomState(3).normal(size=results["loss"].shape).astype(inputs["logits"].dtype)
    values = {**inputs, **results, "d_loss": d_loss}
    return {**values, **call_kernel(kernels["ctc_loss_grad"], values, threads=threads, **options)}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_values_and_gradients(level, dtype, sizes):
    for options in OPTIONS:
        inputs = random_case(sizes, dtype, **options)
        results = run(inputs, level=level, **options)
        expected = losses(inputs, **options)
        numpy.testing.assert_allclose(results["loss"], expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
        direction = numpy.random.RandomState(2).normal(size=inputs["logits"].shape)
        moved = losses({**inputs, "logits": inputs["logits"] + 1e-30j * direction}, **options)
        derivative = numpy.where(numpy.isfinite(expected), numpy.imag(moved) / 1e-30, 0.0) @ results["d_loss"]
        products = results["d_logits"] * direction
        assert products.sum() == pytest.approx(derivative, rel=0, abs=TOLERANCE[dtype] * max(1, abs(products).sum()))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_best_path(dtype, sizes):
    for options in OPTIONS:
        inputs = random_case(sizes, dtype, **options)
        results = run(inputs, max_approx=True, **options)
        expected = losses(inputs, combine=reference.largest, **options)
        numpy.testing.assert_allclose(results["loss"], expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
        blank = inputs["logits"].shape[2] - 1
        found = call_kernel(library().kernels["ctc_best_path"], inputs, blank=blank, **options)
        numpy.testing.assert_array_equal(found["score"], -results["loss"])
        paths = found["path"].T if options["time_major"] else found["path"]
        occupied = results["occupied"] if options["time_major"] else results["occupied"].transpose(1, 0, 2)
        for n, (scores, labels) in enumerate(sequences(inputs, **options)):
            assert not paths[n, len(scores) :].any()
            if numpy.isinf(expected[n]):
                assert (paths[n, : len(scores)] == blank).all()
                continue
            path = paths[n, : len(scores)]
            assert scores[numpy.arange(len(path)), path].sum() == pytest.approx(-expected[n], abs=1e-4)
            kept = [x for i, x in enumerate(path) if not (options["label_loop"] and i and x == path[i - 1])]
            assert [x for x in kept if x != blank] == labels
            states = [blank, *(x for label in labels for x in (label, blank))]
            assert [states[s] for s in occupied[: len(path), n].argmax(axis=1)] == path.tolist()
            assert (occupied[: len(path), n].sum(axis=1) == 1).all()


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_change_no_bit(threads):
    for options in OPTIONS:
        inputs = random_case((23, 9, 33, 5), "float32", **options)
        one, many = (run(inputs, threads=num, **options) for num in (1, threads))
        for name, value in one.items():
            numpy.testing.assert_array_equal(value, many[name], err_msg=name)


def test_long_sequences_keep_their_gradient():
    """Log probabilities of thousands would leave three digits to float32."""
    options = {"label_loop": True, "normalized": False, "time_major": True}
    random = numpy.random.RandomState(1)
    logits = random.normal(size=(2000, 1, 50)).astype("float32")
    inputs = {"logits": logits, "targets": random.randint(0, 49, size=(1, 40)).astype("int32")}
    inputs |= {"num_frames": numpy.array([2000], "int32"), "num_labels": numpy.array([40], "int32")}
    single, double = (run({**inputs, "logits": logits.astype(dtype)}, **options) for dtype in TOLERANCE)
    numpy.testing.assert_allclose(single["occupied"], double["occupied"], atol=1e-5)
    numpy.testing.assert_allclose(single["occupied"].sum(axis=-1), 1, atol=1e-5)


def test_what_is_not_finite():
    """Log probabilities of 0 close a path; NaN in a frame is seen."""
    options = {"label_loop": True, "normalized": True, "time_major": False}
    with numpy.errstate(divide="ignore"):
        logits = numpy.log(numpy.array([[[0.0, 0.0, 1.0], [0.5, 0.0, 0.5]], [[numpy.nan] * 3] * 2]))
    inputs = {"logits": logits, "targets": numpy.array([[0], [0]], "int32")}
    inputs |= {"num_frames": numpy.array([2, 2], "int32"), "num_labels": numpy.array([1, 1], "int32")}
    results = run(inputs, **options)
    numpy.testing.assert_allclose(results["loss"], [numpy.log(2), numpy.nan])
    assert numpy.isnan(results["d_logits"][1]).any()
    inputs["targets"][0] = 1
    assert run(inputs, **options)["loss"][0] == numpy.inf


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"logits": numpy.zeros([4, 2], "float32")}, r"logits has the shape \(4, 2\), but \[M, N, C\] is expected"),
        ({"num_labels": numpy.zeros([3], "int32")}, r"num_labels has the shape \(3,\), but \[B\] is expected, with .*"),
        ({"logits": numpy.zeros([4, 3, 5], "float32")}, "logits and targets have different numbers of sequences"),
        ({"num_frames": numpy.array([4, 5], "int32")}, "a number of frames is below 0, or above that of the logits"),
        ({"num_labels": numpy.array([-1, 2], "int32")}, "a number of labels is below 0, or above that of the targets"),
        ({"targets": numpy.array([[0, 1], [1, 5]], "int32")}, "a label is not one of the classes"),
        ({"targets": numpy.zeros([2, 2], "int64")}, "targets has the type int64, but int32 is expected"),
    ],
)  # fmt: skip
def test_wrong_inputs(change, message):
    inputs = {"logits": numpy.zeros([4, 2, 5], "float32"), "targets": numpy.zeros([2, 2], "int32")}
    inputs |= {"num_frames": numpy.array([4, 3], "int32"), "num_labels": numpy.array([2, 2], "int32"), **change}
    options = {"label_loop": True, "normalized": False, "time_major": True, "max_approx": False}
    with pytest.raises(UserError, match=f"^ctc_loss: {message}"):
        call_kernel(library().kernels["ctc_loss"], inputs, blank=4, **options)


@pytest.mark.parametrize("blank", [-1, 5])
def test_wrong_blank(blank):
    inputs = random_case((3, 2, 5, 2), "float32", time_major=True, normalized=False)
    options = {"label_loop": True, "normalized": False, "time_major": True}
    with pytest.raises(UserError, match=r"^ctc_best_path: blank is not one of the classes\.$"):
        call_kernel(library().kernels["ctc_best_path"], inputs, blank=blank, **options)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(7, 5, 4, 3), (0, 2, 3, 2), (9, 2, 19, 4)], ids=str)
def test_no_memory_is_used_beyond_arrays(sizes, tmp_path):
    options = {"label_loop": True, "normalized": False, "time_major": False}
    inputs = random_case(sizes, "float32", **options)
    results = run(inputs, **options)
    options["blank"] = sizes[2] - 1
    for name in ("ctc_loss", "ctc_loss_grad", "ctc_best_path"):
        signature = library().kernels[name].signature
        run_sanitized(name, signature, results, tmp_path, threads=2, max_approx=False, **options)
