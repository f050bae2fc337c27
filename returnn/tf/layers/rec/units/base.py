"""
`RecUnit`: the mathematics of one recurrent step.

A unit is made of its options alone. When a layer uses it, it declares its parameters through that layer, projects the
input of all frames at once, and computes one step. In between, everything is a matrix of TensorFlow: (N, F), where N
counts all that the frames have beside time and feature. What dims those are, and the order of the frames, is up to the
layer.

A unit with a faster way to go over all frames overrides `scan`, or has a kernel: `has_kernel`, `scan_by_kernel`.

Without a layer, a unit is a cell that can be called on raw tensors, as `BaseRNNCell` says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import tensorflow as tf

import returnn.frontend as rf
from returnn.frontend import backend_ctx
from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_low_level import raw_random
from returnn.tf.frontend_low_level.kernels.frame_loop import loop_over_frames
from returnn.tf.frontend_low_level.outermost_graph import outermost_graph
from returnn.tf.layers.rec.units.cell_owner import CellOwner
from returnn.tf.layers.rec.units.rnn_cell_base import BaseRNNCell
from returnn.tf.layers.rec.units.sequence_frames import as_matrix
from returnn.tf.util.lstm_state import LSTMStateTuple
from returnn.util.errors import ConfigError

if TYPE_CHECKING:
    from returnn.tf.layers.core.layer_base import LayerBase

State = tuple[tf.Tensor, ...]


@dataclass(frozen=True)
class WeightInits:
    """Initial values of the weights of a unit, None for its default."""

    forward: Any = None
    recurrent: Any = None
    bias: Any = None


class RecUnit(BaseRNNCell):
    """The mathematics of one recurrent step. See the head of this module."""

    unit_names: ClassVar[tuple[str, ...]] = ()  # by which configs name it, in lower case
    state_names: ClassVar[tuple[str, ...]] = ("c", "h")  # one name alone: the state is no tuple
    hidden_state_names: ClassVar[tuple[str, ...]] = ()  # parts that configs do not see; 0 before the first frame
    output_state: int | None = None  # the part of the state which the output is, if it is one
    has_optional_projection: ClassVar[bool] = False  # whether `input_projection=False` means something
    transforms_input: ClassVar[bool] = True  # whether a cell wants `get_input_transformed` to be called first
    layer: LayerBase | CellOwner | None = None
    _once: tuple[tf.Tensor, ...] = ()  # of a cell, see `once`

    def __init__(self, num_units: int) -> None:
        """
        :param num_units: size of the output
        """
        super().__init__()
        self.num_units = num_units
        self._parts_of_dims: dict[Dim, list[int]] = {}  # dims of parameters that consist of parts: gates, inputs
        self.trainable = True  # False: training changes no parameters. Otherwise, the layer can still forbid it

    def use(
        self,
        *,
        layer: LayerBase | CellOwner,
        in_dim: Dim,
        out_dim: Dim,
        inits: WeightInits | None = None,
        input_projection: bool = True,
    ) -> RecUnit:
        """
        Makes the parameters.

        :param layer: which they belong to
        :param in_dim: feature dim of the input
        :param out_dim: feature dim of the output
        :param inits: initial values of the weights
        :param input_projection: whether there are weights for the input
        :return: the unit itself, which can be used now
        :raises ConfigError: if the options do not fit
        """
        self.layer = layer
        self.in_dim = in_dim
        self.out_dim = out_dim
        self.inits = inits or WeightInits()
        self.input_projection = input_projection
        if not input_projection and not self.has_optional_projection and in_dim.dimension != self.num_units:
            raise ConfigError(
                f"{layer.where()}: without input_projection, the source must have n_out = {self.num_units} features, "
                f"but it has {in_dim.dimension}."
            )
        self.make_parameters()
        return self

    # What a unit defines.

    def make_parameters(self) -> None:
        """
        Makes all parameters.

        :raises ConfigError: if the options do not fit
        """

    def project(self, source: Tensor) -> Tensor:
        """
        :param source: [..., in_dim], or sparse
        :return: [..., P]: the part of the step that depends on the input alone
        """
        raise NotImplementedError

    @property
    def num_drawn_once(self) -> int:
        """How many tensors `once` returns."""
        return 0

    def once(self, num_entries: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """
        :param num_entries: N
        :return: what is drawn at random once for all frames, (N, n_out) each. `step` gets it
        """
        return ()

    def step(self, x: tf.Tensor, state: State, *once: tf.Tensor) -> tuple[tf.Tensor, State]:
        """
        :param x: (N, P), projected input
        :param state: each (N, n_out)
        :param once: what `once` returned
        :return: output (N, n_out), and new state
        """
        raise NotImplementedError

    def single_step(
        self, source: Tensor, dims: Sequence[Dim], state: State, *once: tf.Tensor
    ) -> tuple[tf.Tensor, State]:
        """
        :param source: {dims..., in_dim}, or sparse
        :param dims: what makes up N
        :param state: like `once` see `step`, also for the result
        """
        x = self.project(source)
        return self.step(as_matrix(x, dims, x.dims[-1]), state, *once)

    def scan(self, x: tf.Tensor, state: State, *, num_unrolled: int | None) -> tuple[tf.Tensor, State]:
        """
        :param x: (T, N, P), projected input
        :param state: before the first frame
        :param num_unrolled: at least T: without a loop in the graph
        :return: output (T, N, n_out); and each part of the state after each frame, (T, N, n_out)
        """
        once = self.once(tf.shape(x)[1])
        shares = self.output_state is not None

        def body(frames: tuple[tf.Tensor, ...], state: State) -> tuple[State, State]:
            output, new_state = self.step(frames[0], state, *once)
            return new_state, new_state if shares else (*new_state, output)

        sizes = [self.num_units] * (len(state) + (not shares))
        back_prop = self.layer.back_prop is not False
        _, values = loop_over_frames(body, [x], state, sizes, back_prop=back_prop, num_unrolled=num_unrolled)
        states = values[: len(state)]
        return values[self.output_state if self.output_state is not None else -1], states

    @property
    def has_kernel(self) -> bool:
        """Whether `scan_by_kernel` can be used, with the options as they are."""
        return False

    def scan_by_kernel(
        self, x: tf.Tensor, state: State, *, lengths: tf.Tensor | None, backward: bool
    ) -> tuple[tf.Tensor, State, State]:
        """
        :param x: (T, N, P), projected input, with any values behind the ends of sequences
        :param state: before the first frame
        :param lengths: (N,), int32; None: all T
        :param backward: from the last frame of each sequence to the first
        :return: output (T, N, n_out), 0 behind the ends; each part of the state after each frame, (T, N, n_out), and
            after the last one, (N, n_out)
        """
        raise NotImplementedError

    # What units are made of.

    @property
    def output_size(self) -> int:
        """Size of the output."""
        return self.num_units

    @property
    def state_size(self) -> int | LSTMStateTuple | tuple[int, ...]:
        """Size of the state, as configs see it; a tuple if it has parts."""
        names = self.state_names
        if names == LSTMStateTuple._fields:
            return LSTMStateTuple(self.num_units, self.num_units)
        return self.num_units if len(names) == 1 else (self.num_units,) * len(names)

    # As a cell on raw tensors.

    def get_input_transformed(self, x: tf.Tensor, batch_dim: tf.Tensor | None = None) -> tf.Tensor:
        """See `BaseRNNCell.get_input_transformed`."""
        if not self.transforms_input:
            return x
        self._use_as_cell(x.shape[-1])
        self._once = self.once(tf.shape(x)[-2] if batch_dim is None else batch_dim)
        frames = _as_frames(tf.reshape(x, [-1, x.shape[-1]]), self.in_dim)
        with backend_ctx("tf"):
            out = self.project(frames).raw_tensor
        return tf.reshape(out, tf.concat([tf.shape(x)[:-1], [out.shape[-1]]], axis=0))

    def call(self, inputs: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any]:
        """See `BaseRNNCell.__call__`."""
        parts = (state,) if len(self.state_names) == 1 else tuple(state)
        parts += tuple(tf.zeros_like(parts[0]) for _ in self.hidden_state_names)
        if not self.transforms_input:
            self._use_as_cell(inputs.shape[-1])
            frame = _as_frames(inputs, self.in_dim)
            with backend_ctx("tf"):
                output, new = self.single_step(frame, frame.dims[:1], parts)
        elif self.layer is None:
            raise ConfigError(f"{type(self).__name__}: call get_input_transformed first, outside of the loop.")
        else:
            output, new = self.step(inputs, parts, *self._once)
        return output, self._packed_state(new[: len(self.state_names)])

    def _use_as_cell(self, num_in: int) -> None:
        if self.layer is None:
            dims = [
                Dim(n, name=f"{key}_dim", kind=Dim.Types.Feature)
                for key, n in (("in", num_in), ("out", self.num_units))
            ]
            self.use(layer=CellOwner(type(self).__name__), in_dim=dims[0], out_dim=dims[1])

    def _packed_state(self, parts: State) -> Any:
        if self.state_names == LSTMStateTuple._fields:
            return LSTMStateTuple(*parts)
        return parts[0] if len(parts) == 1 else parts

    def gates_dim(self, num: int) -> Dim:
        """:return: dim of `num` times the size of the output"""
        gates = self.layer.new_dim(f"gates{num}", num * self.num_units, kind=Dim.Types.Feature, auto_generated=False)
        self._parts_of_dims[gates] = [self.num_units] * num
        return gates

    def matmul(self, source: Tensor, weights: Tensor) -> Tensor:
        """:return: source times a matrix [in_dim, P]; for sparse data, the rows of the matrix"""
        axis = weights.dims[0]
        if source.sparse:
            return rf.gather(weights, indices=source, axis=axis)
        return rf.matmul(source, weights, reduce=axis, use_mask=False)

    def parameter(self, name: str, dims: Sequence[Dim], initial: Any) -> Tensor:
        """:return: parameter of the layer, of which it is known what its axes consist of"""
        parts = [self._parts_of_dims.get(dim) or self.layer.parts_of(dim) for dim in dims]
        return self.layer.parameter(name, dims, initial=initial, trainable=self.trained(), axes_split_info=parts)

    def trained(self) -> bool | None:
        """:return: whether training changes the parameters, None: as the layer says. Either of both can forbid it"""
        return None if self.trainable else False

    def forward_weights(self, name: str, gates: Dim) -> Tensor:
        """:return: parameter [in_dim, gates]"""
        return self.parameter(name, [self.in_dim, gates], self.inits.forward or "glorot_uniform")

    def recurrent_weights(self, name: str, gates: Dim) -> tf.Tensor:
        """:return: parameter [out_dim, gates], raw"""
        return self.parameter(name, [self.out_dim, gates], self.inits.recurrent or "glorot_uniform").raw_tensor

    def joint_weights(self, name: str, gates: Dim) -> Tensor:
        """:return: one parameter [in_dim + out_dim, gates], for the input and the output of the frame before"""
        num_in = self.in_dim.dimension
        assert num_in is not None
        both = self.layer.new_dim(f"{name}:in", num_in + self.num_units, kind=Dim.Types.Feature, auto_generated=False)
        self._parts_of_dims[both] = [*(self.layer.parts_of(self.in_dim) or [num_in]), self.num_units]
        return self.parameter(name, [both, gates], self.inits.recurrent or self.inits.forward or "glorot_uniform")

    def split_weights(self, weights: Tensor, order: Sequence[int] | None = None) -> tuple[Tensor, tf.Tensor]:
        """
        :param weights: see `joint_weights`
        :param order: of the gates in what is returned, see `reorder_gates`
        :return: [in_dim, gates]; raw (n_out, gates)
        """
        gates, sizes = weights.dims[1], [self.in_dim.dimension, self.num_units]

        def parts(raw: tf.Tensor) -> list[tf.Tensor]:
            return tf.split(reorder_gates(raw, order) if order else raw, sizes)

        for_input, for_output = outside_of_loops(parts, weights.raw_tensor) or (None, None)
        return Tensor(weights.name, dims=[self.in_dim, gates], dtype=weights.dtype, raw_tensor=for_input), for_output

    def bias(self, name: str, dim: Dim, initial: Any = 0.0) -> Tensor:
        """:return: parameter [dim]"""
        return self.parameter(name, [dim], initial if self.inits.bias is None else self.inits.bias)

    def dropped(self, x: tf.Tensor, rate: float, *, seed: int | None = None, is_training: Any = None) -> tf.Tensor:
        """:return: x, with entries dropped in training"""
        if not rate:
            return x
        if seed is None:
            seed = self.layer.network.random_seed()
        return self.if_training(lambda: raw_random.dropped(x, rate=rate, seed=seed), lambda: x, is_training=is_training)

    def if_training(
        self, in_training: Callable[[], tf.Tensor], otherwise: Callable[[], tf.Tensor], *, is_training: Any = None
    ) -> tf.Tensor:
        """:return: in_training() or otherwise(); `is_training` overrides what the network says"""
        if is_training is None:
            return self.layer.network.cond_on_train(in_training, otherwise)
        if isinstance(is_training, (bool, int)):
            return in_training() if is_training else otherwise()
        return tf.cond(is_training, in_training, otherwise)

    def only_default(self, **options: tuple[Any, Any]) -> None:
        """:raises ConfigError: if an option, of which (value, default) are given, has another value than the default"""
        for name, (value, default) in options.items():
            if value != default:
                raise ConfigError(
                    f"{self.layer.where()}: unit {self.layer.unit!r}: the option {name!r} can only be {default!r}, "
                    f"got {value!r}."
                )


def _as_frames(x: tf.Tensor, feature: Dim) -> Tensor:
    """
    :param x: (N, F)
    :return: [N, F]
    """
    size = Tensor("size", dims=(), dtype="int32", raw_tensor=tf.shape(x)[0])
    return Tensor(
        "frames", dims=[Dim(size, name="entries"), feature], dtype=x.dtype.name, feature_dim=feature, raw_tensor=x
    )


def outside_of_loops(function: Callable[..., Any], *inputs: tf.Tensor | None) -> Any:
    """
    :param function: of raw tensors
    :param inputs: such as values of parameters
    :return: function(*inputs), computed once if the inputs are outside of all loops; None if there are no values yet
    """
    if any(x is None for x in inputs):
        return None
    if tf.executing_eagerly() or any(getattr(x.graph, "outer_graph", None) is not None for x in inputs):
        return function(*inputs)
    with outermost_graph(), tf.control_dependencies(None):
        return function(*inputs)


def reorder_gates(x: tf.Tensor, order: Sequence[int]) -> tf.Tensor:
    """
    :param x: (..., num * F)
    :param order: for each gate of the result, the gate of x
    :return: the same with the gates in another order
    """
    if list(order) == sorted(order):
        return x
    parts = tf.split(x, len(order), axis=-1)
    return tf.concat([parts[i] for i in order], axis=-1)
