"""More frames before and behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.option_values import value_like
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.layers.options.broadcasting import matched_by_size
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import ConfigError, check_known

_MODES = {
    "constant": "constant",
    "reflect": "reflect",
    "symmetric": "symmetric",
    "replication": "replicate",
    "replicate": "replicate",
}


class PadLayer(_ConcatInputLayer):
    """
    Adds frames before and behind.

    Source [..., axes], output [..., left + axis + right].
    """

    layer_class = "pad"

    def __init__(
        self,
        axes: Any,
        padding: int | tuple[int, int] | Sequence[tuple[int, int]],
        out_dims: Dim | Sequence[Dim] | None = None,
        handle_dynamic_dims: bool | None = None,
        value: LayerBase | float = 0,
        mode: str = "constant",
        **kwargs: Any,
    ) -> None:
        """
        :param axes: the dims, by description
        :param padding: number of frames before and behind: a pair for each dim; or one pair, or one number, for all
        :param out_dims: the new dims
        :param handle_dynamic_dims: frames come right behind the end of each sequence. Otherwise they come behind the
            longest one. Default: since behavior version 21
        :param value: to pad with: a number or a layer
        :param mode: "constant", "reflect", "symmetric" or "replication"
        """
        super().__init__(**kwargs)
        self.axes = axes
        self.padding = padding
        self.out_dims = out_dims
        is_new = BehaviorVersion.get() >= 21
        self.handle_dynamic_dims = is_new if handle_dynamic_dims is None else handle_dynamic_dims
        self.value = value
        self.mode = mode
        check_known("mode", mode, _MODES, where=self.where())

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., left + axis + right]"""
        dims = self.dims_of(source, self.axes, option="axes")
        value = value_like(self.value, source.dtype)
        out, _ = rf.pad(
            source,
            axes=dims,
            padding=self.padding,
            out_dims=self.out_dims,
            value=value,
            mode=_MODES[self.mode],
            handle_dynamic_dims=self.handle_dynamic_dims,
        )
        return out


class PrefixInTimeLayer(_ConcatInputLayer):
    """
    Frames before the first one of each sequence.

    Source [..., T], output [..., repeat + T].
    """

    layer_class = "prefix_in_time"
    recurrent = True

    def __init__(
        self,
        axis: Any = "T",
        out_dim: Dim | None = None,
        prefix: LayerBase | float = 0.0,
        repeat: LayerBase | int = 1,
        size_base: LayerBase | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param axis: the dim, by description
        :param out_dim: the new dim
        :param prefix: number, or layer without the dim
        :param repeat: how many frames; a layer says it for each sequence
        :param size_base: layer: the output has the lengths, and so the time dim, of this one
        """
        super().__init__(out_dim=out_dim, **kwargs)
        self.axis = axis
        self.prefix = prefix
        self.repeat = repeat
        self.size_base = size_base

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., repeat + T]"""
        axis = self.dim_of(source, self.axis, option="axis")
        out_dim = self._out_dim
        if self.size_base is not None:
            out_dim = self.dim_of(self.size_base.output, "T", option="size_base")
            if out_dim != axis and out_dim in source.dims:
                raise ConfigError(
                    f"{self.where()}: option 'size_base': {out_dim}, the time dim of {self.size_base.where()}, is "
                    f"another dim of the source {source}."
                )
        added = added_frames(self, source, axis, self.prefix, self.repeat)
        return with_same_roles(rf.concat(added, (source, axis), allow_broadcast=True, out_dim=out_dim), source, axis)


class PostfixInTimeLayer(_ConcatInputLayer):
    """
    Frames right behind the last one of each sequence.

    Source [..., T], output [..., T + repeat].
    """

    layer_class = "postfix_in_time"
    recurrent = True

    def __init__(
        self,
        axis: Any = "T",
        out_dim: Dim | None = None,
        postfix: LayerBase | float = 0.0,
        repeat: int = 1,
        **kwargs: Any,
    ) -> None:
        """
        :param axis: the dim, by description
        :param out_dim: the new dim
        :param postfix: number, or layer without the dim
        :param repeat: how many frames
        """
        super().__init__(out_dim=out_dim, **kwargs)
        self.axis = axis
        self.postfix = postfix
        self.repeat = repeat

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., T + repeat]"""
        axis = self.dim_of(source, self.axis, option="axis")
        added = added_frames(self, source, axis, self.postfix, self.repeat)
        return with_same_roles(
            rf.concat((source, axis), added, allow_broadcast=True, out_dim=self._out_dim), source, axis
        )


def added_frames(
    layer: LayerBase, source: Tensor, axis: Dim, value: LayerBase | float, number: LayerBase | int
) -> tuple[Tensor, Dim]:
    """
    :param layer: to which the new dim belongs
    :param source: the frames are like those of this one
    :param axis: the dim of these
    :param value: layer or number
    :param number: of frames; a layer says it for each sequence
    :return: [..., new dim], new dim
    """
    if isinstance(number, LayerBase):
        dim = layer.new_dim("added")
        if dim.dyn_size is None:
            lengths = rf.cast(number.output, "int32")  # moved out of a loop, one number for each of its frames
            dim.dyn_size_ext = rf.expand_to(lengths, axis.get_size_tensor().dims) if lengths.dims else lengths
    else:
        dim = layer.new_dim("added", number)
    if not isinstance(value, LayerBase):
        frames = rf.full(dims=[dim], fill_value=value_like(value, source.dtype), dtype=source.dtype)
        frames = frames.copy_with_roles(sparse_dim=source.sparse_dim)
        return frames, dim
    _, frames = matched_by_size([source, value.output], apart=[axis, *layer.network.get_all_rec_time_dims()])
    return rf.expand_dim(frames, dim), dim


def with_same_roles(out_and_dim: tuple[Tensor, Dim], source: Tensor, axis: Dim) -> Tensor:
    """:return: out, where the new dim is the time or the feature dim if the old one was, and labels are labels"""
    out, new_dim = out_and_dim
    out = out.copy_with_roles(sparse_dim=source.sparse_dim)
    if source.feature_dim == axis:
        out = out.copy_with_roles(feature_dim=new_dim)
    if source.time_dim_axis is not None and source.dims[source.time_dim_axis] == axis:
        out = out.copy_with_roles(time_dim=new_dim)
    return out
