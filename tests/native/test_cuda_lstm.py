"""The LSTM for GPUs, on the CPU: `cuda_on_host`."""

import numpy
import pytest

from tests.native import cuda_on_host, kernels, lstm_reference
from tests.native.sanitized import run_sanitized
from tests.native.test_lstm import run as run_on_cpu
from tests.native.test_lstm import run_grad as run_grad_on_cpu

METHODS = ("stepwise", "persistent")
# frames, batch, units: nothing; a panel and less; several chunks; several groups; several panels in a block
SIZES = [(0, 2, 3), (3, 0, 3), (1, 1, 1), (5, 3, 7), (4, 1, 70), (6, 37, 20), (3, 2, 130)]
STATES = ("c0", "c", "last_c", "d_c", "d_last_c")  # float32, also where others have 16 bits


@pytest.fixture(params=METHODS)
def method(request):
    library = cuda_on_host.library()
    library.set_method(1, 1, request.param)
    yield request.param
    library.clear_methods()


def random_case(sizes, dtype="float32", *, peepholes=False):
    random = numpy.random.RandomState(sum(sizes))
    frames, batch, units = sizes
    shape = {"frames": frames, "batch": batch, "units": units}
    inputs = lstm_reference.random_inputs(random, "float32", **shape, peepholes=peepholes)
    return random, rounded(inputs, dtype)


def rounded(arrays, dtype):
    return {name: x.astype(dtype) if x.dtype == "float32" and name not in STATES else x for name, x in arrays.items()}


def run_grad(inputs, outputs, grads, **options):
    values = {**{key: x for key, x in inputs.items() if key != "x"}, **outputs, **grads}
    return cuda_on_host.run("lstm_grad", values, **options)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("options", [(False, False), (True, False), (False, True)], ids=["", "backward", "peepholes"])
def test_values_and_gradients(method, sizes, options):
    backward, peepholes = options
    random, inputs = random_case(sizes, peepholes=peepholes)
    outputs = cuda_on_host.run("lstm", inputs, backward=backward)
    for name, value in lstm_reference.lstm(**inputs, backward=backward).items():
        numpy.testing.assert_allclose(outputs[name], value, rtol=0, atol=2e-5, err_msg=name)
    grads = lstm_reference.random_gradients(random, outputs, inputs["lengths"])
    results = run_grad(inputs, outputs, grads, backward=backward)
    for name in ("x", "weights", "c0", "h0", *(["peepholes"] if peepholes else [])):
        direction = random.normal(size=inputs[name].shape)
        expected = lstm_reference.derivative(inputs, grads, name, direction, backward=backward)
        scale = max(1, numpy.abs(results[f"d_{name}"] * direction).sum())
        assert (results[f"d_{name}"] * direction).sum() == pytest.approx(expected, rel=0, abs=2e-5 * scale)
    if sizes[1]:
        assert cuda_on_host.library().last_method() == method


@pytest.mark.parametrize("backward", [False, True])
def test_all_is_as_on_the_cpu(method, backward):
    """Also what is behind the ends, gates, gradients that are left out, and weights with a mask."""
    random, inputs = random_case((6, 5, 19), peepholes=True)
    inputs["mask"] = random.randint(0, 2, size=inputs["weights"].shape).astype("uint8")
    expected = run_on_cpu(inputs, backward=backward)
    outputs = cuda_on_host.run("lstm", inputs, backward=backward)
    grads = lstm_reference.random_gradients(random, outputs, inputs["lengths"])
    for some in (grads, {"d_h": grads["d_h"]}, {"d_last_c": grads["d_last_c"]}):
        expected |= run_grad_on_cpu(inputs, outputs, some, backward=backward)
        outputs |= run_grad(inputs, {key: outputs[key] for key in expected if key in outputs}, some, backward=backward)
        for name, value in expected.items():
            numpy.testing.assert_allclose(outputs[name], value, rtol=0, atol=1e-4, err_msg=name)
    behind = numpy.arange(6)[:, None] >= inputs["lengths"]
    for name in ("h", "c", "gates", "d_x"):
        assert not outputs[name][behind].any(), name


def test_which_thread_is_first_changes_no_bit(method, monkeypatch):
    """A kernel that does not wait where it has to computes something else when its threads run in another order."""
    _, inputs = random_case((5, 20, 40), peepholes=True)
    results = []
    for seed in range(4):
        monkeypatch.setenv("RETURNN_CUDA_SEED", str(seed))
        outputs = cuda_on_host.run("lstm", inputs, backward=False)
        grads = lstm_reference.random_gradients(numpy.random.RandomState(1), outputs, inputs["lengths"])
        results.append(outputs | run_grad(inputs, outputs, grads, backward=False))
    for result in results[1:]:
        for name, value in results[0].items():
            numpy.testing.assert_array_equal(result[name], value, err_msg=name)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 3e-3), ("bfloat16", 2e-2)])
def test_half_precision(method, dtype, tolerance):
    """Only what is in memory has 16 bits; the cell has 32."""
    pytest.importorskip("ml_dtypes")  # it makes bfloat16 known to numpy
    random, inputs = random_case((6, 5, 40), dtype)
    exact = {name: x.astype("float32") if x.dtype == dtype else x for name, x in inputs.items()}
    outputs, expected = cuda_on_host.run("lstm", inputs, backward=False), run_on_cpu(exact, backward=False)
    assert outputs["c"].dtype == outputs["last_c"].dtype == "float32"
    assert outputs["h"].dtype == outputs["gates"].dtype == dtype
    grads = lstm_reference.random_gradients(random, expected, inputs["lengths"])
    results = run_grad(inputs, outputs, rounded(grads, dtype), backward=False)
    expected |= run_grad_on_cpu(exact, expected, grads, backward=False)
    assert results["d_c0"].dtype == "float32"
    for name, value in (outputs | results).items():
        scale = max(1, numpy.abs(expected[name]).max())
        numpy.testing.assert_allclose(value.astype("float32") / scale, expected[name] / scale, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rounding_is_that_of_numpy(dtype):
    """With open gates and a new value of 0, `h` is the tanh of the cell before, rounded."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    bits = numpy.random.RandomState(1).randint(0, 2**32, size=1000, dtype="uint64").astype("uint32").view("float32")
    values = numpy.concatenate([bits[numpy.isfinite(bits)], [0, -0.0, 1e-7, 6e-8, 3e-8, 65519, 65520, 1e30]])
    cells = values.astype("float32")[:, None]
    num = len(cells)
    inputs = {"x": numpy.full([1, num, 4], 60), "weights": numpy.zeros([1, 4]), "h0": numpy.zeros([num, 1])}
    inputs["x"][..., 0] = 0  # the new value
    inputs = {name: x.astype(dtype) for name, x in inputs.items()}
    inputs |= {"c0": cells, "lengths": numpy.ones([num], "int32")}
    outputs = cuda_on_host.run("lstm", inputs, backward=False)
    numpy.testing.assert_array_equal(outputs["c"][0], cells)
    assert ml_dtypes.finfo(dtype).bits == 16
    expected = numpy.tanh(cells.astype("float64"))
    distance = numpy.abs(outputs["h"][0].astype("float64") - expected)
    assert (distance <= 0.5001 * numpy.spacing(numpy.abs(expected).astype(dtype)).astype("float64")).all()


def test_frames_can_lie_in_any_order(method):
    _, inputs = random_case((6, 5, 9))
    batch_major = numpy.ascontiguousarray(inputs["x"].swapaxes(0, 1))
    views = {**inputs, "x": batch_major.swapaxes(0, 1)}
    expected, outputs = (cuda_on_host.run("lstm", values, backward=True) for values in (inputs, views))
    for name, value in expected.items():
        numpy.testing.assert_array_equal(outputs[name], value, err_msg=name)


def test_lengths_that_are_not_possible_are_the_nearest_ones():
    _, inputs = random_case((6, 3, 4))
    inputs["x"] = numpy.nan_to_num(inputs["x"])
    wrong, right = (cuda_on_host.run("lstm", {**inputs, "lengths": numpy.array(lengths, "int32")}, backward=False)
                    for lengths in ([-2, 9, 3], [0, 6, 3]))  # fmt: skip
    for name, value in right.items():
        numpy.testing.assert_array_equal(wrong[name], value, err_msg=name)


def test_signatures_are_those_of_the_cpu():
    for name, kernel in cuda_on_host.library().kernels.items():
        assert kernel.signature == kernels.library().kernels[name].signature


def test_kernels_run_here():
    assert cuda_on_host.library().device_error() is None


def test_float64_is_not_possible():
    _, inputs = random_case((2, 2, 2))
    with pytest.raises(ValueError, match=r"^lstm: on a GPU, only float32, bfloat16 and float16 are possible\.$"):
        cuda_on_host.run("lstm", {k: x.astype("float64") if x.dtype.kind == "f" else x for k, x in inputs.items()},
                         backward=False)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(5, 3, 7), (0, 2, 3), (4, 20, 33), (3, 2, 70)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_no_memory_is_used_beyond_arrays(sizes, dtype, tmp_path):
    random, inputs = random_case(sizes, dtype, peepholes=True)
    signatures = {name: kernel.signature for name, kernel in cuda_on_host.library().kernels.items()}
    run_sanitized("lstm", signatures["lstm"], inputs, tmp_path, for_gpu=True, backward=True)
    outputs = cuda_on_host.run("lstm", inputs, backward=True)
    grads = rounded(lstm_reference.random_gradients(random, outputs, inputs["lengths"]), dtype)
    values = {**{key: x for key, x in inputs.items() if key != "x"}, **outputs, **grads}
    run_sanitized("lstm_grad", signatures["lstm_grad"], values, tmp_path, for_gpu=True, backward=True)
