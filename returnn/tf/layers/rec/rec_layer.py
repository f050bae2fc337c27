"""`RecLayer`: recurrence over a time dim, by a unit or by a subnetwork that describes one time step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.floors.layer_params import params_in_scope
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.loop.compile import CompiledLoop
from returnn.tf.layers.loop.prev_layer import PrevLayer
from returnn.tf.layers.options.layer_errors import naming_option
from returnn.tf.layers.rec.frames_of_loop import find_time_dim
from returnn.tf.layers.rec.initial_state import make_raw_initial_state
from returnn.tf.layers.rec.loop_recurrence import LoopOptions, LoopRecurrence
from returnn.tf.layers.rec.rec_unstack import declared_time_dim
from returnn.tf.layers.rec.recurrent_layer import RecurrentLayer
from returnn.tf.layers.rec.subnetwork_cell import _SubnetworkRecCell
from returnn.tf.layers.rec.unit_recurrence import UnitOptions, UnitRecurrence, find_unit_class
from returnn.tf.layers.rec.units.base import RecUnit, WeightInits
from returnn.tf.layers.rec.units.cudnn_params import lstm_block_of_cudnn
from returnn.tf.layers.rec.units.registry import get_unit_class
from returnn.tf.layers.user_code.outside_view import making_layers
from returnn.util.errors import ConfigError


class RecLayer(RecurrentLayer):
    """
    Recurrence over a time dim.

    Source [..., T, F_in], output [T, ..., F]. `unit` is the name of a unit, such as "nativelstm2", "gru", "rhn", with
    parameters `rec/W` and so on; or a dict with the layers of one time step. There, "prev:x" is the layer x in the step
    before, "data:source" the frame of the source, and "output" the output.

    Inside of a loop, a unit on a source without time axis is a single step: its state comes from the step of the loop
    before.
    """

    layer_class = "rec"
    SubnetworkRecCell = _SubnetworkRecCell

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
            expression such as "max_len_from('base:encoder') * 2"; or the number of frames to unroll. The hypotheses of
            a search that this one goes on from have limits of their own
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

        self.leaves_out_end = isinstance(unit, dict) and "end" in unit and not include_eos
        self.recurrence = self._make_loop(unit) if isinstance(unit, dict) else self._make_unit(unit)

    def _make_loop(self, unit: dict[str, Any]) -> LoopRecurrence:
        return LoopRecurrence(
            self,
            LoopOptions(
                unit,
                self.time_dim_of,
                axis=self.axis if isinstance(self.axis, Dim) else None,
                backward=self.direction == -1,
                max_seq_len=self.max_seq_len,
                max_seq_len_via=self.max_seq_len_via,
                optimize=self.optimize_move_layers_out,
                unroll=self.unroll,
                back_prop=self.back_prop,
                counts_on=self.use_global_rec_step_offset,
                include_eos=self.include_eos,
                debug=bool(self.debug),
            ),
        )

    def _make_unit(self, unit: Any) -> UnitRecurrence:
        recurrence = UnitRecurrence(
            self,
            UnitOptions(
                find_unit_class(self, unit, self.unit_opts),
                self.unit_opts,
                self.time_dim_of,
                initial_state=self.initial_state,
                # not for a step of a loop, as recorded; unlike the layer "rnn_cell" there
                initial_state_in_unit=self.network.get_inside_rec_time_dim(inside_loop=False) is None,
                inits=WeightInits(self.forward_weights_init, self.recurrent_weights_init, self.bias_init),
                input_projection=self.input_projection,
                backward=self.direction == -1,
                num_unrolled=self.max_seq_len if self.unroll and isinstance(self.max_seq_len, int) else None,
            ),
        )
        if self._initial_output is None:
            self._initial_output = recurrence.initial_output
        return recurrence

    @property
    def compiled(self) -> CompiledLoop | None:
        """The loop over the subnetwork, as soon as its dims are known; None if there is none."""
        return self.recurrence.compiled

    @property
    def cell(self) -> _SubnetworkRecCell | None:
        """The same, as code of users sees it."""
        return None if self.compiled is None else _SubnetworkRecCell(self.compiled, self.recurrence.emitted)

    def time_dim_of(self, source: Tensor) -> Dim | None:
        """:return: the dim to go over, None for a single step"""
        if isinstance(self.axis, str):  # in a loop, the same dim as in a single frame, also where it was moved out
            dim, is_frame = self.sequence_dim_of(source, self.axis, option="axis")
            return find_time_dim(self.network, source, dim) if is_frame else dim
        with naming_option("axis"):
            return find_time_dim(self.network, source, self.axis)

    @staticmethod
    def convert_cudnn_canonical_to_lstm_block(
        reader: Any, prefix: str, target: str = "lstm_block_wrapper/"
    ) -> dict[str, Any]:
        """
        :param reader: of a checkpoint of TensorFlow 1, `tf.train.load_checkpoint`
        :param prefix: name scope of an LSTM of cuDNN with one layer and one direction, e.g. "layer2/rec/"
        :param target: name scope below that for the LSTM block, e.g. "lstm_block_wrapper/"
        :return: its kernel and bias, by name
        """
        return lstm_block_of_cudnn(reader, prefix, target)

    def has_zero_padding(self) -> bool:
        """:return: whether it is a unit, which has them at 0 whatever the source has there"""
        return isinstance(self.recurrence, UnitRecurrence) and not self.use_batch_norm

    # What is inside.

    @making_layers()
    def get_sub_layer(self, layer_name: str) -> LayerBase | None:
        """:return: layer of the time step, for all frames"""
        return self.recurrence.get_sub_layer(layer_name)

    def get_sub_layers(self) -> list[LayerBase]:
        """:return: the layers of the time step which are known for all frames"""
        return self.recurrence.get_sub_layers()

    def get_sub_networks(self) -> list[Network]:
        """:return: the networks inside of this layer"""
        return self.recurrence.get_sub_networks()

    @property
    def params(self) -> dict[str, Any]:
        """Parameters by name; of the layers of the time step, as "layer/W"."""
        return params_in_scope(self)

    def get_losses_initialized(self, reduce_func: Callable[[Any], Any] | None = None) -> list[Any]:
        """:return: its own loss, and those of the layers of the time step, named by their path"""
        return [*super().get_losses_initialized(reduce_func=reduce_func), *self.recurrence.get_losses(reduce_func)]

    def get_constraints_value(self) -> Any:
        """:return: raw scalar, for this layer and those of the time step"""
        return super().get_constraints_value() + self.recurrence.get_constraints_value()

    def must_be_in_loop(self) -> str:
        """:return: a reason, if it has other frames, or other hypotheses, in each frame of a loop around it"""
        if self.compiled is not None and not self.compiled.inputs.has_known_length:
            return "decides by itself how many frames there are"
        if self.compiled is not None and self.compiled.inferred.beam is not None:
            return "searches"
        return super().must_be_in_loop()

    def after_loop(self, totals: dict[str, Tensor]) -> None:
        """See `LayerBase.after_loop`. It got what is about the time step, as a loop in a loop."""
        super().after_loop(totals)
        self.recurrence.after_loop(totals)

    def losses_after_loop(self) -> list[Any]:
        """:return: losses of the layers of the time step"""
        return self.recurrence.losses_after_loop()

    def constraints_after_loop(self) -> Any:
        """:return: raw scalar, with that for the layers of the time step"""
        return super().constraints_after_loop() + self.recurrence.constraints_after_loop()

    def get_dep_layers(self) -> list[LayerBase]:
        """:return: what the output is computed from: sources, and layers that the time step uses as "base:..." """
        return list(dict.fromkeys([*super().get_dep_layers(), *self.recurrence.get_base_layers()]))

    # Documented helpers.

    @classmethod
    def get_available_sub_layer_names(cls, parent_layer_kwargs: dict[str, Any]) -> list[str]:
        """:return: the layers of the time step"""
        unit = parent_layer_kwargs.get("unit")
        return [name for name in unit if not name.startswith("#")] if isinstance(unit, dict) else []

    @classmethod
    def is_prev_step_layer(cls, layer: LayerBase) -> bool:
        """:return: whether the layer stands for one in the frame before"""
        return isinstance(layer, PrevLayer)

    @classmethod
    def transform_source_and_axis(
        cls,
        network: Network,
        source_data: Tensor | None = None,
        have_dyn_seq_len_end: bool = False,
        axis: Dim | str | None = None,
        opts: dict[str, Any] | None = None,
    ) -> tuple[Tensor | None, Dim]:
        """
        :param network: around the loop
        :param source_data: of the loop, None for none
        :param have_dyn_seq_len_end: whether a layer "end" decides how many frames there are
        :param axis: option of this name
        :param opts: options of the loop, of which the unit can say which dim it goes over
        :return: the source, and the dim that the loop goes over
        :raises ConfigError: if there is no such
        """
        if source_data is not None:
            dim = find_time_dim(network, source_data, axis)
            if dim is None:
                raise ConfigError(f"layer class 'rec': the source {source_data} has no time dim to go over.")
            return source_data, dim
        unit = (opts or {}).get("unit")
        dim = declared_time_dim(unit, network) if isinstance(unit, dict) else None
        if dim is None and isinstance(axis, Dim):
            dim = axis
        if dim is None and not have_dyn_seq_len_end:
            raise ConfigError("layer class 'rec': without a source, the option 'axis' or a layer 'end' is required.")
        return None, dim or Dim(None, name="time")

    @classmethod
    def get_rec_initial_extra_outputs(
        cls, batch_dim: Any, rec_layer: Any, unit: Any = "lstm", **kwargs: Any
    ) -> dict[str, Any]:
        """
        :param batch_dim: raw size of the batch
        :param rec_layer: the loop around
        :param unit: option of the layer, like the others
        :return: "state": raw state of a unit before the first frame; nothing for a subnetwork, whose layers have theirs
        """
        if isinstance(unit, dict):
            return {}
        return {"state": make_raw_initial_state(unit, batch_dim, as_cell=False, **kwargs)}

    @classmethod
    def get_rnn_cell_class(cls, name: Any, cell_only: bool = False) -> type[RecUnit]:
        """
        :param name: of a unit
        :param cell_only: for a single step
        :raises ConfigError: if there is no such unit
        """
        return get_unit_class(name, as_cell=cell_only)
