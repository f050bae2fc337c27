"""The frames of a loop that is being made: all frames at once, outside; or a single one, inside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Tensor
from returnn.tf.layers.core.layer_base import InternalLayer, LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.loop.final_state import KeptFrames
from returnn.tf.layers.loop.frame import Frame
from returnn.tf.layers.loop.initial import applied_on_zeros, initial_value
from returnn.tf.layers.loop.kept_state import KeptInitial, KeptState, is_word
from returnn.tf.layers.loop.prev_layer import PrevLayer, hidden_state_names, owner_of_state
from returnn.tf.layers.loop.time_axis import shifted
from returnn.tf.util.activations import OutputWithActivation

if TYPE_CHECKING:
    from returnn.tf.layers.loop.emit import LoopEmitter, LoopInputs
    from returnn.tf.layers.loop.infer import InferredLoop


@dataclass(frozen=True)
class KeptLayer:
    """A layer inside of the loop of which all frames are needed outside."""

    path: str
    layer: LayerBase  # template
    template: Tensor  # of what is kept
    is_before_activation: bool  # it is the input of the activation function, as losses need it


_TAKEN_OVER = (
    "loss", "target", "targets", "_target_layers", "spatial_smoothing", "darc1", "only_on_eval", "_is_output_layer",
    "updater_opts",
)  # fmt: skip


def kept_as_layer(
    kept: KeptLayer,
    frames: Tensor,
    network: Network,
    *,
    states: dict[str, Tensor],
    initial: dict[str, Tensor],
    step_layer: LayerBase,
) -> LayerBase:
    """
    :param frames: [T, ...], of what is kept
    :param states: [T, ..., F], parts of the hidden state, as far as they are kept, too
    :param initial: the same before the first frame, [..., F]
    :param step_layer: the layer in a frame of the loop
    :return: layer that stands for all frames of a layer inside of the loop, with its loss
    """
    act = None
    if kept.is_before_activation:
        old = kept.layer.output_before_activation
        act = OutputWithActivation(frames, old.act_func, old.act_func_opts)
        frames = act.after
    frames.version = 1
    layer = KeptFrames(
        name=kept.path, network=network, output=frames, debug_type_name="all frames", time_dim=frames.dims[0],
        states=states, initial=initial,
    )  # fmt: skip
    for name in _TAKEN_OVER:
        setattr(layer, name, getattr(kept.layer, name))
    layer.params = dict(step_layer.all_params)  # for those who share them
    layer.final_state = step_layer.final_state
    layer.output_before_activation = act
    layer.kwargs = {"only_on_eval": kept.layer.only_on_eval}
    return layer


class SequenceFrame(Frame):
    """All frames at once: what is computed before or after the loop."""

    def __init__(
        self, inputs: LoopInputs, inferred: InferredLoop, *, known: dict[str, LayerBase], has_known_length: bool
    ) -> None:
        """
        :param has_known_length: whether the number of frames is known
        :param known: layers for all frames that there are already, by path
        """
        super().__init__(inputs.cell.prefix)
        self.inputs = inputs
        self.inferred = inferred
        self.known = known
        data = {} if inputs.source is None else {"source": inputs.source}
        self.network = inputs.cell.make_network(self, is_step=False, data=data)
        if has_known_length:
            i = rf.range_over_dim(inputs.time_dim)
            self.network.set_rec_step_info(i=i, offset=inputs.cell.rec_layer.first_step())

    def make(self, path: str) -> LayerBase:
        """:return: layer of the time step, for all frames"""
        return self.get_layer(path)

    def give_targets(self) -> None:
        """The losses of layers that were in the loop compare all frames with those of targets from the time step."""
        for layer in self.known.values():
            if isinstance(layer, KeptFrames) and layer.loss is not None:
                paths = {key: self.path_of(x.get_absolute_name()) for key, x in layer._target_layers.items()}
                made = {key: self.make(path) for key, path in paths.items() if path is not None}
                layer._target_layers = {**layer._target_layers, **made}

    def step_data(self, key: str, data: Tensor) -> Tensor:
        """:return: data of the network around, in the order of the loop"""
        return self.in_order(self.inputs.cell.rec_layer.data_of_frames(key, data, self.inputs.time_dim))

    def in_order(self, x: Tensor) -> Tensor:
        """:return: the frames of a sequence in the order of the loop"""
        return self.inputs.cell.in_order(x)

    def get_layer(self, name: str) -> LayerBase:
        """:return: layer by a name as it stands in the time step"""
        return self.network.construct_layer(self.network.layers_desc, name)

    def moved_layer(self, path: str) -> LayerBase | None:
        """:return: what is there already"""
        return self.known.get(path)

    def prev_layer(self, path: str) -> LayerBase:
        """:return: all frames, each one later"""
        output = self.prev_output(path)
        layer = self.make(path)
        owner_path = owner_of_state(path, self.inputs.cell.unit)
        states = self.inferred.states.get(owner_path, {})

        def state_before(name: str) -> Tensor:
            state = states[name]
            owner = self.layer_for_parameters(owner_path)
            initial = initial_value(state.initial, state.template, layer=owner, get_layer=self.get_layer)
            return shifted(layer.hidden_state_parts()[name], self.inputs.time_dim, initial)

        names = tuple(name for name in states if layer.has_hidden_state() and name in layer.hidden_state_parts())
        return PrevLayer(
            name=f"prev:{path}", network=self.network, output=output, state_names=names, state_before=state_before
        )

    def prev_output(self, path: str) -> Tensor:
        """:return: output of the frame before, for all frames"""
        return shifted(self.make(path).output, self.inputs.time_dim, self.initial_output(path))

    def initial_output(self, path: str, template: Tensor | None = None) -> Tensor:
        """
        :param path: of a layer
        :param template: what its output looks like, if no layer uses "prev:" of it
        :return: output before the first frame
        """
        layer = self.layer_for_parameters(path)
        template = self.inferred.prev.get(path, template)
        kept = self.inputs.kept_outputs
        if path not in kept and is_word(layer._initial_output):
            kept[path] = KeptInitial(KeptState(layer, "output", layer._initial_output), lambda: template)
            kept[path]()
        if path in kept:
            return kept[path].kept.before
        return initial_value(
            layer._initial_output, template, layer=layer, get_layer=self.get_layer,
            apply_on_zeros=lambda: applied_on_zeros(self.inferred.layers[path], self.network),
        )  # fmt: skip

    def layer_for_parameters(self, path: str) -> LayerBase:
        """:return: layer by which parameters can be made that belong to the one of this path"""
        template = self.inferred.layers[path]
        layer = InternalLayer(
            name=template.name, network=self.network, output=template.output, name_scope=template.name_scope
        )
        layer._initial_output = template._initial_output
        self.network.params.add_layer(layer)
        return layer


class StepFrame(Frame):
    """One frame, inside of the loop."""

    def __init__(self, loop: LoopEmitter, i: Any, variables: dict[str, Any]) -> None:
        """
        :param loop: the loop
        :param i: raw scalar, number of the frame
        :param variables: of the loop, raw
        """
        super().__init__(loop.inputs.cell.prefix)
        self.loop = loop
        self.i = i
        self.variables = variables
        data = {"source": loop.reads["data:source"](i)} if "data:source" in loop.reads else {}
        self.network = loop.inputs.cell.make_network(self, is_step=True, data=data)
        index = Tensor("i", dims=(), dtype="int32", raw_tensor=i, sparse_dim=loop.inputs.time_dim)
        self.network.set_rec_step_info(i=index, offset=loop.inputs.cell.rec_layer.first_step())
        self._slices: dict[str, LayerBase] = {}

    def make(self, path: str) -> LayerBase:
        """:return: layer of this frame"""
        return self.network.construct_layer(self.network.layers_desc, path)

    def moved_layer(self, path: str) -> LayerBase | None:
        """:return: this frame of a layer that is computed before the loop"""
        return self._slice(path, path) if path in self.loop.reads else None

    def prev_layer(self, path: str) -> LayerBase:
        """:return: the layer in the frame before"""
        name = f"prev:{path}"
        if name in self.loop.reads:
            return self._slice(name, name)
        output = self.loop.inferred.prev[path].copy_template()
        output.raw_tensor = self.variables["prev"][path]
        owner = owner_of_state(path, self.loop.inputs.cell.unit)
        states = self.loop.inferred.states.get(owner, {})
        names = hidden_state_names(path, self.loop.inputs.cell.unit, states)
        return PrevLayer(
            name=name,
            network=self.network,
            output=output,
            state_names=tuple(state for state in names if state in states),
            state_before=lambda state: self.state_before(owner, state, output),
        )

    def output_before(self, path: str) -> Tensor | None:
        """:return: output of a layer in the frame before, as far as that is kept"""
        return self.prev_layer(path).output if path in self.variables["prev"] else None

    def step_data(self, key: str, data: Tensor) -> Tensor:
        """:return: frame of data of the network around"""
        return self.loop.extern_data_of_step(key, data, self.i)

    def in_order(self, x: Tensor) -> Tensor:
        """:return: the frames of a sequence in the order of the loop"""
        return self.loop.inputs.cell.in_order(x)

    def state_before(self, path: str, key: str, template: Tensor) -> Tensor:
        """:return: state after the frame before"""
        state = self.loop.inferred.states[path][key].template.copy_template()
        state.raw_tensor = self.variables["state"][path][key]
        beams = self.network.beams
        return beams.translate(state, beams.of(template))

    def state_templates(self, path: str) -> dict[str, Tensor]:
        """:return: what the state of a layer looks like, by the names of its parts"""
        return {key: state.template for key, state in self.loop.inferred.states.get(path, {}).items()}

    def scores_before(self) -> Tensor | None:
        """:return: [B, beam]: scores of the hypotheses after the frame before"""
        return self._of_prev_beam("scores", "float32")

    def src_beams_before(self) -> Tensor | None:
        """:return: [B, beam], int32: which hypotheses those after the frame before continue; 0 in the first frame"""
        out = Tensor("src_beams", dims=self.loop.dims_of_hypotheses, dtype="int32")
        none = tf.zeros(tf.shape(self.variables["scores"]), "int32")
        out.raw_tensor = tf.cond(self.i > 0, lambda: self.variables["src_beams"].read(self.i - 1), lambda: none)
        return out

    def ended_before(self) -> Tensor | None:
        """:return: [B, beam], bool: whether the sequence had ended before this frame"""
        if "ended" in self.variables:
            return self._of_prev_beam("ended", "bool")
        lengths, index = self.loop.inputs.time_dim.get_size_tensor(), self.network.get_rec_step_info().index
        if self.network.get_config().options.search_depends_on_batch:
            return rf.compare(index, ">", lengths)  # for one frame beyond the end, where the batch has that
        return rf.compare(index, ">=", lengths)

    def _of_prev_beam(self, name: str, dtype: str) -> Tensor:
        dims = self.loop.dims_of_hypotheses
        return Tensor(name, dims=dims, dtype=dtype, raw_tensor=self.variables[name])

    def _slice(self, key: str, name: str) -> LayerBase:
        if key not in self._slices:
            self._slices[key] = InternalLayer(name=name, network=self.network, output=self.loop.reads[key](self.i))
        return self._slices[key]
