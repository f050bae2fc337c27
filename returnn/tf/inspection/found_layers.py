"""All layers of a network of templates, also those inside of subnetworks and loops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.loop.compile import CompiledLoop
from returnn.tf.layers.loop.plan import Placement

_INTERNAL = ("prev:", "data:", ":i")


@dataclass(frozen=True)
class FoundLayer:
    """A layer, and where it is."""

    layer: LayerBase
    depth: int = 0  # number of layers around it
    placement: Placement | None = None  # inside of a loop

    @property
    def name(self) -> str:
        """Absolute name."""
        return self.layer.get_absolute_name()

    @property
    def loop(self) -> CompiledLoop | None:
        """The loop that the layer is, if it is one."""
        return getattr(self.layer, "compiled", None)

    @property
    def class_name(self) -> str:
        """The name of its class, as in a net dict; of a class of a user, its name in Python."""
        name = self.layer.layer_class or self.class_of_user
        return str(name[0] if isinstance(name, (list, tuple)) else name or type(self.layer).__name__)

    @property
    def class_of_user(self) -> str:
        """The class of a user that this template stands for, which works on values alone; "" if it is none."""
        return getattr(self.layer, "debug_type_name", None) or ""


def found_layers(network: Network) -> list[FoundLayer]:
    """:return: all layers, each once, by name, those of a network behind the layer that it is inside of"""
    found: dict[str, FoundLayer] = {}
    for layer in _layers_of_network(network, depth=0, placement=None):
        found.setdefault(layer.name, layer)
    return list(found.values())


def _layers_of_network(network: Network, *, depth: int, placement: Placement | None) -> Iterator[FoundLayer]:
    for name, layer in network.layers.items():
        if name != "data" and not name.startswith(_INTERNAL):
            yield from _with_inner(FoundLayer(layer, depth, placement))


def _with_inner(found: FoundLayer) -> Iterator[FoundLayer]:
    yield found
    if found.loop is not None:
        yield from _layers_of_loop(found.loop, found.depth + 1)
        return
    for network in found.layer.get_sub_networks():
        yield from _layers_of_network(network, depth=found.depth + 1, placement=found.placement)


def _layers_of_loop(loop: CompiledLoop, depth: int) -> Iterator[FoundLayer]:
    for path, placement in loop.plan.placements.items():
        found = FoundLayer(loop.inferred.layers[path], depth + path.count("/"), placement)
        yield found
        if found.loop is not None:
            yield from _layers_of_loop(found.loop, found.depth + 1)
