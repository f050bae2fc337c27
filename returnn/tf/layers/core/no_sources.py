"""Layers that need no sources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import Network


class NoSourcesLayer(LayerBase):
    """Base class of layers that need no sources: the option `from` need not be given."""

    @classmethod
    def transform_config_dict(cls, d: dict[str, Any], network: Network, get_layer: Callable[[str], Any]) -> None:
        """See `LayerBase.transform_config_dict`."""
        d.setdefault("from", [])
        super().transform_config_dict(d, network=network, get_layer=get_layer)
