"""The LSTM of `returnn.native` on raw tensors. `lstm_scan` has the formula, and the same as a loop of TensorFlow."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from returnn.tf.frontend_low_level.kernels.native import scan_by_kernel


class LstmFrames(NamedTuple):
    """What comes out. Behind the ends of sequences, frames are 0."""

    c: tf.Tensor  # (T, N, F), after each frame
    h: tf.Tensor
    last_c: tf.Tensor  # (N, F), after the last frame of each sequence
    last_h: tf.Tensor


def native_lstm(
    x: tf.Tensor,
    weights: tf.Tensor,
    c: tf.Tensor,
    h: tf.Tensor,
    *,
    lengths: tf.Tensor | None = None,
    backward: bool = False,
    peepholes: tf.Tensor | None = None,
    mask: tf.Tensor | None = None,
) -> LstmFrames:
    """
    :param x: (T, N, 4 F), projected input, with biases; gates are j, i, f, o
    :param weights: (F, 4 F), recurrent
    :param c: (N, F), cell before the first frame
    :param h: (N, F), output before the first frame
    :param lengths: (N,), int32. Default: all T
    :param backward: from the last frame of each sequence to the first
    :param peepholes: (3, F), of the gates i, f, o
    :param mask: (F, 4 F), uint8: weights count as 0 where it is, and cost nothing
    """
    inputs = {"weights": weights, "c0": c, "h0": h, "peepholes": peepholes, "mask": mask}
    results = scan_by_kernel("lstm", x, inputs, lengths=lengths, backward=backward)
    return LstmFrames(*(results[name] for name in LstmFrames._fields))
