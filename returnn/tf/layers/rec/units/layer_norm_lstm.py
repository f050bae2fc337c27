"""LSTM with layer normalization."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.rec.units.base import RecUnit, State
from returnn.tf.util.activations import get_activation_function
from returnn.util.errors import ConfigError


class LayerNormVariantsLSTMCell(RecUnit):
    """
    LSTM with layer normalization (Ba et al. 2016) at different places. With N_a for `normalize(.) gamma_a + beta_a`:

        j, i, f, o = tanh, sigmoid, sigmoid, sigmoid of the quarters of z
        global_norm:         z = N_input_below(x W_ff) + N_state_below(h' W_re), the latter without beta
        global_norm_joined:  z = N_lstm_in(x W_ff + h' W_re)
        per_gate_norm:       each quarter of z = x W_ff + h' W_re with its own N_j_gate, N_i_gate, N_f_gate, N_o_gate
        none of these:       z = x W_ff + h' W_re + bias
        cell_norm:           h = o tanh(N_new_c(c)); unless `cell_norm_in_output`, the frame after gets N_new_c(c) too
        hidden_norm:         N_new_h(h)

    Parameters `W_ff` [F_in, 4 F] and `W_re` [F, 4 F], or `with_concat` both in one as `W_ff_re`.
    """

    output_state = 1

    def __init__(
        self,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
        forget_bias: float = 0.0,
        activation: str | Callable[[tf.Tensor], tf.Tensor] = tf.tanh,
        is_training: bool | tf.Tensor | None = None,
        dropout: float = 0.0,
        dropout_h: float = 0.0,
        dropout_seed: int | None = None,
        with_concat: bool = False,
        global_norm: bool = True,
        global_norm_joined: bool = False,
        per_gate_norm: bool = False,
        cell_norm: bool = True,
        cell_norm_in_output: bool = True,
        hidden_norm: bool = False,
        variance_epsilon: float = 1e-12,
        **kwargs: Any,
    ) -> None:
        """
        :param norm_gain: initial value of all gamma
        :param norm_shift: initial value of all beta
        :param forget_bias: added to the forget gate
        :param activation: instead of tanh
        :param is_training: whether there is dropout; default: as the network says
        :param dropout: probability to drop an entry of j, in training (Semeniuta et al. 2016)
        :param dropout_h: probability to drop an entry of h, in training
        :param dropout_seed: for both
        :param with_concat: one matrix `W_ff_re` for input and output of the frame before
        :param global_norm: normalize both parts of z
        :param global_norm_joined: normalize z
        :param per_gate_norm: normalize each quarter of z
        :param cell_norm: normalize the cell
        :param cell_norm_in_output: only for the output
        :param hidden_norm: normalize the output
        :param variance_epsilon: added to the variance
        """
        super().__init__(**kwargs)
        self.norm_gain, self.norm_shift = norm_gain, norm_shift
        self.forget_bias = forget_bias
        self.activation = get_activation_function(activation) if isinstance(activation, str) else activation
        self.is_training = is_training
        self.dropout_j, self.dropout_h = dropout, dropout_h
        seeds = self.layer.network.random_seed() if dropout_seed is None else dropout_seed
        self.dropout_seeds = (seeds, seeds + 1)
        self.global_norm, self.global_norm_joined = global_norm, global_norm_joined
        self.per_gate_norm = per_gate_norm
        self.cell_norm, self.cell_norm_in_output = cell_norm, cell_norm_in_output
        self.hidden_norm = hidden_norm
        self.variance_epsilon = variance_epsilon
        chosen = [n for n in ("global_norm", "global_norm_joined", "per_gate_norm") if getattr(self, n)]
        if len(chosen) > 1:
            raise ConfigError(
                f"{self.layer.where()}: unit_opts: only one of {', '.join(chosen)} can be True.\n"
                "  The default of global_norm is True."
            )
        if with_concat and global_norm:
            raise ConfigError(f"{self.layer.where()}: unit_opts: with_concat=True needs global_norm=False.")
        self._make_parameters(with_concat)

    def _make_parameters(self, with_concat: bool) -> None:
        self.gates = self.gates_dim(4)
        if with_concat:
            self.weights, self.rec_weights = self.joint_weights("W_ff_re", self.gates)
        else:
            self.weights = self.forward_weights("W_ff", self.gates)
            self.rec_weights = self.recurrent_weights("W_re", self.gates)
        self.norms: dict[str, tuple[tf.Tensor, tf.Tensor | None]] = {}
        self.b: Tensor | None = None
        if self.global_norm:
            self._add_norm("input_below", self.gates)
            self._add_norm("state_below", self.gates, with_shift=False)
        elif self.global_norm_joined:
            self._add_norm("lstm_in", self.gates)
        elif self.per_gate_norm:
            for gate in "jifo":
                self._add_norm(f"{gate}_gate", self.out_dim)
        else:
            self.b = self.bias("bias_ff_re" if with_concat else "bias_ff", self.gates)
        if self.cell_norm:
            self._add_norm("new_c", self.out_dim)
        if self.hidden_norm:
            self._add_norm("new_h", self.out_dim)

    def _add_norm(self, name: str, dim: Dim, *, with_shift: bool = True) -> None:
        gamma = self.parameter(f"gamma_{name}", [dim], self.norm_gain).raw_tensor
        beta = self.parameter(f"beta_{name}", [dim], self.norm_shift).raw_tensor if with_shift else None
        self.norms[name] = (gamma, beta)

    def _norm(self, name: str, x: tf.Tensor) -> tf.Tensor:
        gamma, beta = self.norms[name]
        mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, self.variance_epsilon)

    def project(self, source: Tensor) -> Tensor:
        """See `RecUnit.project`."""
        z = self.matmul(source, self.weights)
        if self.b is not None:
            return rf.combine_bc(z, "+", self.b)
        if self.global_norm:
            assert z.dims[-1] == self.gates, z
            z.raw_tensor = self._norm("input_below", z.raw_tensor)
        return z

    def step(self, x: tf.Tensor, state: State, *once: tf.Tensor) -> tuple[tf.Tensor, State]:
        """See `RecUnit.step`."""
        c, h = state
        z_j, z_i, z_f, z_o = self._gates(x, tf.matmul(h, self.rec_weights))
        j = self.dropout(
            self.activation(z_j), self.dropout_j, seed=self.dropout_seeds[0], is_training=self.is_training
        )
        new_c = tf.sigmoid(z_f + self.forget_bias if self.forget_bias else z_f) * c + tf.sigmoid(z_i) * j
        in_output = self._norm("new_c", new_c) if self.cell_norm else new_c
        new_h = tf.sigmoid(z_o) * self.activation(in_output)
        if self.hidden_norm:
            new_h = self._norm("new_h", new_h)
        new_h = self.dropout(new_h, self.dropout_h, seed=self.dropout_seeds[1], is_training=self.is_training)
        return new_h, (new_c if self.cell_norm_in_output else in_output, new_h)

    def _gates(self, x: tf.Tensor, from_state: tf.Tensor) -> list[tf.Tensor]:
        if self.global_norm:
            from_state = self._norm("state_below", from_state)
        z = x + from_state
        if self.global_norm_joined:
            z = self._norm("lstm_in", z)
        parts = tf.split(z, 4, axis=-1)
        if self.per_gate_norm:
            parts = [self._norm(f"{gate}_gate", part) for gate, part in zip("jifo", parts, strict=True)]
        return parts
