"""`NetworkPlace`: where a network is among others: what names in it begin with, and which loops it is part of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from returnn.tensor import Dim
from returnn.tensor.control_flow_ctx import ControlFlowContext
from returnn.tf.layers.core.layer_base import LayerBase


class NetworkPlace:
    """One network among others."""

    def __init__(
        self,
        *,
        parent: NetworkPlace | None,
        beside: NetworkPlace | None,
        layer: LayerBase | None,
        extra_prefix: str | None,
        name_prefix: str | None,
        scope_prefix: str | None,
        inside_time: Dim | None,
        over_time: Dim | None,
        more_times: set[Dim],
        control_flow: ControlFlowContext | None,
        layer_options: Mapping[str, Any] | None,
        view_around: Callable[[Any], LayerBase] | None,
    ) -> None:
        """
        :param parent: of the network of the layer around
        :param beside: of the network that this one stands beside, as another version of parts of it
        :param layer: the one around
        :param extra_prefix: what such another version puts in front of its names
        :param name_prefix: what names begin with, instead of those of the layers around
        :param scope_prefix: what names of variables begin with, instead of those of the layers around
        :param inside_time: the dim of the loop of which this network is one frame
        :param over_time: the dim of the loop which this network stands for, all frames at once
        :param more_times: dims of loops inside of this network
        :param control_flow: the loop or branch
        :param layer_options: of the layer around, that hold for all layers inside; None in the network of a loop
        :param view_around: function from a layer of the network around to what is seen of it here. Then names here are
            those of the network around, and "base:" does not count this one
        """
        self.parent = parent
        self.beside = beside
        self.around = parent or beside
        self.layer = layer
        self.extra_prefix = extra_prefix
        self.inside_time = inside_time
        self.over_time = over_time
        self.more_times = more_times
        self.layer_options = layer_options
        self.view_around = view_around
        self._name_prefix = name_prefix
        self._scope_prefix = scope_prefix
        self.own_control_flow = control_flow

    def name_prefix(self) -> str:
        """:return: what absolute names of layers begin with: "" or "outer/" """
        if self._name_prefix is not None:
            return self._name_prefix
        if self.layer is not None:
            return f"{self.layer.get_absolute_name()}/"
        around = self.beside or self.parent
        return "" if around is None else around.name_prefix()

    def scope_prefix(self) -> str:
        """:return: what names of variables begin with: "" or "outer/" """
        if self._scope_prefix is not None:
            return self._scope_prefix
        if self.layer is not None:
            return self.layer.get_absolute_name_scope_prefix()
        return "" if self.around is None else self.around.scope_prefix()

    @property
    def is_in_layer(self) -> bool:
        """Whether it belongs to a layer of which it is no step of a loop."""
        return self.parent is not None and self.layer_options is not None

    def option_of_layer(self, name: str) -> Any:
        """:return: an option of the layer around, None if it is not set"""
        options = self.layer_options or {}
        return options[name] if name in options else getattr(self.layer, name, None)

    def control_flow(self) -> ControlFlowContext | None:
        """:return: the loop or branch that this network lives in"""
        if self.own_control_flow is not None or self.around is None:
            return self.own_control_flow
        return self.around.control_flow()

    def time_dim(self, *, inside_loop: bool) -> Dim | None:
        """
        :param inside_loop: only if this is one frame; otherwise also if it stands for all frames of a loop
        :return: the dim of the innermost loop that this network is part of
        """
        if self.inside_time is not None:
            return self.inside_time
        if self.over_time is not None:
            return None if inside_loop else self.over_time
        return None if self.around is None else self.around.time_dim(inside_loop=inside_loop)

    def all_time_dims(self) -> set[Dim]:
        """:return: the dims of all loops that this network is part of"""
        dims = set() if self.around is None else self.around.all_time_dims()
        return dims | {dim for dim in (self.inside_time, self.over_time) if dim is not None} | self.more_times

    def loop_layer(self, *, inside_loop: bool) -> LayerBase | None:
        """:return: the loop that this network is part of, see `time_dim`"""
        if self.inside_time is not None or (not inside_loop and self.over_time is not None):
            return self.layer
        return None if self.around is None else self.around.loop_layer(inside_loop=inside_loop)
