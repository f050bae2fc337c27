"""What a loop is compiled from: one time step as a dict, the source, and where the loop stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.network_protocol import InnerNetwork, Network
from returnn.tf.layers.loop.frame import Frame

if TYPE_CHECKING:
    from returnn.tf.layers.core.layer_base import LayerBase


@dataclass(frozen=True)
class LoopInputs:
    """
    What a loop is compiled from.

    `layer` is the recurrent layer. Its network is the one around the loop, its dims are those that the loop makes.
    """

    layer: LayerBase = field(repr=False)
    unit: Mapping[str, Any] = field(repr=False)  # options of the layers of one time step, by name
    unit_of_config: Mapping[str, Any] = field(repr=False)  # the same as it stands in the net dict
    name_scope: str  # what names of parameters in the loop begin with
    source: Tensor | None  # {time_dim, ...}, in the order of the loop: each frame sees its own one as "data:source"
    time_dim: Dim
    has_known_length: bool  # before the loop; otherwise the layer "end" decides where a sequence ends
    targets_of_frames: frozenset[str] = frozenset()  # keys of data which has one entry for each frame
    first_step: Tensor | None = None  # scalar: number of the first frame; None for 0
    optimize: bool = True  # whether layers are moved out of the loop
    include_eos: bool = False  # whether the frame in which "end" is true is part of the sequence
    # Function from the beam around, or None, to the largest number of frames, of all or of each: [B], [B, beam].
    max_seq_len: Callable[[Dim | None], int | Tensor | None] | None = None
    unroll: bool = False  # no loop in the graph, but its frames one after the other
    back_prop: bool = True  # whether there will be gradients
    backward: bool = False  # from the last frame of each sequence to the first
    debug: bool = False  # print the outputs of all layers in each step

    @property
    def name(self) -> str:
        """Absolute name of the loop."""
        return self.layer.get_absolute_name()

    @property
    def prefix(self) -> str:
        """What absolute names of layers of the time step begin with."""
        return f"{self.name}/"

    def in_order(self, x: Tensor) -> Tensor:
        """
        :param x: data of the network around, or something that the loop made
        :return: the frames in the order of the loop, or back; as it is if it does not have the dim of the loop
        """
        return reverse_frames(x, self.time_dim) if self.backward else x

    def seen_from_outside(self, frame: Tensor) -> Tensor:
        """
        :param frame: of a layer, perhaps a template
        :return: the same with another dim in place of the one of the loop: a frame that has all frames inside of it
        """
        if self.time_dim not in frame.dims:
            return frame
        all_frames = self.layer.new_dim_like("all frames", self.time_dim)
        out = frame.copy_template_replace_dim_tag(frame.get_axis_from_description(self.time_dim), all_frames)
        if frame.raw_tensor is not None:
            out.raw_tensor = frame.raw_tensor
        return out

    def own_dim_of_target(self, key: str, data: Tensor) -> Dim | None:
        """
        :param key: of data of the network around
        :param data: its value
        :return: the time dim of the data, if it is the target of frames and has another one than the loop
        """
        if self.time_dim in data.dims or key not in self.targets_of_frames:
            return None
        own = data.get_time_dim_tag() if data.have_time_axis() else None
        return own if own is not None and own.is_dynamic_seq_length() else None

    def data_of_frames(self, key: str, data: Tensor) -> Tensor:
        """
        :param key: of data of the network around
        :param data: its value
        :return: the data, with the dim of the loop if it is the target of frames. Data of two keys have time dims of
            their own unless the config says otherwise, although a loop over a source, or over one of several targets,
            has one target for each frame.
        """
        own = self.own_dim_of_target(key, data)
        return data if own is None else rf.replace_dim(data, in_dim=own, out_dim=self.time_dim)[0]

    def make_network(
        self, frame: Frame, *, is_step: bool, source: Tensor | None = None, only_template: bool | None = None
    ) -> Network:
        """
        :param frame: what the network stands for
        :param is_step: one frame; otherwise all frames at once
        :param source: what is "data:source" in there, if there is one
        :param only_template: whether layers in there only infer dims; default: as around
        :return: network for the layers of the time step
        """
        inner = InnerNetwork(
            layer=self.layer,
            data={} if source is None else {"source": source},
            name_prefix=self.prefix,
            scope_prefix=self.name_scope,
            net_dict=self.unit,
            frame=frame,
            inside_time=self.time_dim if is_step else None,
            over_time=None if is_step else self.time_dim,
            only_template=only_template,
            name=self.layer.name,
        )
        return self.layer.network.construction.make_network_inside(inner)


def template_of_frame(x: Tensor, time_dim: Dim) -> Tensor:
    """:return: template of one frame of a sequence"""
    return x.copy_template_excluding_axis(x.get_axis_from_description(time_dim))


def reverse_frames(x: Tensor, time_dim: Dim) -> Tensor:
    """:return: each sequence from its last frame to the first; as it is if it does not have this dim"""
    if time_dim not in x.dims:
        return x
    return rf.reverse_sequence(x, axis=time_dim).copy_with_roles(feature_dim=x.feature_dim)
