"""Recurrent highway network."""

from __future__ import annotations

from typing import Any

import numpy
import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Tensor
from returnn.tf.frontend_low_level.kernels.native import has_operations, scan_by_kernel
from returnn.tf.frontend_low_level.products import loop_products
from returnn.tf.layers.rec.units.base import RecUnit, State


class RHNCell(RecUnit):
    """
    Recurrent highway network (Zilly et al. 2017), with `depth` highway layers in each step:

        h, t = tanh, sigmoid of the halves of (y' W_d), for the first layer (y' W_d + x W + b)
        y = y' + t (h - y')

    Parameters `W` [F_in, 2 F], `b` [2 F], `rhn_cell/depth_0/W` [F, 2 F] and so on.
    """

    unit_names = ("rhn",)

    state_names = ("state",)
    output_state = 0

    def __init__(
        self,
        num_units: int,
        is_training: bool | tf.Tensor | None = None,
        depth: int = 5,
        dropout: float = 0.0,
        dropout_seed: int | None = None,
        transform_bias: float | None = None,
        batch_size: int | tf.Tensor | None = None,
    ) -> None:
        """
        :param num_units: size of the output
        :param is_training: whether there is dropout; default: as the network says
        :param depth: number of layers in a step
        :param dropout: probability to drop an entry of the state, the same for all frames and layers (Gal and
            Ghahramani 2016)
        :param dropout_seed: for that
        :param transform_bias: initial value of `b` for t; below 0, so that the state is kept at first
        :param batch_size: number of sequences. Default: as many as the input has
        """
        super().__init__(num_units)
        self.is_training = is_training
        self.depth = depth
        self.dropout = dropout
        self.dropout_seed = dropout_seed
        self.transform_bias = transform_bias
        self.batch_size = batch_size

    def make_parameters(self) -> None:
        """See `RecUnit.make_parameters`."""
        if self.dropout_seed is None:
            self.dropout_seed = self.layer.network.random_seed()
        gates = self.gates_dim(2)
        self.weights = self.forward_weights("W", gates)
        self.b = self.bias("b", gates, initial=self._initial_bias(self.transform_bias))
        self.rec_weights = [self.recurrent_weights(f"rhn_cell/depth_{i}/W", gates) for i in range(self.depth)]

    def project(self, source: Tensor) -> Tensor:
        """See `RecUnit.project`."""
        return rf.combine_bc(self.matmul(source, self.weights), "+", self.b)

    @property
    def num_drawn_once(self) -> int:
        """See `RecUnit.num_drawn_once`."""
        return 1 if self.dropout else 0

    def once(self, num_entries: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """:return: the dropout mask"""
        if not self.dropout:
            return ()
        ones = tf.ones(
            [num_entries if self.batch_size is None else self.batch_size, self.num_units], rf.get_default_float_dtype()
        )
        return (self.dropped(ones, self.dropout, seed=self.dropout_seed, is_training=self.is_training),)

    def step(self, x: tf.Tensor, state: State, *once: tf.Tensor) -> tuple[tf.Tensor, State]:
        """See `RecUnit.step`."""
        output = state[0]
        for i, weights in enumerate(self.rec_weights):
            z = loop_products.matmul(output * once[0] if once else output, weights)
            z_h, z_t = tf.split(z + x if i == 0 else z, 2, axis=-1)
            output = output + tf.sigmoid(z_t) * (tf.tanh(z_h) - output)
        return output, (output,)

    @property
    def has_kernel(self) -> bool:
        """See `RecUnit.has_kernel`."""
        return self.depth > 0 and has_operations(rf.get_default_float_dtype())

    def scan_by_kernel(
        self, x: tf.Tensor, state: State, *, lengths: tf.Tensor | None, backward: bool
    ) -> tuple[tf.Tensor, State, State]:
        """See `RecUnit.scan_by_kernel`."""
        once = self.once(tf.shape(x)[1])
        inputs = {"weights": tf.stack(self.rec_weights), "h0": state[0], "mask": once[0] if once else None}
        results = scan_by_kernel("rhn", x, inputs, lengths=lengths, backward=backward)
        return results["h"], (results["h"],), (results["last_h"],)

    def _initial_bias(self, transform_bias: float | None) -> Any:
        if transform_bias is None:
            return 0.0
        return numpy.repeat(numpy.array([0.0, transform_bias], dtype="float32"), self.num_units)
