"""LSTM in numpy, frame by frame. It also takes complex numbers, whose imaginary part is a derivative."""

from __future__ import annotations

import numpy

OUTPUTS = ("h", "c", "last_h", "last_c")


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def lstm(*, x, weights, c0, h0, lengths, peepholes=None, backward=False):
    """:return: h and c, (T, N, F) each, 0 behind the ends; last h and c (N, F)"""
    num_frames, num, _ = x.shape
    kind = numpy.result_type(x, weights, c0, h0, *([] if peepholes is None else [peepholes]))
    p_i, p_f, p_o = numpy.zeros([3, c0.shape[1]]) if peepholes is None else peepholes
    all_h, all_c = (numpy.zeros([num_frames, num, c0.shape[1]], kind) for _ in range(2))
    last_h, last_c = h0.astype(kind), c0.astype(kind)
    for n in range(num):
        h, c = h0[n], c0[n]
        for t in range(lengths[n])[:: -1 if backward else 1]:
            z_j, z_i, z_f, z_o = numpy.split(x[t, n] + h @ weights, 4)
            c = sigmoid(z_f + p_f * c) * c + sigmoid(z_i + p_i * c) * numpy.tanh(z_j)
            h = sigmoid(z_o + p_o * c) * numpy.tanh(c)
            all_h[t, n], all_c[t, n] = h, c
        last_h[n], last_c[n] = h, c
    return dict(zip(OUTPUTS, (all_h, all_c, last_h, last_c), strict=True))


def random_inputs(random, dtype, *, frames, batch, units, peepholes=False):
    """:return: inputs of the kernel. Behind the ends there is NaN; some sequences have no frames, some all"""
    lengths = random.randint(0, frames + 1, size=batch)
    shapes = {
        "x": (frames, batch, 4 * units),
        "weights": (units, 4 * units),
        "c0": (batch, units),
        "h0": (batch, units),
        **({"peepholes": (3, units)} if peepholes else {}),
    }
    inputs = {name: random.normal(size=shape).astype(dtype) for name, shape in shapes.items()}
    inputs["weights"] /= numpy.asarray(max(1, units) ** 0.5, dtype)
    for n, length in enumerate(lengths):
        inputs["x"][length:, n] = numpy.nan
    return {**inputs, "lengths": lengths.astype("int32")}


def random_gradients(random, outputs, lengths):
    """:return: gradients of all outputs; behind the ends there is NaN"""
    grads = {f"d_{name}": random.normal(size=outputs[name].shape).astype(outputs[name].dtype) for name in OUTPUTS}
    for n, length in enumerate(lengths):
        for name in ("d_h", "d_c"):
            grads[name][length:, n] = numpy.nan
    return grads


def derivative(inputs, grads, name, direction, **options):
    """:return: of the sum of outputs times their gradients, when the input of this name changes in a direction"""
    step = 1e-30
    values = {key: x.astype("float64") if x.dtype.kind == "f" else x for key, x in inputs.items()}
    values["x"] = numpy.nan_to_num(values["x"])
    values[name] = values[name] + 1j * step * direction
    outputs = lstm(**values, **options)
    return sum((outputs[key] * numpy.nan_to_num(grads[f"d_{key}"])).sum().imag for key in OUTPUTS) / step
