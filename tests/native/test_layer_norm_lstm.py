import numpy
import pytest

from returnn.native.numpy_call import call_kernel
from returnn.util.errors import UserError
from tests.native.kernels import LEVELS, library
from tests.native.lstm_reference import sigmoid
from tests.native.sanitized import run_sanitized

TOLERANCE = {"float32": 1e-4, "float64": 1e-12}
# frames, batch, units: of one vector and less, of several tiles, one sequence
SIZES = [(0, 2, 3), (1, 1, 1), (5, 3, 7), (6, 40, 40), (4, 1, 130)]
OUTPUTS = ("h", "c", "last_h", "last_c")
NORMS = ("gamma_state", "gamma_z", "beta_z", "gamma_c", "beta_c", "gamma_h", "beta_h")
# which normalizations there are, and other options
VARIANTS = {
    "global": ("gamma_state gamma_c beta_c", {}),
    "joined": ("gamma_z beta_z gamma_c beta_c mask", {"backward": True, "cell_norm_in_output": False}),
    "per gate": ("gamma_z beta_z gamma_h beta_h keep", {"per_gate": True}),
    "none": ("mask keep", {"backward": True}),
    "all": ("gamma_state gamma_c gamma_h beta_h mask keep", {"cell_norm_in_output": False}),
}


def normalized(x, gamma, beta, epsilon):
    if gamma is None:
        return x
    centered = x - x.mean(-1, keepdims=True)
    y = centered * ((centered**2).mean(-1, keepdims=True) + epsilon) ** -0.5 * gamma
    return y if beta is None else y + beta


def layer_norm_lstm(inputs, *, backward, per_gate, cell_norm_in_output, epsilon):
    """:return: h and c (T, N, F), 0 behind the ends, and the last ones (N, F). Also of complex numbers"""
    x, weights, lengths = inputs["x"], inputs["weights"], inputs["lengths"]
    gammas = [inputs.get(name) for name in NORMS]
    kind = numpy.result_type(*(value for name, value in inputs.items() if name != "lengths"))
    last_h, last_c = inputs["h0"].astype(kind), inputs["c0"].astype(kind)
    all_h, all_c = (numpy.zeros([len(x), *last_h.shape], kind) for _ in range(2))
    for n, length in enumerate(lengths):
        for t in range(length)[:: -1 if backward else 1]:
            masked = last_h[n] * inputs["mask"][n] if "mask" in inputs else last_h[n]
            z = x[t, n] + normalized(masked @ weights, gammas[0], None, epsilon)
            parts = (4, -1) if per_gate else (1, -1)
            gamma, beta = (None if g is None else g.reshape(parts) for g in gammas[1:3])
            gates = normalized(z.reshape(parts), gamma, beta, epsilon).reshape(4, -1)
            i, f, o = (sigmoid(gates[gate]) for gate in (0, 2, 3))
            j = numpy.tanh(gates[1]) * (inputs["keep"][t, n] if "keep" in inputs else 1)
            raw = f * last_c[n] + i * j
            last_c[n] = all_c[t, n] = normalized(raw, *gammas[3:5], epsilon)
            h = o * numpy.tanh(last_c[n] if cell_norm_in_output else raw)
            last_h[n] = all_h[t, n] = normalized(h, *gammas[5:], epsilon)
    return dict(zip(OUTPUTS, (all_h, all_c, last_h, last_c), strict=True))


def random_case(sizes, dtype, names, *, backward=False, per_gate=False, cell_norm_in_output=True):
    """:return: inputs, gradients of the outputs, and options; behind the ends there is NaN"""
    frames, batch, units = sizes
    random = numpy.random.RandomState(sum(sizes))
    shapes = {
        **{"x": (frames, batch, 4 * units), "weights": (units, 4 * units), "c0": (batch, units), "h0": (batch, units)},
        **{name: (4 * units,) if name[-1] in "ez" else (units,) for name in NORMS if name in names.split()},
        **{"d_h": (frames, batch, units), "d_c": (frames, batch, units)},
        **{"d_last_h": (batch, units), "d_last_c": (batch, units)},
    }
    values = {name: random.normal(size=shape).astype(dtype) for name, shape in shapes.items()}
    if "mask" in names:
        values["mask"] = (random.randint(0, 2, size=(batch, units)) * 2).astype(dtype)
    if "keep" in names:
        values["keep"] = (random.randint(0, 2, size=(frames, batch, units)) * 2).astype(dtype)
    lengths = random.randint(0, frames + 1, size=batch).astype("int32")
    for n, length in enumerate(lengths):
        for name in {"x", "d_h", "d_c", "keep"} & values.keys():
            values[name][length:, n] = numpy.nan
    grads = {name: values.pop(name) for name in list(values) if name.startswith("d_")}
    options = {"backward": backward, "per_gate": per_gate, "cell_norm_in_output": cell_norm_in_output, "epsilon": 0.1}
    return {**values, "lengths": lengths}, grads, options


def run(inputs, grads, options, *, level=None, threads=1):
    """:return: outputs, and gradients of the inputs"""
    kernels = library(level).kernels
    outputs = call_kernel(kernels["layer_norm_lstm"], inputs, threads=threads, **options)
    values = {**inputs, **outputs, **grads}
    return outputs | call_kernel(kernels["layer_norm_lstm_grad"], values, threads=threads, **options)


def derivative(inputs, grads, name, direction, options):
    """:return: of the sum of outputs times their gradients, when the input of this name changes in a direction"""
    values = {key: numpy.nan_to_num(x).astype("float64") if x.dtype.kind == "f" else x for key, x in inputs.items()}
    values[name] = values[name] + 1e-30j * direction
    outputs = layer_norm_lstm(values, **options)
    return sum((outputs[key[2:]] * numpy.nan_to_num(grad)).sum().imag for key, grad in grads.items()) / 1e-30


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("variant", VARIANTS)
def test_values_and_gradients(level, dtype, sizes, variant):
    names, given = VARIANTS[variant]
    inputs, grads, options = random_case(sizes, dtype, names, **given)
    results = run(inputs, grads, options, level=level)
    for name, value in layer_norm_lstm(inputs, **options).items():
        numpy.testing.assert_allclose(results[name], value, rtol=0, atol=TOLERANCE[dtype], err_msg=name)
    behind = numpy.arange(sizes[0])[:, None] >= inputs["lengths"]
    assert not any(results[name][behind].any() for name in ("h", "c", "d_x"))
    for name in inputs.keys() - {"lengths", "mask", "keep"}:
        direction = numpy.random.RandomState(1).normal(size=inputs[name].shape)
        products = results[f"d_{name}"] * direction
        expected = derivative(inputs, grads, name, direction, options)
        tolerance = TOLERANCE[dtype] * max(1, numpy.abs(products).sum())
        assert products.sum() == pytest.approx(expected, rel=0, abs=tolerance), name


@pytest.mark.parametrize("sizes", [(6, 40, 40), (4, 1, 130)], ids=str)
@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize("variant", ["per gate", "all"])
def test_threads_change_no_bit(sizes, threads, variant):
    names, given = VARIANTS[variant]
    case = random_case(sizes, "float32", names, **given)
    one, many = (run(*case, threads=num) for num in (1, threads))
    for name, value in one.items():
        numpy.testing.assert_array_equal(value, many[name], err_msg=name)


def test_gradients_that_are_left_out_are_zero():
    inputs, grads, options = random_case((6, 5, 9), "float64", "gamma_state gamma_c beta_c")
    for left_out in grads:
        some = {name: grad for name, grad in grads.items() if name != left_out}
        with_zero = run(inputs, {**some, left_out: numpy.zeros_like(grads[left_out])}, options)
        for name, value in run(inputs, some, options).items():
            numpy.testing.assert_array_equal(with_zero[name], value, err_msg=f"{name} without {left_out}")


def test_two_normalizations_of_the_product():
    inputs, grads, options = random_case((6, 5, 9), "float32", "gamma_state gamma_z beta_z")
    with pytest.raises(UserError, match=r"^layer_norm_lstm: only one of gamma_state and gamma_z can be given\.$"):
        run(inputs, grads, options)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(5, 3, 7), (4, 35, 33), (0, 2, 3)], ids=str)
@pytest.mark.parametrize("variant", ["joined", "all"])
def test_no_memory_is_used_beyond_arrays(sizes, variant, tmp_path):
    names, given = VARIANTS[variant]
    inputs, grads, options = random_case(sizes, "float32", names, **given)
    kernels, values = library().kernels, {**inputs, **grads, **run(inputs, grads, options)}
    for name in ("layer_norm_lstm", "layer_norm_lstm_grad"):
        run_sanitized(name, kernels[name].signature, values, tmp_path, threads=2, **options)
