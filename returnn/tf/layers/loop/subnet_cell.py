"""
A loop over a subnetwork, which describes one time step: parse, infer, plan, emit.

`SubnetworkRecCell` holds the stages together. Each makes a value that can be printed and tested on its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import returnn.frontend as rf
from returnn.frontend import get_selected_backend
from returnn.log import log
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import InnerNetwork, Network
from returnn.tf.layers.loop.emit import EmittedLoop, LoopInputs, emit
from returnn.tf.layers.loop.final_state import asked_for_states
from returnn.tf.layers.loop.frame import Frame
from returnn.tf.layers.loop.graph import LoopGraph
from returnn.tf.layers.loop.infer import InferredLoop, description_of, frame_of, graph_of, infer
from returnn.tf.layers.loop.plan import LoopPlan, check_plan, make_plan
from returnn.tf.layers.loop.prev_layer import PrevLayer, hidden_state_names
from returnn.util.errors import ConfigError


class SubnetworkRecCell:
    """The compiler of a loop."""

    def __init__(
        self,
        rec_layer: LayerBase,
        unit: dict[str, Any],
        *,
        source: Tensor | None,
        time_dim: Dim,
        has_known_length: bool,
        optimize: bool = True,
        include_eos: bool = False,
        max_seq_len: Any = None,
        unroll: bool = False,
        back_prop: bool = True,
        backward: bool = False,
        debug: bool = False,
    ) -> None:
        """
        :param rec_layer: the layer
        :param unit: options of the layers of one time step, by name
        :param source: {time_dim, ...}: input, of which each step sees one frame as "data:source"; None for none
        :param time_dim: the dim to go over
        :param has_known_length: whether its lengths are known before the loop; otherwise the layer "end" decides
        :param optimize: whether layers are moved out of the loop
        :param include_eos: whether the frame in which "end" is true is part of the sequence
        :param max_seq_len: function of no arguments: largest number of frames, of all sequences or of each [B]
        :param unroll: no loop in the graph, but its frames one after the other
        :param back_prop: whether there will be gradients
        :param backward: from the last frame of each sequence to the first
        :param debug: print the outputs of all layers in each step
        """
        if "output" not in unit:
            raise ConfigError(f"{rec_layer.where()}: option 'unit': there is no layer 'output' in the subnetwork.")
        self.rec_layer = rec_layer
        self.unit = unit
        self.time_dim = time_dim
        self.backward = backward
        self.debug = debug
        self.source = None if source is None else self.in_order(source)
        self.has_known_length = has_known_length
        self.optimize = optimize
        self.include_eos = include_eos
        self.max_seq_len = max_seq_len
        self.unroll = unroll
        self.back_prop = back_prop
        self.prefix = f"{rec_layer.get_absolute_name()}/"
        if not has_known_length and "end" not in unit:
            raise ConfigError(
                f"{rec_layer.where()}: it is not known how many frames there are.\n"
                "  Give a source (option 'from'), a target, or a layer 'end' in the unit."
            )
        self.has_end = "end" in unit and not has_known_length
        net_dict = rec_layer.network.get_root_network().layers_desc
        self.asked_for_states = asked_for_states(net_dict, rec_layer.name, unit) | self._with_need_last()
        self.wanted = self._wanted()
        self.inferred: InferredLoop = infer(
            self.prefix, unit, self._make_template_network, self._make_prev_template, self.wanted, time_dim=time_dim
        )
        if self.has_end:
            self._check_end()
        self.wanted += self._wanted_if_made()
        self.graph: LoopGraph = graph_of(
            self.inferred, self.wanted, time_dim=time_dim, conditions=["end"] if self.has_end else [],
            length_is_known=has_known_length,
        )  # fmt: skip
        self.plan: LoopPlan = make_plan(rec_layer.get_absolute_name(), self.graph, optimize=optimize)
        check_plan(self.plan, self.graph)
        if rec_layer.network.get_config().options.debug_rec_layer and not rec_layer.network.only_template:
            print(self.plan, file=log.v1)
        self.emitted: EmittedLoop | None = None

    def in_order(self, x: Tensor) -> Tensor:
        """
        :param x: data of the network around, or something that the loop made
        :return: the frames in the order of the loop, or back; as it is if it does not have the dim of the loop
        """
        if not self.backward or self.time_dim not in x.dims:
            return x
        out = rf.reverse_sequence(x, axis=self.time_dim)
        out.feature_dim = x.feature_dim
        return out

    def output_template(self) -> Tensor:
        """:return: template of the output of the loop"""
        step = self.seen_from_outside(self.inferred.layers["output"].output)
        out = step._insert_dim(self.time_dim, 0)
        out.time_dim_axis = 0
        return out

    def seen_from_outside(self, frame: Tensor) -> Tensor:
        """
        :param frame: of a layer, perhaps a template
        :return: the same with another dim in place of the one of the loop: a frame that has all frames inside of it
        """
        if self.time_dim not in frame.dims:
            return frame
        all_frames = self.rec_layer.new_dim_like("all frames", self.time_dim)
        out = frame.copy_template_replace_dim_tag(frame.get_axis_from_description(self.time_dim), all_frames)
        if frame.raw_tensor is not None:
            out.raw_tensor = frame.raw_tensor
        return out

    def emit(self) -> EmittedLoop:
        """:return: the loop as TensorFlow graph"""
        inputs = LoopInputs(
            cell=self, source=self.source, time_dim=self.time_dim, has_known_length=self.has_known_length,
            include_eos=self.include_eos, max_seq_len=self.max_seq_len, unroll=self.unroll, back_prop=self.back_prop,
        )  # fmt: skip
        self.emitted = emit(inputs, self.inferred, self.plan)
        return self.emitted

    def compute(self) -> Tensor:
        """:return: output of the loop: a template if we only infer dims"""
        if get_selected_backend() == "template":
            return self.output_template()
        return self.in_order(self.emit().output)

    def _wanted(self) -> list[str]:
        """:return: layers of the time step which the outside needs, "output" first"""
        names = [
            "output",
            *(["end"] if self.has_end else []),
            *self._wanted_of(self.unit),
            *sorted(self.asked_for_states),
        ]
        return list(dict.fromkeys(names))

    def _wanted_of(self, descriptions: dict[str, Any], prefix: str = "") -> Iterator[str]:
        """
        :return: paths of layers that say themselves that they are needed; also of those in subnetworks with losses
        """
        for name, desc in descriptions.items():
            if name.startswith("#") or not isinstance(desc, dict):
                continue
            if desc.get("only_on_search") and not self.rec_layer.network.search_flag:
                continue
            has_loss = desc.get("loss") is not None
            if has_loss or (not prefix and (desc.get("is_output_layer") or desc.get("need_last"))):
                yield prefix + name
            if desc.get("class") == "subnetwork":
                yield from self._wanted_of(desc.get("subnetwork") or {}, f"{prefix}{name}/")

    def _wanted_if_made(self) -> list[str]:
        """:return: paths of layers which others need anyway, and of which all frames are needed"""
        made = self.inferred.layers
        blocks = tuple(f"{path}/" for path, layer in made.items() if layer.is_one_block)
        return [
            path
            for path, layer in made.items()
            if path not in self.wanted and not path.startswith(blocks) and self._has_use_for_frames(path, layer)
        ]

    def _has_use_for_frames(self, path: str, layer: LayerBase) -> bool:
        """:return: whether a layer in a subnetwork is an output, or regularization looks at the output of a layer"""
        network = self.rec_layer.network
        is_regularized = bool(layer.spatial_smoothing or layer.darc1) and (
            network.eval_flag or network.is_training_objective
        )
        return is_regularized or ("/" in path and bool(description_of(path, self.unit).get("is_output_layer")))

    def _with_need_last(self) -> set[str]:
        return {name for name, desc in self.unit.items() if isinstance(desc, dict) and desc.get("need_last")}

    def _check_end(self) -> None:
        """:raises ConfigError: if "end" is not one bool for each sequence or hypothesis"""
        end = self.inferred.layers["end"].output
        batch = self.rec_layer.network.step.batch_dims()
        more = [dim for dim in end.dims if dim not in batch and not dim.is_batch_dim() and not dim.is_beam_dim()]
        if end.dtype != "bool" or more:
            raise ConfigError(
                f"layer {self.prefix + 'end'!r}: says whether a sequence has ended: it has to be [B], bool.\n"
                f"  It is {end} {end.dtype}."
            )

    def make_network(
        self, frame: Frame, *, is_step: bool, data: dict[str, Tensor], only_template: bool | None = None
    ) -> Network:
        """
        :param frame: what the network stands for
        :param is_step: one frame; otherwise all frames at once
        :param data: by key
        :param only_template: whether its layers only infer dims; default: as around
        :return: network for the layers of the time step
        """
        inner = InnerNetwork(
            layer=self.rec_layer,
            data=data,
            name=self.rec_layer.name,
            name_prefix=self.prefix,
            scope_prefix=self.rec_layer.scope_of_unit(),
            net_dict=self.unit,
            frame=frame,
            inside_time=self.time_dim if is_step else None,
            over_time=None if is_step else self.time_dim,
            only_template=only_template,
        )
        return self.rec_layer.network.construction.make_network_inside(inner)

    def _make_template_network(self, frame: Frame) -> Network:
        data = {} if self.source is None else {"source": frame_of(self.source, self.time_dim)}
        network = self.make_network(frame, is_step=True, data=data, only_template=True)
        network.set_rec_step_info(i=None)
        return network

    def _make_prev_template(self, network: Network, path: str, template: Tensor) -> PrevLayer:
        return PrevLayer(
            name=f"prev:{path}",
            network=network,
            output=template.copy_template(),
            state_names=hidden_state_names(path, self.unit),
            state_before=lambda _name: template.copy_template(),
        )
