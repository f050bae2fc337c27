"""Units whose state is their output: GRU, and the simple recurrent network."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Tensor
from returnn.tf.frontend_low_level.kernels.native import has_operations, scan_by_kernel
from returnn.tf.frontend_low_level.products import loop_products
from returnn.tf.layers.rec.units.base import RecUnit, State, outside_of_loops
from returnn.tf.util.activations import get_activation_function

Activation = Callable[[tf.Tensor], tf.Tensor]


class _OutputIsState(RecUnit):
    """Base class of units whose state is their output."""

    state_names = ("state",)
    output_state = 0
    default_scope = ""
    transforms_input = False

    def __init__(
        self,
        num_units: int,
        activation: str | Activation | None = None,
        reuse: bool | None = None,
        name: str | None = None,
        dtype: Any = None,
        dynamic: bool = False,
        trainable: bool = True,
    ) -> None:
        """
        :param num_units: size of the output
        :param activation: instead of tanh
        :param reuse: only None. See the option `reuse_params` of the layer
        :param name: of the parameters' scope
        :param dtype: only None
        :param dynamic: only False
        :param trainable: whether training changes the parameters
        """
        super().__init__(num_units)
        self.only_possible = {"reuse": (reuse, None), "dtype": (dtype, None), "dynamic": (dynamic, False)}
        self.activation = get_activation_function(activation) if isinstance(activation, str) else activation or tf.tanh
        self.scope = name or self.default_scope
        self.trainable = trainable

    def make_parameters(self) -> None:
        """See `RecUnit.make_parameters`."""
        self.only_default(**self.only_possible)


class BasicRNNCell(_OutputIsState):
    """
    Simple recurrent network: `y = tanh([x, y'] kernel + bias)`.

    Parameters `basic_rnn_cell/kernel` [F_in + F, F], `basic_rnn_cell/bias` [F].
    """

    unit_names = ("basicrnn",)

    default_scope = "basic_rnn_cell"

    def make_parameters(self) -> None:
        """See `RecUnit.make_parameters`."""
        super().make_parameters()
        gates = self.gates_dim(1)
        self.weights, self.rec_weights = self.split_weights(self.joint_weights(f"{self.scope}/kernel", gates))
        self.b = self.bias(f"{self.scope}/bias", gates)

    def project(self, source: Tensor) -> Tensor:
        """See `RecUnit.project`."""
        return rf.combine_bc(self.matmul(source, self.weights), "+", self.b)

    def step(self, x: tf.Tensor, state: State, *once: tf.Tensor) -> tuple[tf.Tensor, State]:
        """See `RecUnit.step`."""
        output = self.activation(x + loop_products.matmul(state[0], self.rec_weights))
        return output, (output,)


class GRUCell(_OutputIsState):
    """
    Gated recurrent unit (Cho et al. 2014):

        r, u = sigmoid([x, y'] gates/kernel + gates/bias)
        y = u y' + (1 - u) tanh([x, r y'] candidate/kernel + candidate/bias)

    Parameters `gru_cell/gates/kernel` [F_in + F, 2 F], `gru_cell/gates/bias` [2 F], `gru_cell/candidate/kernel`
    [F_in + F, F], `gru_cell/candidate/bias` [F].
    """

    unit_names = ("gru",)

    default_scope = "gru_cell"

    def __init__(
        self, num_units: int, kernel_initializer: Any = None, bias_initializer: Any = None, **kwargs: Any
    ) -> None:
        """
        :param num_units: size of the output
        :param kernel_initializer: of both kernels
        :param bias_initializer: of both biases. Default: 1 for those of the gates, 0 for the others
        """
        super().__init__(num_units, **kwargs)
        given = {"recurrent": kernel_initializer, "bias": bias_initializer}
        self.given_inits = {k: v for k, v in given.items() if v is not None}

    def make_parameters(self) -> None:
        """See `RecUnit.make_parameters`."""
        super().make_parameters()
        self.inits = dataclasses.replace(self.inits, **self.given_inits)
        gates, candidate = self.gates_dim(2), self.gates_dim(1)
        gate_kernel = self.joint_weights(f"{self.scope}/gates/kernel", gates)
        self.gate_weights, self.rec_gate_weights = self.split_weights(gate_kernel)
        self.gate_bias = self.bias(f"{self.scope}/gates/bias", gates, initial=1.0)
        candidate_kernel = self.joint_weights(f"{self.scope}/candidate/kernel", candidate)
        self.weights, self.rec_weights = self.split_weights(candidate_kernel)
        self.b = self.bias(f"{self.scope}/candidate/bias", candidate)
        self.all_gates = self.gates_dim(3)

    def project(self, source: Tensor) -> Tensor:
        """See `RecUnit.project`. One matrix product for gates and candidate."""
        weights = self._side_by_side(self.gate_weights, self.weights)
        return rf.combine_bc(self.matmul(source, weights), "+", self._side_by_side(self.gate_bias, self.b))

    def step(self, x: tf.Tensor, state: State, *once: tf.Tensor) -> tuple[tf.Tensor, State]:
        """See `RecUnit.step`."""
        size, before = self.num_units, state[0]
        x_gates, x_candidate = tf.split(x, [2 * size, size], axis=-1)
        r, u = tf.split(tf.sigmoid(x_gates + loop_products.matmul(before, self.rec_gate_weights)), 2, axis=-1)
        candidate = self.activation(x_candidate + loop_products.matmul(r * before, self.rec_weights))
        output = candidate + u * (before - candidate)
        return output, (output,)

    @property
    def has_kernel(self) -> bool:
        """See `RecUnit.has_kernel`."""
        return self.activation is tf.tanh and has_operations(rf.get_default_float_dtype())

    def scan_by_kernel(
        self, x: tf.Tensor, state: State, *, lengths: tf.Tensor | None, backward: bool
    ) -> tuple[tf.Tensor, State, State]:
        """See `RecUnit.scan_by_kernel`."""
        inputs = {"gate_weights": self.rec_gate_weights, "weights": self.rec_weights, "h0": state[0]}
        results = scan_by_kernel("gru", x, inputs, lengths=lengths, backward=backward)
        return results["h"], (results["h"],), (results["last_h"],)

    def _side_by_side(self, gates: Tensor, candidate: Tensor) -> Tensor:
        from_both = outside_of_loops(lambda a, b: tf.concat([a, b], axis=-1), gates.raw_tensor, candidate.raw_tensor)
        return Tensor("weights", dims=[*gates.dims[:-1], self.all_gates], dtype=gates.dtype, raw_tensor=from_both)
