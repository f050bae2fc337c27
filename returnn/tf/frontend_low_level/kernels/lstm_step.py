"""The pointwise part of a frame of an LSTM, inside of a loop, by `returnn.native`. `lstm_scan` has the formula."""

from __future__ import annotations

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
