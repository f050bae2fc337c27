"""The highest values, and where values stand in a sorted sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import InternalLayer, LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.core.no_sources import NoSourcesLayer
from returnn.tf.layers.core.option_values import value_of
from returnn.util.errors import ConfigError, check_known


class TopKLayer(LayerBase):
    """
    The k highest values along a dim.

    Source [..., axis], output [..., k]. The sub layer "name/indices" has their indices into the dim; if there are
    several dims, "name/indices0", "name/indices1", ..., have the indices into each.
    """

    layer_class = "top_k"

    def __init__(
        self,
        axis: Any,
        k: LayerBase | int | None,
        k_dim: Dim | None = None,
        sorted: bool = True,
        **kwargs: Any,
    ) -> None:
        """
        :param axis: the dim, by description; or a list of several
        :param k: how many. None: the size of `k_dim`
        :param k_dim: the new dim
        :param sorted: the highest one first
        """
        super().__init__(**kwargs)
        self.axis = axis
        self.k = k
        self.k_dim = k_dim
        self.sorted = sorted
        self._indices: Sequence[Tensor] = ()
        if k is None and k_dim is None:
            raise ConfigError(f"{self.where()}: give the option 'k' or 'k_dim'.")

    @classmethod
    def transform_config_dict(cls, d: dict[str, Any], network: Network, get_layer: Callable[[str], Any]) -> None:
        """The number can follow from the dim. See `LayerBase.transform_config_dict`."""
        d.setdefault("k", None)
        super().transform_config_dict(d, network=network, get_layer=get_layer)

    def compute(self, source: Tensor, *_others: Tensor) -> Tensor:
        """:return: [..., k]"""
        is_single = not isinstance(self.axis, (list, tuple))
        axes = [self.axis] if is_single else self.axis
        dims = [self.dim_of(source, axis, option="axis") for axis in axes]
        k = value_of(self.k)
        others = [dim for dim in source.dims if dim not in dims]
        k_dim = self.k_dim or self.new_dim_beside("k", k if isinstance(k, int) else None, others, kind=dims[-1].kind)
        if isinstance(k, Tensor) and k_dim.size is None and k_dim.dyn_size is None:
            k_dim.dyn_size_ext = rf.cast(k, "int32")
        if k_dim.size is not None:
            k = k_dim.size
        axis = dims[0] if is_single else dims
        values, indices, _ = rf.top_k(source, axis=axis, k=k, k_dim=k_dim, sorted=self.sorted)
        self._indices = [indices] if isinstance(indices, Tensor) else indices
        return values

    @classmethod
    def get_available_sub_layer_names(cls, parent_layer_kwargs: dict[str, Any]) -> list[str]:
        """:return: "indices"; or "indices0", "indices1", ..."""
        axis = parent_layer_kwargs["axis"]
        if isinstance(axis, (list, tuple)):
            return [f"indices{i}" for i in range(len(axis))]
        return ["indices"]

    def get_sub_layer(self, layer_name: str) -> LayerBase | None:
        """:return: layer with indices"""
        names = self.get_available_sub_layer_names({"axis": self.axis})
        if layer_name not in names:
            return None
        indices = self._indices[names.index(layer_name)].copy()
        indices.version = 1
        return InternalLayer(name=f"{self.name}/{layer_name}", network=self.network, output=indices, sources=[self])


class SearchSortedLayer(NoSourcesLayer):
    """
    Where to insert values into a sorted sequence so that it stays sorted.

    Sorted sequence [B..., T], values [B..., ...], output like the values, int32.
    """

    layer_class = "search_sorted"
    recurrent = True

    def __init__(
        self, sorted_sequence: LayerBase, values: LayerBase, axis: Any = "T", side: str = "left", **kwargs: Any
    ) -> None:
        """
        :param sorted_sequence: ascending
        :param values: to insert
        :param axis: the dim that is sorted, by description
        :param side: beside equal values: "left" before the first, "right" behind the last
        """
        super().__init__(**kwargs)
        self.sorted_sequence = sorted_sequence
        self.values = values
        self.axis = axis
        self.side = side
        check_known("side", side, ("left", "right"), where=self.where())

    def compute(self, *_sources: Tensor) -> Tensor:
        """:return: like the values"""
        sorted_sequence = self.sorted_sequence.output
        axis, values = self.dim_of(sorted_sequence, self.axis, option="axis"), self.values.output
        if axis in values.dims:
            raise ConfigError(
                f"{self.where()}: option 'values': {values} has {axis}, which is the dim of the sorted sequence."
            )
        return rf.search_sorted(sorted_sequence, values, axis=axis, side=self.side)
