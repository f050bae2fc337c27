"""The data of a network, as a layer."""

from __future__ import annotations

from typing import Any

from returnn.frontend import get_selected_backend
from returnn.tensor import Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.structure.unavailable_data import TargetNotAvailable


class SourceLayer(LayerBase):
    """Data of the network: in a net dict, it is also just called "data" or "data:KEY"."""

    layer_class = "source"

    def __init__(
        self, network: Network, data_key: str | None = None, sources: tuple[LayerBase, ...] = (), **kwargs: Any
    ) -> None:
        """
        :param data_key: key of the data; default: the input
        """
        super().__init__(network=network, sources=(), **kwargs)
        self.data_key = network.extern_data.default_input if data_key is None else data_key

    def has_zero_padding(self) -> bool:
        """Batches of data are filled up with 0."""
        return True

    def compute(self) -> Tensor:
        """:return: the data"""
        is_there = self.network.has_value_of_data(self.data_key)
        if not is_there and not self.network.only_template and get_selected_backend() != "template":
            raise TargetNotAvailable(f"{self.where()}: the data {self.data_key!r}", [self.data_key])
        return self.network.get_extern_data(self.data_key, mark_data_key_as_used=True)
