"""The pointwise part of a frame of an LSTM, inside of a loop, by `returnn.native`. `lstm_scan` has the formula."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from returnn.tf.frontend_low_level.kernels.native import get_operations


def lstm_step(
    z: tf.Tensor,
    c: tf.Tensor,
    *,
    bias: tf.Tensor | None = None,
    peepholes: tf.Tensor | None = None,
    i_first: bool = False,
) -> tuple[tf.Tensor, tf.Tensor]:
    """
    :param z: (N, 4 F), gates are j, i, f, o
    :param c: (N, F), cell before
    :param bias: (4 F,), added to z
    :param peepholes: (3, F), of the gates i, f, o
    :param i_first: gates are i, j, f, o
    :return: c and h, each (N, F)
    """
    operations = get_operations()
    assert operations is not None
    inputs = {"z": z, "c_before": c, "peepholes": peepholes, "bias": bias}
    results = operations.call("lstm_step", inputs, i_first=i_first)
    return results["c"], results["h"]


@tf.RegisterGradient("ReturnnLstmStepGrad")
def _second_derivative(op: tf.Operation, *grads: tf.Tensor) -> list[tf.Tensor | None]:
    """
    For losses on gradients, which no kernel is for.

    :param op: the gradient of `lstm_step`
    :param grads: of its outputs
    :return: of its inputs; what the cell after the frame adds is in those that it is computed from
    """
    names = ("z", "c_before", "peepholes", "bias", "c", "d_h", "d_c")
    there = {name: x for name, x in zip(names, op.inputs, strict=True) if x.shape != [0]}
    x = {name: tf.identity(value) for name, value in there.items()}
    of = [name for name in names[:4] if name in x]
    new_c, h = _by_operations(x, i_first=op.get_attr("i_first"))
    upstream = {key: (after, x[key]) for key, after in (("d_h", h), ("d_c", new_c)) if key in x}
    after, grads_after = zip(*upstream.values(), strict=True)
    first = tf.gradients(list(after), [x[name] for name in of], grad_ys=list(grads_after))
    of_first = dict(zip(names, grads, strict=False))  # d_z, d_c_before, ...
    ys, grad_ys = zip(*((y, of_first[name]) for name, y in zip(of, first, strict=True)), strict=True)
    wanted = [*of, *upstream]
    second = tf.gradients(list(ys), [x[name] for name in wanted], grad_ys=list(grad_ys))
    return [dict(zip(wanted, second, strict=True)).get(name) for name in names]


def _by_operations(x: dict[str, Any], *, i_first: bool) -> tuple[tf.Tensor, tf.Tensor]:
    """:return: c and h, see `lstm_step`, by operations which have all derivatives"""
    z, c = x["z"], x["c_before"]
    first, second, z_f, z_o = tf.split(z + x["bias"] if "bias" in x else z, 4, axis=-1)
    z_i, z_j = (first, second) if i_first else (second, first)
    if "peepholes" in x:
        z_i, z_f = z_i + x["peepholes"][0] * c, z_f + x["peepholes"][1] * c
    new_c = tf.sigmoid(z_f) * c + tf.sigmoid(z_i) * tf.tanh(z_j)
    if "peepholes" in x:
        z_o += x["peepholes"][2] * new_c
    return new_c, tf.sigmoid(z_o) * tf.tanh(new_c)
