"""
LSTMs with the parameters `W` [F_in, 4 F], `W_re` [F, 4 F] and `b` [4 F], with the gates in the order j, i, f, o:

    z = x W + b + h' W_re
    c = sigmoid(z_f) c' + sigmoid(z_i) tanh(z_j)
    h = sigmoid(z_o) tanh(c)

Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Tensor
from returnn.tf.layers.rec.units.base import RecUnit, State, outside_of_loops
from returnn.tf.layers.rec.units.lstm_scan import lstm_scan, lstm_step
from returnn.util.errors import ConfigError


class FusedLstm(RecUnit):
    """Base class of all LSTMs of the plain form. Those with other parameters bring these into the order above."""

    output_state = 1

    def recurrent_matrix(self) -> tf.Tensor:
        """:return: (F, 4 F)"""
        raise NotImplementedError

    def step(self, x: tf.Tensor, state: State, *once: tf.Tensor) -> tuple[tf.Tensor, State]:
        """See `RecUnit.step`."""
        c, h = lstm_step(x, self.recurrent_matrix(), *state)
        return h, (c, h)

    def scan(self, x: tf.Tensor, state: State, *, num_unrolled: int | None) -> tuple[tf.Tensor, State]:
        """See `RecUnit.scan`."""
        if num_unrolled is not None:
            return super().scan(x, state, num_unrolled=num_unrolled)
        c, h = lstm_scan(x, self.recurrent_matrix(), *state)
        return h, (c, h)


class NativeLstm2(FusedLstm):
    """LSTM, see the head of this module."""

    has_optional_projection = True

    def __init__(
        self,
        rec_weight_dropout: float = 0.0,
        rec_weight_dropout_shape: tuple[int | None, ...] | None = None,
        forget_bias: float = 0.0,
        **kwargs: Any,
    ) -> None:
        """
        :param rec_weight_dropout: probability to drop an entry of `W_re`, in training, the same for all frames
            (Merity et al. 2017)
        :param rec_weight_dropout_shape: of the mask, which is broadcast to (F, 4 F): such as (F, 1)
        :param forget_bias: added to the forget gate
        """
        super().__init__(**kwargs)
        self.forget_bias = forget_bias
        self.rec_weight_dropout = rec_weight_dropout
        self.rec_weight_dropout_shape = rec_weight_dropout_shape
        self.gates = self.gates_dim(4)
        self.weights = self.forward_weights("W", self.gates) if self.input_projection else None
        self.rec_weights = self._with_dropout(self.recurrent_weights("W_re", self.gates))
        self.b = self.bias("b", self.gates) if self.input_projection else None
        if not self.input_projection and self.in_dim.dimension != self.gates.dimension:
            raise ConfigError(
                f"{self.layer.where()}: without input_projection, the source must have 4 * n_out = "
                f"{self.gates.dimension} features, but it has {self.in_dim.dimension}."
            )

    def project(self, source: Tensor) -> Tensor:
        """See `RecUnit.project`."""
        bias = forget_gate_bias(self) if self.forget_bias else None
        if self.weights is None or self.b is None:
            return source if bias is None else rf.combine_bc(source, "+", _with_dim(bias, self.in_dim))
        return rf.combine_bc(self.matmul(source, self.weights), "+", self.b if bias is None else self.b + bias)

    def recurrent_matrix(self) -> tf.Tensor:
        """See `FusedLstm.recurrent_matrix`."""
        return self.rec_weights

    def _with_dropout(self, weights: tf.Tensor) -> tf.Tensor:
        if not self.rec_weight_dropout:
            return weights
        shape, seed = self.rec_weight_dropout_shape, self.layer.network.random_seed()

        def dropped(weights: tf.Tensor) -> tf.Tensor:
            return self.if_training(
                lambda: tf.nn.dropout(weights, rate=self.rec_weight_dropout, noise_shape=shape, seed=seed),
                lambda: weights,
            )

        return outside_of_loops(dropped, weights)


class NativeLstmCell(NativeLstm2):
    """
    LSTM, see the head of this module. Of its state, only `c` is seen from outside; `h` is 0 before the first frame.
    """

    state_names = ("c",)
    hidden_state_names = ("h",)
    fixed_options = ("rec_weight_dropout", "rec_weight_dropout_shape")

    def __init__(self, forget_bias: float = 0.0, **kwargs: Any) -> None:
        """
        :param forget_bias: added to the forget gate
        """
        super().__init__(forget_bias=forget_bias, **kwargs)


class VanillaLSTMCell(NativeLstm2):
    """LSTM, see the head of this module."""

    has_optional_projection = False
    fixed_options = ("rec_weight_dropout", "rec_weight_dropout_shape", "forget_bias")


class NativeLstmLowMemCell(FusedLstm):
    """LSTM, see the head of this module, with one parameter `W` [F_in + F, 4 F] for both `W` and `W_re`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.gates = self.gates_dim(4)
        self.weights, self.rec_weights = self.joint_weights("W", self.gates)
        self.b = self.bias("b", self.gates)

    def project(self, source: Tensor) -> Tensor:
        """See `RecUnit.project`."""
        return rf.combine_bc(self.matmul(source, self.weights), "+", self.b)

    def recurrent_matrix(self) -> tf.Tensor:
        """See `FusedLstm.recurrent_matrix`."""
        return self.rec_weights


def forget_gate_bias(unit: NativeLstm2) -> Tensor:
    """:return: [gates]: `forget_bias` for the forget gate, 0 for the others"""
    size = unit.num_units
    values = [0.0] * (2 * size) + [unit.forget_bias] * size + [0.0] * size
    return rf.constant(values, dims=[unit.gates], dtype="float32")


def _with_dim(x: Tensor, dim: Any) -> Tensor:
    new = x.copy_template_replace_dim_tag(0, dim)
    new.raw_tensor = x.raw_tensor
    return new
