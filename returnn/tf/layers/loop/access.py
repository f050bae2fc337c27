"""What the outside takes from a loop: the last frame of a layer, or all frames."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.tensor import Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.util.errors import ConfigError


class RecLastOutputLayer(LayerBase):
    """The last frame, in each sequence, of a layer inside of a loop. That layer needs the option `need_last`."""

    layer_class = "rec_last_output"

    def __init__(self, rec_layer: LayerBase, sub_layer_name: str, **kwargs: Any) -> None:
        """
        :param rec_layer: the loop
        :param sub_layer_name: the layer in there
        """
        super().__init__(**kwargs)
        self.rec_layer = rec_layer
        self.sub_layer_name = sub_layer_name

    def compute(self) -> Tensor:
        """:return: the dims of the layer in the loop"""
        layer = self.rec_layer.get_sub_layer(self.sub_layer_name)
        if layer is None:
            raise ConfigError(f"{self.where()}: there is no layer {self.sub_layer_name!r} in {self.rec_layer.name!r}.")
        time = self.rec_layer.output.get_time_dim_tag()
        if time not in layer.output.dims:
            return layer.output
        last = rf.last_frame_position_of_dim(time)
        out = rf.gather(layer.output, indices=last, axis=time, clip_to_valid=True)
        if layer.output.feature_dim is not None:
            out = out.copy_with_roles(feature_dim=layer.output.feature_dim)
        return out


class GetRecAccumulatedOutputLayer(LayerBase):
    """All frames of a layer inside of a loop, the same as "loop/layer"."""

    layer_class = "get_rec_accumulated"

    def __init__(self, sub_layer: str, **kwargs: Any) -> None:
        """
        :param sub_layer: name of the layer in the loop, which is the source
        """
        super().__init__(**kwargs)
        self.sub_layer = sub_layer

    def compute(self, *_sources: Tensor) -> Tensor:
        """:return: [T, ...]"""
        layer = self.sources[0].get_sub_layer(self.sub_layer)
        if layer is None:
            raise ConfigError(f"{self.where()}: there is no layer {self.sub_layer!r} in {self.sources[0].name!r}.")
        return layer.output
