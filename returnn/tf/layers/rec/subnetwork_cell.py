"""What code of users sees of a loop over a subnetwork."""

from __future__ import annotations

from typing import Any

from returnn.tensor import Dim
from returnn.tf.layers.core.layer_base import LayerBase, WrappedInternalLayer
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.loop.compile import CompiledLoop
from returnn.tf.layers.loop.emit import EmittedLoop
from returnn.tf.layers.loop.plan import LoopPlan


class _TemplateLayer(WrappedInternalLayer):
    """A layer of a time step, of which it is known what its output looks like: it has no value."""

    is_data_template = True  # it is known what the output looks like
    is_prev_time_frame = False  # those of the frame before have no entries

    def __init__(self, base_layer: LayerBase, **kwargs: Any) -> None:
        """
        :param base_layer: the layer, as a template
        """
        super().__init__(base_layer=base_layer, **kwargs)
        self.kwargs = base_layer.kwargs

    @property
    def layer_class_type(self) -> type[LayerBase]:
        """The class of the layer."""
        return type(self.base_layer)

    def get_dep_layers(self) -> list[LayerBase]:
        """:return: those of the layer"""
        return self.base_layer.get_dep_layers()

    def get_hidden_state(self) -> Any:
        """:return: that of the layer, without values"""
        return self.base_layer.get_hidden_state()

    def get_search_choices(self) -> Any:
        """:return: those of the layer"""
        return self.base_layer.get_search_choices()


class _SubnetworkRecCell:
    """A view on a loop, by the documented names: `RecLayer.cell`."""

    def __init__(self, compiled: CompiledLoop, emitted: EmittedLoop | None) -> None:
        """
        :param compiled: the loop
        :param emitted: the same in the graph; None if only its dims are inferred
        """
        self.compiled = compiled
        self.emitted = emitted

    @property
    def plan(self) -> LoopPlan:
        """Where each layer runs, and why."""
        return self.compiled.plan

    @property
    def time_dim(self) -> Dim:
        """The dim that the loop goes over."""
        return self.compiled.inputs.time_dim

    @property
    def time_dim_tag(self) -> Dim:
        """The same by its older name."""
        return self.time_dim

    @property
    def parent_rec_layer(self) -> LayerBase:
        """The layer that loops."""
        return self.compiled.inputs.layer

    @property
    def parent_net(self) -> Network:
        """The network around the loop."""
        return self.parent_rec_layer.network

    @property
    def net_dict(self) -> dict[str, Any]:
        """Options of the layers of the time step, by name."""
        return dict(self.compiled.inputs.unit)

    @property
    def input_layers_moved_out(self) -> list[str]:
        """Names of layers that are computed before the loop, for all frames at once."""
        return self.plan.at("before")

    @property
    def layers_in_loop(self) -> list[str]:
        """Names of layers that are computed in the loop, frame by frame."""
        return self.plan.at("inside")

    @property
    def output_layers_moved_out(self) -> list[str]:
        """Names of layers that are computed after the loop, for all frames at once."""
        return self.plan.at("after")

    @property
    def layer_data_templates(self) -> dict[str, _TemplateLayer]:
        """Templates of the layers of a time step, by name."""
        return {
            path: _TemplateLayer(layer, name=layer.name, network=layer.network, output=layer.output)
            for path, layer in self.compiled.inferred.layers.items()
        }

    @property
    def net(self) -> Network | None:
        """The network of a frame in the loop; None if there is none in the graph."""
        return self.emitted.inside.network if self.emitted is not None and self.emitted.inside is not None else None

    @property
    def input_layers_net(self) -> Network | None:
        """The network of what is computed before the loop; None if it is not in the graph."""
        return None if self.emitted is None else self.emitted.before.network

    @property
    def output_layers_net(self) -> Network | None:
        """The network of what is known after the loop; None if it is not in the graph."""
        return None if self.emitted is None else self.emitted.after.network
