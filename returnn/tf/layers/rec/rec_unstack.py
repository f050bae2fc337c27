"""Frames of a sequence from outside of a loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.values.ranges import number_of_step
from returnn.util.errors import ConfigError


class RecUnstackLayer(LayerBase):
    """
    Inside of a loop: the frame of this step, of a sequence from outside which is as long as the loop.

    Source [T, ...], output [...]. It is another way to give a loop input, beside its own option `from`.
    """

    layer_class = "rec_unstack"
    takes_frames = True

    def __init__(self, axis: Dim | str | None = None, declare_rec_time: bool = False, **kwargs: Any) -> None:
        """
        :param axis: the dim of the source that the loop goes over. Default: the dim of the loop
        :param declare_rec_time: the loop goes over this dim, so it has to be told nothing else about its length
        """
        super().__init__(**kwargs)
        self.axis = axis
        self.declare_rec_time = declare_rec_time

    def compute(self, source: Tensor) -> Tensor:
        """:return: [...]; for all frames at once [T, ...]"""
        loop = self.network.get_inside_rec_time_dim(inside_loop=False)
        if loop is None:
            raise ConfigError(f"{self.where()}: gives the frames of a loop, and has to be inside of one.")
        axis = loop if self.axis is None else source.get_dim_tag_from_description(self.axis)
        if axis != loop or axis not in source.dims:
            raise ConfigError(
                f"{self.where()}: the loop goes over {loop}, which is not {axis} of the source {source}.\n"
                "  Set the option 'axis' of the loop to this dim, or declare_rec_time=True here."
            )
        source = self.network.step.innermost_frame().in_order(source)
        if self.network.get_inside_rec_time_dim(inside_loop=True) is None:
            return source
        out = rf.gather(source, indices=number_of_step(self), axis=axis)
        return out.copy_with_roles(feature_dim=source.feature_dim)


def declared_time_dim(unit: Mapping[str, Any], network: Network) -> Dim | None:
    """
    Makes the layers outside of a loop whose frames it gets by "rec_unstack", so that their dims are known.

    :param unit: options of the layers of a time step
    :param network: around the loop
    :return: the dim that one of them says the loop goes over, None if there is no such
    """
    declared = None
    for desc in unit.values():
        if not isinstance(desc, Mapping) or desc.get("class") != "rec_unstack":
            continue
        name = desc["from"] if isinstance(desc["from"], str) else desc["from"][0]
        if not name.startswith("base:"):
            continue
        source = network.construct_layer(network.layers_desc, name.removeprefix("base:")).output
        if desc.get("declare_rec_time"):
            axis = desc.get("axis")
            declared = source.get_time_dim_tag() if axis is None else source.get_dim_tag_from_description(axis)
    return declared
