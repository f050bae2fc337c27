"""`RecLayer`: recurrence over a time dim, by a unit or by a subnetwork that describes one time step."""

from __future__ import annotations

from typing import Any

from returnn.tensor import Dim, Tensor
from returnn.tensor.dim import single_step_dim
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.options.layer_errors import naming_option
from returnn.tf.layers.rec.rec_subnetwork import RecSubnetwork
from returnn.tf.layers.rec.unit_layer import UnitLayer
from returnn.tf.layers.rec.units.base import RecUnit, WeightInits
from returnn.tf.layers.rec.units.registry import get_unit_class
from returnn.util.errors import ConfigError


class RecLayer(RecSubnetwork, UnitLayer):
    """
    Recurrence over a time dim.

    Source [..., T, F_in], output [T, ..., F]. `unit` is the name of a unit, such as "nativelstm2", "gru", "rhn", with
    parameters `rec/W` and so on; or a dict with the layers of one time step. There, "prev:x" is the layer x in the step
    before, "data:source" the frame of the source, and "output" the output.

    Inside of a loop, a unit on a source without time axis is a single step: its state comes from the step of the loop
    before.
    """

    layer_class = "rec"

    def __init__(
        self,
        unit: str | dict[str, Any] | type = "lstm",
        unit_opts: dict[str, Any] | None = None,
        direction: int | None = None,
        input_projection: bool = True,
        max_seq_len: Any = None,
        max_seq_len_via: LayerBase | None = None,
        forward_weights_init: Any = None,
        recurrent_weights_init: Any = None,
        bias_init: Any = None,
        optimize_move_layers_out: bool | None = None,
        cheating: bool | str = False,
        unroll: bool = False,
        back_prop: bool | None = None,
        use_global_rec_step_offset: bool = False,
        include_eos: bool = False,
        debug: bool | None = None,
        axis: Dim | str | None = None,
        in_dim: Dim | None = None,
        out_dim: Dim | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param unit: name or class of a unit; or the layers of one time step, by name
        :param unit_opts: options of the unit
        :param direction: 1 forward; -1 backward, from the last frame of each sequence to its first
        :param input_projection: whether native LSTMs multiply the input with a matrix. Without it, the source has to
            have 4 * n_out features. Of other units, the source has to have n_out features then
        :param max_seq_len: largest number of frames, if the layer "end" decides where a sequence ends: a number, an
            expression such as "max_len_from('base:encoder') * 2"; or the number of frames to unroll
        :param max_seq_len_via: the same by the output of a layer, for each sequence
        :param forward_weights_init: initial value of the weights for the input
        :param recurrent_weights_init: initial value of the weights for the output of the frame before
        :param bias_init: initial value of the bias
        :param optimize_move_layers_out: compute layers of a subnetwork outside of the loop if possible. Default: yes
        :param cheating: not used any more, see the option of the layer class "choice"
        :param unroll: no loop in the graph, but its frames one after the other, if their number is in the config: by a
            static time dim, or as `max_seq_len`. Otherwise it is a loop all the same
        :param back_prop: whether there will be gradients. Default: in training
        :param use_global_rec_step_offset: the steps of a subnetwork (`:i`, positions) go on from the batch before, in
            each epoch from 0
        :param include_eos: whether the frame in which "end" is true is part of the sequence
        :param debug: print each step of a subnetwork
        :param axis: the dim to go over. Default: the time dim of the source. `single_step_dim` for a single step
        :param in_dim: which dim of the source is the feature dim
        :param out_dim: feature dim of the output
        """
        super().__init__(unit=unit, unit_opts=unit_opts, in_dim=in_dim, out_dim=out_dim, **kwargs)
        self.direction = direction
        self.input_projection = input_projection
        self.max_seq_len = max_seq_len
        self.max_seq_len_via = max_seq_len_via
        self.forward_weights_init = forward_weights_init
        self.recurrent_weights_init = recurrent_weights_init
        self.bias_init = bias_init
        self.optimize_move_layers_out = optimize_move_layers_out
        self.cheating = cheating
        self.unroll = unroll
        self.back_prop = back_prop
        self.use_global_rec_step_offset = use_global_rec_step_offset
        self.include_eos = include_eos
        self.debug = debug
        self.axis = axis
        if direction not in (None, 1, -1):
            raise ConfigError(f"{self.where()}: option 'direction': expected 1 or -1, got {direction!r}.")
        if isinstance(max_seq_len, int) and max_seq_len < 0:
            raise ConfigError(f"{self.where()}: option 'max_seq_len': expected a number of frames, got {max_seq_len}.")

    def has_initial_state_in_unit(self) -> bool:
        """:return: not for a step of a loop, as recorded; unlike the layer "rnn_cell" there"""
        return self.network.get_inside_rec_time_dim(inside_loop=False) is None

    @property
    def has_unit(self) -> bool:
        """Whether this is about a unit, and not a subnetwork."""
        return not isinstance(self.unit, dict)

    def compute_inputs(self) -> list[Tensor]:
        """:return: the joined sources; a subnetwork need not have any"""
        return super().compute_inputs() if self.sources or self.has_unit else []

    def compute(self, *sources: Tensor) -> Tensor:
        """:return: [T, ..., F]"""
        if self.has_unit:
            return self.compute_unit(sources[0])
        return self.compute_subnetwork(sources[0] if sources else None)

    def time_dim_of(self, source: Tensor) -> Dim | None:
        """:return: the dim to go over, None for a single step"""
        loop_dim = self.network.get_inside_rec_time_dim(inside_loop=False)
        is_inside = self.network.get_inside_rec_time_dim(inside_loop=True) is not None
        dim_of_step = None if is_inside else loop_dim
        if self.axis is None:
            rest = source
            if loop_dim is not None and loop_dim in source.dims and not is_inside:
                rest = source.copy_template_excluding_axis(source.get_axis_from_description(loop_dim))
                rest.time_dim_axis = rest._guess_time_dim_axis()
            own = rest.get_time_dim_tag() if rest.have_time_axis() else None
            return dim_of_step if own is None else own
        if self.axis is single_step_dim or (isinstance(self.axis, Dim) and self.axis == loop_dim):
            return dim_of_step
        with naming_option("axis"):
            return source.get_dim_tag_from_description(self.axis)

    def has_hidden_state(self) -> bool:
        """:return: whether the unit has one; of a subnetwork, whether its output has one"""
        if self.has_unit:
            return True
        output = None if self.cell is None else self.get_sub_layer("output")
        return output is not None and output.has_hidden_state()

    def hidden_state_parts(self) -> dict[str, Tensor]:
        """:return: see `UnitLayer.hidden_state_parts`; of a subnetwork, that of its output after the last frame"""
        if self.has_unit or self.cell is None:
            return super().hidden_state_parts()
        return self.last_states_of_output()

    def weight_inits(self) -> WeightInits:
        """See `UnitLayer.weight_inits`."""
        return WeightInits(self.forward_weights_init, self.recurrent_weights_init, self.bias_init)

    def unit_arguments(self) -> dict[str, Any]:
        """See `UnitLayer.unit_arguments`."""
        return {"input_projection": self.input_projection}

    def is_backward(self) -> bool:
        """See `UnitLayer.is_backward`."""
        return self.direction == -1

    def num_unrolled(self) -> int | None:
        """See `UnitLayer.num_unrolled`."""
        return self.max_seq_len if self.unroll and isinstance(self.max_seq_len, int) else None

    @classmethod
    def get_rnn_cell_class(cls, name: Any, cell_only: bool = False) -> type[RecUnit]:
        """
        :param name: of a unit
        :param cell_only: for a single step
        :raises ConfigError: if there is no such unit
        """
        return get_unit_class(name, as_cell=cell_only)
