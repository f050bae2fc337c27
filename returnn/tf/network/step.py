"""`StepOfLoop`: the loop whose step a network is part of."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from typing import Any

from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.loop.frame import Frame
from returnn.tf.layers.options.registry import get_layer_class
from returnn.tf.network.layer_names import where_it_is_needed
from returnn.tf.network.place import NetworkPlace
from returnn.util.errors import ConfigError


class StepOfLoop:
    """What a network knows of the loop around; without one, there is no frame."""

    def __init__(self, net: Network, place: NetworkPlace, around: StepOfLoop | None, frame: Frame | None) -> None:
        """
        :param net: the network
        :param place: of the network
        :param around: the same of the network around, or of that which this one is another version of
        :param frame: if the network is the step of a loop itself
        """
        self.net = net
        self.place = place
        self.around = around
        self.frame = frame

    def innermost_frame(self) -> Frame | None:
        """:return: the frame of the loop whose step this network is part of, None outside of loops"""
        if self.frame is not None or self.around is None or not self.place.is_in_layer:
            return self.frame
        return self.around.innermost_frame()

    def is_inside(self) -> bool:
        """:return: whether this network is part of a single step of a loop, so that its values are of no use outside"""
        if self.place.inside_time is not None:
            return True
        return self.around is not None and self.place.is_in_layer and self.around.is_inside()

    def batch_dims(self) -> list[Dim]:
        """:return: dims that an output in a loop has at least: the batch"""
        return [batch_dim]

    def path_of(self, name: str) -> str | None:
        """:return: the path in the loop, of a layer of this network; None outside of loops"""
        frame = self.innermost_frame()
        return None if frame is None else frame.path_of(self.place.name_prefix() + name)

    def constructing(self, name: str) -> AbstractContextManager[None]:
        """:return: context in which the frame knows that the layer of this name is being made"""
        frame, path = self.innermost_frame(), self.path_of(name)
        return contextlib.nullcontext() if frame is None or path is None else frame.constructing(path)

    def state_before(self, layer: LayerBase, key: str, template: Tensor) -> Tensor:
        """:return: state of a layer after the frame before, inside of a loop"""
        frame = self.innermost_frame()
        if frame is None:
            raise ConfigError(f"{layer.where()}: keeps state from frame to frame, so it has to be inside of a loop.")
        path = frame.path_of(layer.get_absolute_name())
        assert path is not None
        return frame.state_before(path, key, template)

    def prev_layer(self, name: str) -> LayerBase:
        """:return: layer in the frame before; `name` is seen from this network"""
        frame = self.innermost_frame()
        if frame is None:
            where = f"{where_it_is_needed(self.net)}layer name 'prev:{name}'"
            raise ConfigError(f"{where}: 'prev:' means the frame before, but this is not inside of a loop.")
        path = self.path_of(name)
        assert path is not None
        return frame.prev_layer(path)

    def moved_layer(self, name: str) -> LayerBase | None:
        """:return: this frame of a layer that is computed elsewhere; None if it is to be made here"""
        frame, path = self.innermost_frame(), self.path_of(name)
        return None if frame is None or path is None else frame.moved_layer(path)

    def in_words(self) -> str:
        """:return: the loop of which this network is a step; empty if it is none"""
        time, frame = self.place.time_dim(inside_loop=True), self.innermost_frame()
        return "" if time is None or frame is None else f"the loop {frame.prefix.rstrip('/')!r} over {time}"

    # The number of the frame.

    def info(self, *, must_exist: bool = True) -> Any:
        """:return: the layer ":i", with the number of the frame"""
        if ":i" in self.net.layers:
            return self.net.layers[":i"]
        if self.around is not None:
            return self.around.info(must_exist=must_exist)
        if must_exist:
            raise ConfigError("layer ':i': this is not inside of a loop.")
        return None

    def make_info(self, **options: Any) -> None:
        """
        Makes the layer ":i".

        :param options: see `TFNetwork.set_rec_step_info`
        """
        self.net.layers[":i"] = get_layer_class(":i")(name=":i", network=self.net, **options)
