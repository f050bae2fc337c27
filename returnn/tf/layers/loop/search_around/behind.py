"""
Behind a search over the frames of hypotheses, which are those of a search around the loop that is not decided.

Each hypothesis of the loop has the frames of the one that it continues. Before the loop and in it, frames are those of
the hypotheses around. Behind it, they are those of its own hypotheses: another dim, with their lengths.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase, WrappedInternalLayer
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.loop.compile import CompiledLoop
from returnn.tf.layers.loop.frames import SequenceFrame
from returnn.tf.layers.search.beam import Beam
from returnn.tf.layers.search.dims_of_hypotheses import with_dims


def declare_frames_behind(compiled: CompiledLoop, beam: Beam | None) -> Dim:
    """
    :param compiled: the loop
    :param beam: the hypotheses at its end, None without search
    :return: the dim of the frames behind it, whose lengths are known now if they were known before
    """
    time_dim, behind = compiled.inputs.time_dim, compiled.time_dim_behind
    if behind is not time_dim:
        behind.dyn_size_ext = compiled.inputs.layer.network.beams.translate(time_dim.get_size_tensor(), beam)
    return behind


def compiled_behind(compiled: CompiledLoop) -> CompiledLoop:
    """:return: the loop as its end knows it"""
    if compiled.time_dim_behind is compiled.inputs.time_dim:
        return compiled
    source = compiled.inputs.source
    source = None if source is None else _seen_behind(compiled, source)
    return replace(compiled, inputs=replace(compiled.inputs, time_dim=compiled.time_dim_behind, source=source))


class FramesBehind(SequenceFrame):
    """All frames at once, behind the loop."""

    def __init__(self, compiled: CompiledLoop, **kwargs: Any) -> None:
        """
        :param compiled: the loop
        :param kwargs: see `SequenceFrame`
        """
        self._in_loop = compiled
        super().__init__(compiled_behind(compiled), has_known_length=True, **kwargs)

    def step_data(self, key: str, data: Tensor) -> Tensor:
        """:return: data of the network around, in the order of the loop"""
        return super().step_data(key, _seen_behind(self._in_loop, data))


def layers_behind(compiled: CompiledLoop, layers: dict[str, LayerBase]) -> dict[str, LayerBase]:
    """
    :param compiled: the loop
    :param layers: which were computed before it, by path
    :return: the same as its end sees them
    """
    return {path: _layer_behind(compiled, layer) for path, layer in layers.items()}


class _LayerBefore(WrappedInternalLayer):
    """A layer that was computed before the loop."""

    def __init__(self, seen: Callable[[Tensor], Tensor], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seen = seen

    def has_hidden_state(self) -> bool:
        return self.base_layer.has_hidden_state()

    def hidden_state_parts(self) -> dict[str, Tensor]:
        return {name: self.seen(x) for name, x in self.base_layer.hidden_state_parts().items()}


def _layer_behind(compiled: CompiledLoop, layer: LayerBase) -> LayerBase:
    output = _seen_behind(compiled, layer.output)
    if output is layer.output:
        return layer
    network: Network = layer.network
    return _LayerBefore(
        name=layer.name,
        network=network,
        output=output,
        base_layer=layer,
        seen=lambda x: _seen_behind(compiled, x),
    )


def _seen_behind(compiled: CompiledLoop, x: Tensor) -> Tensor:
    """:return: frames of the hypotheses around, as those of the hypotheses at the end; others stay as they are"""
    time_dim, behind = compiled.inputs.time_dim, compiled.time_dim_behind
    if behind is time_dim or time_dim not in x.dims:
        return x
    beams, beam = compiled.inputs.layer.network.beams, compiled.inferred.beam
    assert beam is not None
    return beams.translate(with_dims(x, lambda dim: behind if dim == time_dim else dim), beams.get(beam.dim))
