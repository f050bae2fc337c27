"""
A frame of a loop: what a network has to know that stands for one time step of a recurrent layer.

Layers of the step are known by their path in the subnetwork of the loop, such as "s" or "block/mem". A name with
"prev:" is the layer in the frame before. Where a layer is computed outside of the loop, the frame gives its slice.

All layers that are made for a frame, in its network and in the networks inside of that, note here what they use.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from returnn.util.errors import ConfigError

if TYPE_CHECKING:
    from returnn.tf.layers.core.layer_base import LayerBase
    from returnn.tf.layers.core.network_protocol import Network

EdgeKind = Literal["same", "prev", "data", "base"]


@dataclass(frozen=True)
class Edge:
    """A layer uses another one: of the same frame, of the frame before, the data of the loop, or from outside."""

    kind: EdgeKind
    path: str  # in the loop; for "data" and "base" the name

    def __str__(self) -> str:
        return {"same": "", "prev": "prev:", "data": "data:", "base": "base:"}[self.kind] + self.path


class Frame:
    """Base class: notes what is used. The stages of the compiler decide what "prev:" and moved layers are."""

    is_single = True  # otherwise it is all frames at once

    def __init__(self, prefix: str, loop: LayerBase) -> None:
        """
        :param prefix: absolute name of the loop, with "/" at the end
        :param loop: the layer whose time step it is
        """
        self.prefix = prefix
        self.loop = loop
        self.edges: dict[str, list[Edge]] = {}
        self.layers: dict[str, LayerBase] = {}  # by path
        self._stack: list[str] = []  # the last one is who uses others
        self._under_construction: list[str] = []
        self.has_undefined = False  # not all that was asked for is known for sure
        self.passed_over: list[ConfigError] = []  # of layers for which something stands in, see `make_stand_in`
        self.take_losses_of: list[str] = []  # paths of layers being made, which take the losses of what is in them
        self.layers_with_others_inside: list[tuple[str, tuple[str, ...], bool]] = []  # see `InnerTotals.making`
        self.num_guesses = 0  # above 0: what is being made is only there to see what an earlier frame may look like

    def prev_layer(self, path: str) -> LayerBase:
        """:return: the layer in the frame before"""
        raise NotImplementedError

    def moved_layer(self, path: str) -> LayerBase | None:
        """:return: this frame of a layer that is computed elsewhere; None if it is to be made here"""
        return None

    def make_stand_in(self, network: Network, name: str) -> LayerBase | None:
        """
        :param network: with the layer
        :param name: of a layer which cannot be made, as not all is known of what it uses
        :return: what others can take in its place for now; None if there is nothing
        """
        return None

    def step_data(self, key: str, data: Any) -> Any:
        """:return: what a layer sees of data of the network around"""
        return data

    def in_order(self, x: Any) -> Any:
        """:return: the frames of a sequence in the order of the loop, which may go backward"""
        return x

    def state_before(self, path: str, key: str, template: Any) -> Any:
        """:return: state of a layer after the frame before"""
        raise ConfigError(
            f"layer {self.prefix + path!r}: has state, which there is none of outside of the loop.\n"
            "  A class that cannot do without it says `works_on_sequences = False`."
        )

    def state_templates(self, path: str) -> dict[str, Any]:
        """:return: what the state of a layer looks like, by the names of its parts"""
        return {}

    def kept_for_after_loop(self, path: str) -> dict[str, Any]:
        """:return: what a layer keeps for after the loop (`LayerRec.keep_for_after_loop`), as states by key"""
        return {}

    def states_inside(self, path: str) -> dict[str, Any]:
        """:return: by path, the states (by name) of a layer and of those inside of it, also if there are none"""
        return {}

    def output_before(self, path: str) -> Any:
        """:return: output of a layer in the frame before, as far as that is kept; otherwise None"""
        return None

    def scores_before(self) -> Any:
        """:return: [B, beam]: scores of the hypotheses after the frame before; None if there may be none"""
        return None

    def src_beams_before(self) -> Any:
        """:return: [B, beam]: which hypotheses those after the frame before continue; None if there may be none"""
        return None

    def ended_before(self) -> Any:
        """:return: [B, beam], bool: whether the sequence had ended before this frame; None if that cannot be"""
        return None

    def going_on(self) -> Any:
        """:return: [B, ...], bool: whether the frame belongs to a sequence, also in loops around; None: all do"""
        return None

    def path_of(self, absolute_name: str) -> str | None:
        """:return: path in the loop; None if the layer is outside"""
        return absolute_name[len(self.prefix) :] if absolute_name.startswith(self.prefix) else None

    @contextlib.contextmanager
    def constructing(self, path: str) -> Iterator[None]:
        """While a layer is being made, it is the one who uses others."""
        self._stack.append(path)
        self._under_construction.append(path)
        self.edges.setdefault(path, [])
        try:
            yield
        finally:
            self._stack.pop()
            self._under_construction.pop()

    def is_under_construction(self, path: str) -> bool:
        """:return: whether the layer is being made right now"""
        return path in self._under_construction

    def note_use(self, layer: LayerBase) -> None:
        """Notes that the layer which is being made uses another one."""
        if not self._stack:
            return
        edges = self.edges[self._stack[-1]]
        for used in getattr(layer, "computed_from", (layer,)):
            edge = self._edge_to(used)
            if edge not in edges and edge != Edge("same", self._stack[-1]):
                edges.append(edge)

    def _edge_to(self, layer: LayerBase) -> Edge:
        name = layer.get_absolute_name()
        path = self.path_of(name)
        if path is None:
            return Edge("base", name)
        if path.startswith("prev:"):
            return Edge("prev", path[len("prev:") :])
        if path.rpartition("/")[2] == ":i":
            return Edge("data", ":i")
        if path == "data" or path.startswith("data:"):
            return Edge("data", path.partition(":")[2] or "source")
        return Edge("same", path)

    def has_losses_taken(self, path: str | None) -> bool:
        """:return: whether the layer is being made inside of another one, which takes its losses"""
        return path is not None and any(path == outer or path.startswith(f"{outer}/") for outer in self.take_losses_of)

    def note_layer(self, path: str, layer: Any) -> None:
        """Notes that a layer was made."""
        self.layers[path] = layer
