"""Several dims as one, and one as several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.axes.batch_axis import set_batch_of_two
from returnn.tf.layers.core.merged_lengths import merge_dims, with_lengths
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import ConfigError
from returnn.util.not_specified import NotSpecified


class MergeDimsLayer(_ConcatInputLayer):
    """
    Merges dims into one: `[B, W, H, F]` with the axes `["dim:W", "F"]` becomes `[B, H, W*F]`.

    If the feature dim is among them, the result is the feature dim. If the batch dim is, the result is the batch dim.
    If there is only one of them, or none of a kind such as "except_time", the source stays as it is.
    """

    layer_class = "merge_dims"
    keeps_zeros = True

    def __init__(
        self,
        axes: Any,
        keep_order: bool | type[NotSpecified] = NotSpecified,
        n_out: int | None = None,
        out_dim: Dim | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param axes: the dims, by description, the outermost first
        :param keep_order: whether the order in `axes` counts. Otherwise it is the order of the axes of the source, but
            the batch dim always comes first, as "split_batch_time" expects it. That was the default before behavior
            version 6.
        :param n_out: size of the merged dim, as a check
        :param out_dim: the merged dim
        """
        super().__init__(n_out=NotSpecified if n_out is None else n_out, out_dim=out_dim, **kwargs)
        self.axes = axes
        self.keep_order = BehaviorVersion.get() >= 6 if keep_order is NotSpecified else bool(keep_order)

    def compute(self, source: Tensor) -> Tensor:
        """:return: with one dim in place of them"""
        dims = self.dims_of(source, self.axes, option="axes")
        if not dims and (self._out_dim is not None or not self.axes):
            raise ConfigError(f"{self.where()}: option 'axes': {self.axes!r} are no dims of the source {source}.")
        if not self.keep_order:
            dims.sort(key=source.copy_as_batch_major().get_axis_from_description)
        if len(dims) <= 1 and self._out_dim is None:
            return source
        is_feature = source.feature_dim in dims and not any(dim.is_batch_dim() for dim in dims)
        out, out_dim = merge_dims(self, source, dims, out_dim=self._out_dim)
        if is_feature:
            out = out.copy_with_roles(feature_dim=out_dim)
        if source.have_batch_axis() and len(dims) == 2:
            set_batch_of_two(out, source, dims)
        return out


class CombineDimsLayer(MergeDimsLayer):
    """The old name of `MergeDimsLayer`."""

    layer_class = "combine_dims"


class SplitDimsLayer(_ConcatInputLayer):
    """
    Splits a dim into several: `[B, T, F]` with `dims=(4, -1)` becomes `[B, T, 4, F/4]`.

    If it is the feature dim, the last of the new dims is the feature dim. The last piece of a sequence can have frames
    beyond its end: these are as in the source, only those beyond the end of the longest sequence are `pad_value`.
    """

    layer_class = "split_dims"
    keeps_zeros = True

    def __init__(
        self,
        axis: Any,
        dims: Sequence[int | Dim],
        pad_to_multiples: bool | None = None,
        pad_value: Any = 0,
        **kwargs: Any,
    ) -> None:
        """
        :param axis: the dim, by description
        :param dims: the new dims or their sizes, the outermost first. One can be -1, its size follows.
        :param pad_to_multiples: fill the dim up so that it can be split. Default: if sequences have different lengths
        :param pad_value: to fill it up with
        """
        super().__init__(**kwargs)
        self.axis = axis
        self.dims = list(dims)
        self.pad_to_multiples = pad_to_multiples
        self.pad_value = pad_value
        if self.dims.count(-1) > 1:
            raise ConfigError(f"{self.where()}: option 'dims': -1 can only occur once, not as in {tuple(dims)}.")

    def compute(self, source: Tensor) -> Tensor:
        """:return: with several dims in place of the one"""
        axis = self.dim_of(source, self.axis, option="axis")
        is_feature = axis == source.feature_dim
        is_padded = axis.size is None if self.pad_to_multiples is None else self.pad_to_multiples
        dims = self._new_dims(axis, is_padded, [dim for dim in source.dims if dim != axis])

        def split(x: Tensor) -> Tensor:
            return rf.split_dims(
                x, axis=axis, dims=dims, pad_to_multiples=is_padded, pad_value=self.pad_value, use_mask=False
            )

        out = with_lengths(self, split(source), [axis], split)
        if is_feature:
            out = out.copy_with_roles(feature_dim=dims[-1])
        elif axis == _time_dim(source):
            dynamic = [dim for dim in dims if dim.size is None]
            out = out.copy_with_roles(time_dim=(dynamic or dims)[0])
        return out

    def _new_dims(self, axis: Dim, is_padded: bool, beside: Sequence[Dim]) -> list[Dim]:
        dims: list[Any] = list(self.dims)
        for i, dim in enumerate(dims):
            if isinstance(dim, int) and dim != -1:
                kind = _kind_of_part(axis, is_last=i == len(dims) - 1)
                dims[i] = self.new_dim_beside(f"split-{i}", dim, [*beside, *dims[:i]], kind=kind)
        if -1 in dims:
            i = dims.index(-1)
            dims[i] = self._rest(axis, dims[:i], dims[i + 1 :], is_padded, beside)
        return dims

    def _rest(
        self, axis: Dim, left: Sequence[Dim], right: Sequence[Dim], is_padded: bool, beside: Sequence[Dim]
    ) -> Dim:
        """:return: the dim whose size follows from the others"""
        others = 1
        for dim in (*left, *right):
            others = dim.size * others if dim.size is not None and others is not None else None
        if axis.size is None or others is None:
            rest = axis
            for dim in reversed(right):
                rest = rest.ceildiv_right(dim) if is_padded else rest.div_right(dim)
            for dim in left:
                rest = rest.ceildiv_left(dim) if is_padded else rest.div_left(dim)
            return rest
        if axis.size % others and not is_padded:
            raise ConfigError(f"{self.where()}: option 'dims': {axis} cannot be split into {tuple(self.dims)}.")
        kind = _kind_of_part(axis, is_last=not right)
        return self.new_dim_beside("split-rest", -(-axis.size // others), [*beside, *left, *right], kind=kind)


def _time_dim(x: Tensor) -> Dim | None:
    return None if x.time_dim_axis is None else x.dims[x.time_dim_axis]


def _kind_of_part(axis: Dim, is_last: bool) -> Any:
    """:return: kind of a part of the dim"""
    return Dim.Types.Feature if axis.is_feature_dim() and is_last else Dim.Types.Spatial
