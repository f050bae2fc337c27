"""LSTM with layer normalization."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_low_level.kernels.native import has_operations, scan_by_kernel
from returnn.tf.frontend_low_level.products import loop_products
from returnn.tf.layers.rec.units.base import RecUnit, State
from returnn.tf.util.activations import get_activation_function
from returnn.util.errors import ConfigError

_GATES = "ijfo"


class LayerNormVariantsLSTMCell(RecUnit):
    """
    LSTM with layer normalization (Ba et al. 2016) at different places. With N_a for `normalize(.) gamma_a + beta_a`:

        i, j, f, o = sigmoid, tanh, sigmoid, sigmoid of the quarters of z
        c = f c' + i j
        h = o tanh(c)
        global_norm:         z = N_input_below(x W_ff) + N_state_below(h' W_re), the latter without beta
        global_norm_joined:  z = N_lstm_in(x W_ff + h' W_re)
        per_gate_norm:       each quarter of z = x W_ff + h' W_re with its own N_i_gate, N_j_gate, N_f_gate, N_o_gate
        none of these:       z = x W_ff + h' W_re + bias
        cell_norm:           N_new_c(c) is the cell, for h too if `cell_norm_in_output`
        hidden_norm:         N_new_h(h) is the output

    Parameters `W_ff` [F_in, 4 F] and `W_re` [F, 4 F], or `with_concat` both in one as `W_ff_re`.
    """

    unit_names = ("layernormvariantslstm",)

    output_state = 1

    def __init__(
        self,
        num_units: int,
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
    ) -> None:
        """
        :param num_units: size of the output
        :param norm_gain: initial value of all gamma
        :param norm_shift: initial value of all beta
        :param forget_bias: initial value of the bias (beta or bias) of the forget gate, on top of `norm_shift`
        :param activation: instead of tanh
        :param is_training: whether there is dropout; default: as the network says
        :param dropout: probability to drop an entry of j, in training (Semeniuta et al. 2016)
        :param dropout_h: probability to drop an entry of h', in training, the same for all frames
        :param dropout_seed: for both
        :param with_concat: one matrix `W_ff_re` for input and output of the frame before
        :param global_norm: normalize both parts of z
        :param global_norm_joined: normalize z
        :param per_gate_norm: normalize each quarter of z
        :param cell_norm: normalize the cell
        :param cell_norm_in_output: the output is computed from the normalized cell
        :param hidden_norm: normalize the output
        :param variance_epsilon: added to the variance
        """
        super().__init__(num_units)
        self.norm_gain, self.norm_shift = norm_gain, norm_shift
        self.forget_bias = forget_bias
        self.activation = get_activation_function(activation) if isinstance(activation, str) else activation
        self.is_training = is_training
        self.dropout, self.dropout_h = dropout, dropout_h
        self.dropout_seed = dropout_seed
        self.with_concat = with_concat
        self.global_norm, self.global_norm_joined = global_norm, global_norm_joined
        self.per_gate_norm = per_gate_norm
        self.cell_norm, self.cell_norm_in_output = cell_norm, cell_norm_in_output
        self.hidden_norm = hidden_norm
        self.variance_epsilon = variance_epsilon

    def make_parameters(self) -> None:
        """See `RecUnit.make_parameters`."""
        seed = self.layer.network.random_seed() if self.dropout_seed is None else self.dropout_seed
        self.dropout_seeds = (seed, seed + 1)
        chosen = [n for n in ("global_norm", "global_norm_joined", "per_gate_norm") if getattr(self, n)]
        if len(chosen) > 1:
            raise ConfigError(
                f"{self.layer.where()}: unit_opts: only one of {', '.join(chosen)} can be True.\n"
                "  The default of global_norm is True."
            )
        if self.with_concat and self.global_norm:
            raise ConfigError(f"{self.layer.where()}: unit_opts: with_concat=True needs global_norm=False.")
        self._make_weights()
        self._make_norms()

    def _make_weights(self) -> None:
        self.gates = self.gates_dim(4)
        if self.with_concat:
            self.weights, self.rec_weights = self.split_weights(self.joint_weights("W_ff_re", self.gates))
        else:
            self.weights = self.forward_weights("W_ff", self.gates)
            self.rec_weights = self.recurrent_weights("W_re", self.gates)

    def _make_norms(self) -> None:
        self.norms: dict[str, tuple[tf.Tensor, tf.Tensor | None]] = {}
        self.b: Tensor | None = None
        if self.global_norm:
            self._add_norm("input_below", self.gates, shift=self._shifts())
            self._add_norm("state_below", self.gates, shift=None)
        elif self.global_norm_joined:
            self._add_norm("lstm_in", self.gates, shift=self._shifts())
        elif self.per_gate_norm:
            for gate in _GATES:
                shift = self.norm_shift + (self.forget_bias if gate == "f" else 0.0)
                self._add_norm(f"{gate}_gate", self.out_dim, shift=shift)
        else:
            self.b = self.bias("bias_ff_re" if self.with_concat else "bias_ff", self.gates, initial=self._shifts(0.0))
        if self.cell_norm:
            self._add_norm("new_c", self.out_dim, shift=self.norm_shift)
        if self.hidden_norm:
            self._add_norm("new_h", self.out_dim, shift=self.norm_shift)

    def _shifts(self, norm_shift: float | None = None) -> Any:
        """:return: initial value of a bias for all gates"""
        shift = self.norm_shift if norm_shift is None else norm_shift
        if not self.forget_bias:
            return shift
        of_gates = [shift + (self.forget_bias if gate == "f" else 0.0) for gate in _GATES]
        return numpy.repeat(numpy.array(of_gates, dtype="float32"), self.num_units)

    def _add_norm(self, name: str, dim: Dim, *, shift: Any) -> None:
        gamma = self.parameter(f"gamma_{name}", [dim], self.norm_gain).raw_tensor
        beta = None if shift is None else self.parameter(f"beta_{name}", [dim], shift).raw_tensor
        self.norms[name] = (gamma, beta)

    def _norm(self, name: str, x: tf.Tensor) -> tf.Tensor:
        gamma, beta = self.norms[name]
        centered = x - tf.reduce_mean(x, axis=-1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centered), axis=-1, keepdims=True)
        normalized = centered * tf.math.rsqrt(variance + self.variance_epsilon) * gamma
        return normalized if beta is None else normalized + beta

    def get_input_transformed(self, inputs: tf.Tensor, batch_dim: tf.Tensor | None = None) -> tf.Tensor:
        """See `BaseRNNCell.get_input_transformed`."""
        return super().get_input_transformed(inputs, batch_dim)

    def project(self, source: Tensor) -> Tensor:
        """See `RecUnit.project`."""
        z = self.matmul(source, self.weights)
        if self.b is not None:
            return rf.combine_bc(z, "+", self.b)
        if self.global_norm:
            assert z.dims[-1] == self.gates, z
            z.raw_tensor = self._norm("input_below", z.raw_tensor)
        return z

    @property
    def num_drawn_once(self) -> int:
        """See `RecUnit.num_drawn_once`."""
        return 1 if self.dropout_h else 0

    def once(self, num_entries: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """:return: the mask of `dropout_h`, if there is one"""
        if not self.dropout_h:
            return ()
        ones = tf.ones([num_entries, self.num_units], rf.get_default_float_dtype())
        return (self.dropped(ones, self.dropout_h, seed=self.dropout_seeds[1], is_training=self.is_training),)

    def step(self, x: tf.Tensor, state: State, *once: tf.Tensor) -> tuple[tf.Tensor, State]:
        """See `RecUnit.step`."""
        c, h = state
        gates = self._gates(x, loop_products.matmul(h * once[0] if once else h, self.rec_weights))
        i, j, f, o = (self.activation(z) if gate == "j" else tf.sigmoid(z) for gate, z in gates.items())
        j = self.dropped(j, self.dropout, seed=self.dropout_seeds[0], is_training=self.is_training)
        new_c = f * c + i * j
        normalized = self._norm("new_c", new_c) if self.cell_norm else new_c
        new_h = o * self.activation(normalized if self.cell_norm_in_output else new_c)
        if self.hidden_norm:
            new_h = self._norm("new_h", new_h)
        return new_h, (normalized, new_h)

    @property
    def has_kernel(self) -> bool:
        """See `RecUnit.has_kernel`."""
        return self.activation is tf.tanh and has_operations(rf.get_default_float_dtype())

    def scan_by_kernel(
        self, x: tf.Tensor, state: State, *, lengths: tf.Tensor | None, backward: bool
    ) -> tuple[tf.Tensor, State, State]:
        """See `RecUnit.scan_by_kernel`."""
        once = self.once(tf.shape(x)[1])
        inputs = {
            "weights": self.rec_weights,
            "c0": state[0],
            "h0": state[1],
            "mask": once[0] if once else None,
            "keep": self._dropout_of_frames(x) if self.dropout else None,
            **self._norms_of_kernel(),
        }
        results = scan_by_kernel(
            "layer_norm_lstm",
            x,
            inputs,
            lengths=lengths,
            backward=backward,
            per_gate=self.per_gate_norm,
            cell_norm_in_output=self.cell_norm_in_output,
            epsilon=self.variance_epsilon,
        )
        states, last = ((results[f"{prefix}c"], results[f"{prefix}h"]) for prefix in ("", "last_"))
        return results["h"], states, last

    def _dropout_of_frames(self, x: tf.Tensor) -> tf.Tensor:
        """:return: (T, N, F), factors of j"""
        ones = tf.ones(tf.concat([tf.shape(x)[:2], [self.num_units]], axis=0), x.dtype)
        return self.dropped(ones, self.dropout, seed=self.dropout_seeds[0], is_training=self.is_training)

    def _norms_of_kernel(self) -> dict[str, tf.Tensor | None]:
        """:return: gammas and betas under the names that the kernel has for them"""
        names = {"state": ["state_below"], "z": ["lstm_in"], "c": ["new_c"], "h": ["new_h"]}
        if self.per_gate_norm:
            names["z"] = [f"{gate}_gate" for gate in _GATES]
        found: dict[str, tf.Tensor | None] = {}
        for name, parts in names.items():
            norms = [self.norms[part] for part in parts if part in self.norms]
            for kind, values in zip(("gamma", "beta"), zip(*norms, strict=True), strict=bool(norms)):
                if values[0] is not None:
                    found[f"{kind}_{name}"] = tf.concat(values, axis=0) if len(values) > 1 else values[0]
        return found

    def _gates(self, x: tf.Tensor, from_state: tf.Tensor) -> dict[str, tf.Tensor]:
        if self.global_norm:
            from_state = self._norm("state_below", from_state)
        z = x + from_state
        if self.global_norm_joined:
            z = self._norm("lstm_in", z)
        gates = dict(zip(_GATES, tf.split(z, 4, axis=-1), strict=True))
        if self.per_gate_norm:
            gates = {gate: self._norm(f"{gate}_gate", z) for gate, z in gates.items()}
        return gates
