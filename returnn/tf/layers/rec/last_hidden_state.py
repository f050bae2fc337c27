"""`GetLastHiddenStateLayer`: what recurrent layers remember after the last frame."""

from __future__ import annotations

from functools import reduce
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.hidden_state import select_state, side_by_side
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.util.errors import ConfigError


class GetLastHiddenStateLayer(LayerBase):
    """
    The hidden state of recurrent layers: after the last frame of each sequence; inside of a loop, after this step.

    Sources are recurrent layers, output [..., F]: the states of all of them, side by side or summed.
    """

    layer_class = "get_last_hidden_state"

    def __init__(
        self,
        out_dim: Dim | None = None,
        n_out: int | None = None,
        combine: str = "concat",
        key: str | int | None = "*",
        **kwargs: Any,
    ) -> None:
        """
        :param out_dim: feature dim of the output
        :param n_out: size of that
        :param combine: "concat" or "add"
        :param key: which part of the state: "c" or "h" of an LSTM, or its number; "*" for all, side by side
        """
        super().__init__(out_dim=out_dim, n_out=n_out, **kwargs)
        self.combine = combine
        self.key = key
        if combine not in ("concat", "add"):
            raise ConfigError(f"{self.where()}: option 'combine': expected 'concat' or 'add', got {combine!r}.")
        if not self.sources:
            raise ConfigError(f"{self.where()}: a source is required (option 'from').")
        self.collocate_with = [*self.collocate_with, *self._sources_in_loop()]

    def _sources_in_loop(self) -> list[str]:
        """:return: paths of the sources in the loop around: only inside of it, they have a state that we could get"""
        frame = self.network.step.innermost_frame()
        paths = [] if frame is None else [frame.path_of(source.get_absolute_name()) for source in self.sources]
        return [path.removeprefix("prev:") for path in paths if path is not None]

    def compute(self, *_sources: Tensor) -> Tensor:
        """:return: [..., F]"""
        parts = [self._parts_of(layer) for layer in self.sources]
        if self.combine == "concat":
            output = side_by_side([part for parts_of_layer in parts for part in parts_of_layer])
        else:
            output = reduce(_add, [side_by_side(parts_of_layer) for parts_of_layer in parts])
        size, feature = output.feature_dim.dimension, output.feature_dim
        given = self.output_feature_dim(feature)
        if given.dimension != size:
            raise ConfigError(
                f"{self.where()}: the hidden state has {size} features, but 'n_out' is {given.dimension}."
            )
        if given != feature:
            output, _ = rf.replace_dim(output, in_dim=feature, out_dim=given)
            output = output.copy_with_roles(feature_dim=given)
        return output

    def _parts_of(self, layer: LayerBase) -> list[Tensor]:
        """:return: [..., F] each: what is asked for of the state of a source"""
        if isinstance(layer, GetLastHiddenStateLayer):
            return [layer.output]
        return select_state(layer.hidden_state_parts(), self.key, where=layer.where())

    def get_last_hidden_state(self, key: int | str | None) -> Any:
        """:return: the output, whatever the key"""
        return self.output.raw_tensor


def _add(a: Tensor, b: Tensor) -> Tensor:
    if a.feature_dim != b.feature_dim:
        b, _ = rf.replace_dim(b, in_dim=b.feature_dim, out_dim=a.feature_dim)
    return rf.combine_bc(a, "+", b)
