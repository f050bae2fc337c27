"""
LSTMs with the parameters `W` [F_in, 4 F], `W_re` [F, 4 F] and `b` [4 F], with the gates in the order j, i, f, o:

    z = x W + b + h' W_re
    c = sigmoid(z_f) c' + sigmoid(z_i) tanh(z_j)
    h = sigmoid(z_o) tanh(c)

Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy
import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_low_level import raw_random
from returnn.tf.frontend_low_level.kernels.lstm_scan import lstm_gates, lstm_scan
from returnn.tf.frontend_low_level.kernels.lstm_step import lstm_step
from returnn.tf.frontend_low_level.kernels.native import has_operations, is_in_loop
from returnn.tf.frontend_low_level.kernels.native_lstm import native_lstm
from returnn.tf.frontend_low_level.products import loop_products
from returnn.tf.layers.rec.units.base import RecUnit, State, outside_of_loops, reorder_gates
from returnn.tf.layers.rec.units.sequence_frames import as_matrix
from returnn.util.errors import ConfigError


class FusedLstm(RecUnit):
    """Base class of all LSTMs of the plain form. Those with other parameters bring these into the order above."""

    output_state = 1
    weights: Tensor | None  # [in_dim, gates]
    rec_weights: tf.Tensor  # (F, 4 F)
    b: Tensor | None  # [gates], with the forget bias
    peepholes: Sequence[tf.Tensor] = ()  # of the gates i, f, o, (F,) each
    rec_mask: numpy.ndarray | None = None  # (F, 4 F), bool: where `rec_weights` can be other than 0

    def project(self, source: Tensor) -> Tensor:
        """See `RecUnit.project`."""
        x = source if self.weights is None else self.matmul(source, self.weights)
        return x if self.b is None else rf.combine_bc(x, "+", self.b)

    def step(self, x: tf.Tensor, state: State, *once: tf.Tensor) -> tuple[tf.Tensor, State]:
        """See `RecUnit.step`."""
        c, h = state
        return self._output_and_state(x + loop_products.matmul(h, self.rec_weights), c)

    def single_step(
        self, source: Tensor, dims: Sequence[Dim], state: State, *once: tf.Tensor
    ) -> tuple[tf.Tensor, State]:
        """See `RecUnit.single_step`. One matrix product for the input and the output of the frame before."""
        if source.sparse or self.weights is None or self.b is None:
            return super().single_step(source, dims, state, *once)
        c, h = state
        x = as_matrix(source, dims, self.in_dim)
        matrix = outside_of_loops(_on_top_of_each_other, self.weights.raw_tensor, self.rec_weights)
        return self._output_and_state(loop_products.matmul(tf.concat([x, h], axis=-1), matrix), c, self.b.raw_tensor)

    def _output_and_state(self, z: tf.Tensor, c: tf.Tensor, bias: tf.Tensor | None = None) -> tuple[tf.Tensor, State]:
        if self.has_kernel and is_in_loop():
            c, h = lstm_step(z, c, bias=bias)
        else:
            c, h, _, _ = lstm_gates(z if bias is None else tf.nn.bias_add(z, bias), c)
        return h, (c, h)

    def scan(self, x: tf.Tensor, state: State, *, num_unrolled: int | None) -> tuple[tf.Tensor, State]:
        """See `RecUnit.scan`."""
        if num_unrolled is not None:
            return super().scan(x, state, num_unrolled=num_unrolled)
        c, h = lstm_scan(x, self.rec_weights, *state)
        return h, (c, h)

    @property
    def has_kernel(self) -> bool:
        """See `RecUnit.has_kernel`."""
        return has_operations(rf.get_default_float_dtype())

    def scan_by_kernel(
        self, x: tf.Tensor, state: State, *, lengths: tf.Tensor | None, backward: bool
    ) -> tuple[tf.Tensor, State, State]:
        """See `RecUnit.scan_by_kernel`."""
        peepholes = tf.stack(self.peepholes) if self.peepholes else None
        mask = None if self.rec_mask is None else tf.constant(self.rec_mask, tf.uint8)
        options = {"lengths": lengths, "backward": backward, "peepholes": peepholes, "mask": mask}
        frames = native_lstm(x, self.rec_weights, *state, **options)
        return frames.h, (frames.c, frames.h), (frames.last_c, frames.last_h)


class NativeLstm2(FusedLstm):
    """
    LSTM with input, forget and output gate, without peepholes.

    Parameters `W` [F_in, 4 F], `W_re` [F, 4 F] and `b` [4 F], each with the gates in the order j, i, f, o:
    `z = x W + b + h' W_re; c = sigmoid(z_f) c' + sigmoid(z_i) tanh(z_j); h = sigmoid(z_o) tanh(c)`.
    """

    unit_names: ClassVar[tuple[str, ...]] = (
        "cudnnlstm",
        "lstm",
        "lstme",
        "lstmblock",
        "lstmblockfused",
        "lstmp",
        "nativelstm2",
    )

    has_optional_projection = True

    def __init__(
        self,
        num_units: int,
        rec_weight_dropout: float = 0.0,
        rec_weight_dropout_shape: tuple[int | None, ...] | None = None,
        forget_bias: float = 0.0,
    ) -> None:
        """
        :param num_units: size of the output
        :param rec_weight_dropout: probability to drop an entry of `W_re`, in training, the same for all frames
            (Merity et al. 2017)
        :param rec_weight_dropout_shape: of the mask, which is broadcast to (F, 4 F): such as (F, 1)
        :param forget_bias: added to the forget gate
        """
        super().__init__(num_units)
        self.forget_bias = forget_bias
        self.rec_weight_dropout = rec_weight_dropout
        self.rec_weight_dropout_shape = rec_weight_dropout_shape

    def make_parameters(self) -> None:
        """See `RecUnit.make_parameters`."""
        self.gates = self.gates_dim(4)
        self.weights = self.forward_weights("W", self.gates) if self.input_projection else None
        self.rec_weights = self._with_dropout(self.recurrent_weights("W_re", self.gates))
        self.b = with_forget_bias(self.bias("b", self.gates), self.forget_bias) if self.input_projection else None
        if not self.input_projection:
            self._check_without_projection()

    def _check_without_projection(self) -> None:
        if self.in_dim.dimension != self.gates.dimension:
            raise ConfigError(
                f"{self.layer.where()}: without input_projection, the source must have 4 * n_out = "
                f"{self.gates.dimension} features, but it has {self.in_dim.dimension}."
            )
        self.only_default(forget_bias=(self.forget_bias, 0.0))

    def _with_dropout(self, weights: tf.Tensor) -> tf.Tensor:
        if not self.rec_weight_dropout:
            return weights
        shape, seed = self.rec_weight_dropout_shape, self.layer.network.random_seed()

        def dropped(weights: tf.Tensor) -> tf.Tensor:
            return self.if_training(
                lambda: raw_random.dropped(weights, rate=self.rec_weight_dropout, noise_shape=shape, seed=seed),
                lambda: weights,
            )

        return outside_of_loops(dropped, weights)


class NativeLstmCell(NativeLstm2):
    """
    LSTM as "nativelstm2". Of its state, only `c` is seen from outside; `h` is 0 before the first frame.
    """

    unit_names = ("nativelstm",)

    state_names = ("c",)
    hidden_state_names = ("h",)

    def __init__(self, num_units: int, forget_bias: float = 0.0) -> None:
        """
        :param num_units: size of the output
        :param forget_bias: added to the forget gate
        """
        super().__init__(num_units, forget_bias=forget_bias)


class VanillaLSTMCell(NativeLstm2):
    """LSTM as "nativelstm2", with the same parameters `W`, `W_re` and `b`."""

    unit_names = ("vanillalstm",)

    has_optional_projection = False

    def __init__(self, num_units: int) -> None:
        """
        :param num_units: size of the output
        """
        super().__init__(num_units)


class NativeLstmLowMemCell(FusedLstm):
    """LSTM as "nativelstm2", with one parameter `W` [F_in + F, 4 F] for both `W` and `W_re`."""

    unit_names = ("nativelstmlowmem",)

    def make_parameters(self) -> None:
        """See `RecUnit.make_parameters`."""
        gates = self.gates_dim(4)
        self.weights, self.rec_weights = self.split_weights(self.joint_weights("W", gates))
        self.b = self.bias("b", gates)


def with_forget_bias(bias: Tensor, forget_bias: float, order: Sequence[int] = (0, 1, 2, 3)) -> Tensor:
    """
    :param bias: [gates]
    :param forget_bias: added for the forget gate
    :param order: for each of the gates j, i, f, o where it is in `bias`
    :return: [gates], with the gates in the order j, i, f, o
    """
    size = bias.dims[0].dimension // 4

    def changed(raw: tf.Tensor) -> tf.Tensor:
        raw = reorder_gates(raw, order)
        if not forget_bias:
            return raw
        return raw + tf.constant([0.0] * (2 * size) + [forget_bias] * size + [0.0] * size, raw.dtype)

    out = bias.copy_template()
    out.raw_tensor = outside_of_loops(changed, bias.raw_tensor)
    return out


def _on_top_of_each_other(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    return tf.concat([a, b], axis=0)
