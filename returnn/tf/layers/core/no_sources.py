"""Layers that need no sources, or need them only for dims that the config can give as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.floors.layer_axes import use_data_with
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.util.errors import ConfigError


class NoSourcesLayer(LayerBase):
    """Base class of layers that need no sources: the option `from` need not be given."""

    @classmethod
    def transform_config_dict(cls, d: dict[str, Any], network: Network, get_layer: Callable[[str], Any]) -> None:
        """See `LayerBase.transform_config_dict`."""
        d.setdefault("from", [])
        super().transform_config_dict(d, network=network, get_layer=get_layer)


class DimsOfSourceLayer(LayerBase):
    """
    Base class of layers that look at nothing but dims of their source. These are given as `Dim`, with `"from": []`.

    Networks that are generated from code have all dims at hand, and write them so.
    """

    def given_dims(self) -> list[Any]:
        """:return: all that the layer wants to know of its source: dims, or descriptions"""
        raise NotImplementedError

    def compute_inputs(self) -> list[Tensor]:
        """:return: the sources; without any, what has the dims in place of one"""
        given = self.given_dims()
        if self.sources or not all(isinstance(dim, Dim) for dim in given):
            return super().compute_inputs()
        for dim in given:
            if not dim.is_dim_known():
                raise ConfigError(
                    f"{self.where()}: the lengths of {dim} are not known yet, as no layer before has this dim.\n"
                    "  Give one that has it as source (option 'from')."
                )
            use_data_with(dim, network=self.network)
        return [Tensor(self.name, dims=list(dict.fromkeys(given)), dtype="int32")]
