"""
LSTMs with the parameters `kernel` [F_in + F, 4 F], for the input and the output of the frame before, and `bias` [4 F],
with the gates in the order i, j, f, o. Otherwise as in `returnn.tf.layers.rec.units.native_lstm`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_low_level import raw_random
from returnn.tf.frontend_low_level.kernels.lstm_step import lstm_step
from returnn.tf.frontend_low_level.kernels.native import is_in_loop
from returnn.tf.frontend_low_level.products import loop_products
from returnn.tf.layers.rec.units.base import State, outside_of_loops, reorder_gates
from returnn.tf.layers.rec.units.native_lstm import FusedLstm, with_forget_bias
from returnn.tf.layers.rec.units.sequence_frames import as_matrix
from returnn.tf.util.activations import get_activation_function
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import ConfigError
from returnn.util.not_specified import NotSpecified

_TO_FUSED_ORDER = (1, 0, 2, 3)  # from i, j, f, o to j, i, f, o


class LSTMCell(FusedLstm):
    """
    LSTM, with options for peephole connections and a projection of the output (Sak et al. 2014).

    Parameters `lstm_cell/kernel` [F_in + F, 4 F] and `lstm_cell/bias` [4 F], with the gates in the order i, j, f, o;
    `lstm_cell/w_f_diag`, `w_i_diag`, `w_o_diag`: [F] for peepholes; `lstm_cell/projection/kernel`: [F, F] for the
    projection.
    """

    unit_names = ("standardlstm",)

    default_scope = "lstm_cell"
    transforms_input = False

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: int | None = None,
        num_proj_shards: int | None = None,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: str | Callable[[tf.Tensor], tf.Tensor] | None = None,
        reuse: bool | None = None,
        name: str | None = None,
        dtype: Any = None,
        dynamic: bool = False,
        trainable: bool = True,
    ) -> None:
        """
        :param num_units: size of the output
        :param use_peepholes: the gates see the cell
        :param cell_clip: the cell stays between -cell_clip and cell_clip
        :param initializer: of the kernel
        :param num_proj: there is a projection of the output. It has to be n_out
        :param proj_clip: the projected output stays between -proj_clip and proj_clip
        :param num_unit_shards: only None
        :param num_proj_shards: only None
        :param forget_bias: added to the forget gate
        :param state_is_tuple: only True
        :param activation: instead of tanh
        :param reuse: only None. See the option `reuse_params` of the layer
        :param name: of the parameters' scope
        :param dtype: only None
        :param dynamic: only False
        :param trainable: whether training changes the parameters
        """
        super().__init__(num_units)
        self.only_possible = {
            "num_unit_shards": (num_unit_shards, None),
            "num_proj_shards": (num_proj_shards, None),
            "reuse": (reuse, None),
            "state_is_tuple": (state_is_tuple, True),
            "dtype": (dtype, None),
            "dynamic": (dynamic, False),
            "num_proj": (num_proj, None if num_proj is None else num_units),
        }
        self.use_peepholes = use_peepholes
        self.num_proj = num_proj
        self.initializer = initializer
        self.cell_clip = cell_clip
        self.proj_clip = proj_clip
        self.forget_bias = forget_bias
        self.activation = get_activation_function(activation) if isinstance(activation, str) else activation or tf.tanh
        self.scope = name or self.default_scope
        self.trainable = trainable

    def make_parameters(self) -> None:
        """See `RecUnit.make_parameters`."""
        self.only_default(**self.only_possible)
        if self.initializer is not None:
            self.inits = dataclasses.replace(self.inits, recurrent=self.initializer)
        self.gates = self.gates_dim(4)
        self.kernel = self.joint_weights(f"{self.scope}/kernel", self.gates)
        self.weights, self.rec_weights = self.split_weights(self.kernel, _TO_FUSED_ORDER)
        self.b = with_forget_bias(self.bias(f"{self.scope}/bias", self.gates), self.forget_bias, _TO_FUSED_ORDER)
        names = ("i", "f", "o") if self.use_peepholes else ()
        self.peepholes = [self._vector(f"{self.scope}/w_{gate}_diag") for gate in names]
        self.projection = self._projection_matrix() if self.num_proj else None

    @property
    def is_plain(self) -> bool:
        """Whether none of the options is used that change the formula."""
        return not self.peepholes and self._is_plain_but_for_peepholes

    @property
    def _is_plain_but_for_peepholes(self) -> bool:
        return self.projection is None and self.cell_clip is None and self.activation is tf.tanh

    @property
    def has_kernel(self) -> bool:
        """See `RecUnit.has_kernel`."""
        return self._is_plain_but_for_peepholes and super().has_kernel

    def step(self, x: tf.Tensor, state: State, *once: tf.Tensor) -> tuple[tf.Tensor, State]:
        """See `RecUnit.step`."""
        if self.is_plain:
            return super().step(x, state)
        c, h = state
        z_j, z_i, z_f, z_o = tf.split(x + loop_products.matmul(h, self.rec_weights), 4, axis=-1)
        return self._with_options(z_j, z_i, z_f, z_o, c, h)

    def _with_options(
        self, z_j: tf.Tensor, z_i: tf.Tensor, z_f: tf.Tensor, z_o: tf.Tensor, c: tf.Tensor, h: tf.Tensor
    ) -> tuple[tf.Tensor, State]:
        if self.peepholes:
            z_i, z_f = z_i + self.peepholes[0] * c, z_f + self.peepholes[1] * c
        new_c = tf.sigmoid(z_f) * c + tf.sigmoid(z_i) * self.activation(z_j)
        if self.cell_clip is not None:
            new_c = tf.clip_by_value(new_c, -self.cell_clip, self.cell_clip)
        if self.peepholes:
            z_o = z_o + self.peepholes[2] * new_c
        new_h = tf.sigmoid(z_o) * self.activation(new_c)
        if self.projection is not None:
            new_h = loop_products.matmul(new_h, self.projection)
            if self.proj_clip is not None:
                new_h = tf.clip_by_value(new_h, -self.proj_clip, self.proj_clip)
        return new_h, (new_c, new_h)

    def single_step(
        self, source: Tensor, dims: Sequence[Dim], state: State, *once: tf.Tensor
    ) -> tuple[tf.Tensor, State]:
        """See `RecUnit.single_step`. The kernel is used as it is."""
        if source.sparse:
            return super(FusedLstm, self).single_step(source, dims, state, *once)
        c, h = state
        x = tf.concat([as_matrix(source, dims, self.in_dim), h], axis=-1)
        z, bias = loop_products.matmul(x, self.kernel.raw_tensor), self.bias_in_order_of_kernel()
        if self.has_kernel and is_in_loop():
            peepholes = outside_of_loops(_side_by_side, *self.peepholes) if self.peepholes else None
            c, h = lstm_step(z, c, bias=bias, peepholes=peepholes, i_first=True)
            return h, (c, h)
        z_i, z_j, z_f, z_o = tf.split(tf.nn.bias_add(z, bias), 4, axis=-1)
        return self._with_options(z_j, z_i, z_f, z_o, c, h)

    def scan(self, x: tf.Tensor, state: State, *, num_unrolled: int | None) -> tuple[tf.Tensor, State]:
        """See `RecUnit.scan`."""
        if self.is_plain:
            return super().scan(x, state, num_unrolled=num_unrolled)
        return super(FusedLstm, self).scan(x, state, num_unrolled=num_unrolled)

    def bias_in_order_of_kernel(self) -> tf.Tensor:
        """:return: (4 F,)"""
        return outside_of_loops(lambda raw: reorder_gates(raw, _TO_FUSED_ORDER), self.b.raw_tensor)

    def _vector(self, name: str) -> tf.Tensor:
        return self.parameter(name, [self.out_dim], self.inits.recurrent or "glorot_uniform").raw_tensor

    def _projection_matrix(self) -> tf.Tensor:
        return self.recurrent_weights(f"{self.scope}/projection/kernel", self.gates_dim(1))


class BasicLSTMCell(LSTMCell):
    """
    LSTM without peephole connections.

    Parameters `basic_lstm_cell/kernel` and `basic_lstm_cell/bias`, see `LSTMCell`.
    """

    unit_names = ("basiclstm",)

    default_scope = "basic_lstm_cell"

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: str | Callable[[tf.Tensor], tf.Tensor] | None = None,
        reuse: bool | None = None,
        name: str | None = None,
        dtype: Any = None,
        dynamic: bool = False,
        trainable: bool = True,
    ) -> None:
        """
        :param num_units: size of the output
        :param forget_bias: like all others, see `LSTMCell`
        """
        super().__init__(
            num_units,
            forget_bias=forget_bias,
            state_is_tuple=state_is_tuple,
            activation=activation,
            reuse=reuse,
            name=name,
            dtype=dtype,
            dynamic=dynamic,
            trainable=trainable,
        )


class ZoneoutLSTMCell(LSTMCell):
    """
    LSTM with zoneout (Krueger et al. 2017): in training, each entry of the state stays with some probability what it
    was; otherwise, the state is the expected value of that. Parameters as those of `LSTMCell`.
    """

    unit_names = ("zoneoutlstm",)

    def __init__(
        self,
        num_units: int,
        zoneout_factor_cell: float = 0.0,
        zoneout_factor_output: float = 0.0,
        use_zoneout_output: bool | type[NotSpecified] = NotSpecified,
    ) -> None:
        """
        :param num_units: size of the output
        :param zoneout_factor_cell: probability that an entry of `c` stays
        :param zoneout_factor_output: probability that an entry of `h` stays
        :param use_zoneout_output: whether the output is `h` after zoneout, as in the paper; otherwise it is the one
            before. Default: since behavior version 17
        """
        super().__init__(num_units)
        self.factors = (zoneout_factor_cell, zoneout_factor_output)
        if use_zoneout_output is NotSpecified:
            use_zoneout_output = BehaviorVersion.get() >= 17
        self.output_state = 1 if use_zoneout_output else None

    def make_parameters(self) -> None:
        """See `RecUnit.make_parameters`."""
        cell, output = self.factors
        if not (0.0 <= cell <= 1.0 and 0.0 <= output <= 1.0):
            given = f"zoneout_factor_cell={cell}, zoneout_factor_output={output}"
            raise ConfigError(f"{self.layer.where()}: unit_opts: {given}: both must be between 0 and 1.")
        super().make_parameters()
        self.seeds = [self.layer.network.random_seed() for _ in self.factors]

    is_plain = False  # each frame goes through `step`
    has_kernel = False

    def _with_options(
        self, z_j: tf.Tensor, z_i: tf.Tensor, z_f: tf.Tensor, z_o: tf.Tensor, c: tf.Tensor, h: tf.Tensor
    ) -> tuple[tf.Tensor, State]:
        output, (new_c, new_h) = super()._with_options(z_j, z_i, z_f, z_o, c, h)
        new_c = self._zoneout(c, new_c, self.factors[0], self.seeds[0])
        new_h = self._zoneout(h, new_h, self.factors[1], self.seeds[1])
        return (output if self.output_state is None else new_h), (new_c, new_h)

    def _zoneout(self, old: tf.Tensor, new: tf.Tensor, factor: float, seed: int) -> tf.Tensor:
        if not factor:
            return new

        def in_training() -> tf.Tensor:
            stays = raw_random.uniform(tf.shape(old), seed=seed, dtype=old.dtype) < factor
            return tf.where(stays, old, new)

        return self.if_training(in_training, lambda: new + factor * (old - new))


def _side_by_side(*vectors: tf.Tensor) -> tf.Tensor:
    return tf.stack(vectors)
