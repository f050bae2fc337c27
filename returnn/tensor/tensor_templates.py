"""Tensors without a value which are like a given tensor, but for some of its dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from returnn.tensor.dim import Dim
from returnn.tensor.tensor_axes import TensorAxes
from returnn.util.errors import DimError
from returnn.util.not_specified import NotSpecified

if TYPE_CHECKING:
    from typing_extensions import Self


T = TypeVar("T", bound="TensorTemplates")


class TensorTemplates(TensorAxes):
    """The floor of `Tensor` that makes templates."""

    def copy_template(self, name: str | None = None, *, dtype: str | None = None) -> Self:
        """:return: the same without its value"""
        return self._with_same_axes(name=name, dtype=dtype)

    def copy_template_dense(self, name: str | None = None, dtype: str | None = None) -> Self:
        """:return: for sparse data, what it looks like with an axis over the labels instead"""
        if self.sparse_dim is None:
            return self.copy_template(name, dtype=dtype)
        dims = (*self.dims, self.sparse_dim)
        new = self._with_axes(dims, [*range(len(self.dims)), None], name=name, dtype=dtype or "float32")
        new.sparse_dim = None
        new.feature_dim_axis = len(dims) - 1
        return new

    def copy_template_excluding_axis(self, exclude_axis: int, name: str | None = None) -> Self:
        """:return: template without an axis, counted with the batch axis"""
        keep = [i for i in range(len(self.dims)) if i != self._check_axis(exclude_axis)]
        return self._with_axes([self.dims[i] for i in keep], keep, name=name)

    def copy_template_replace_dim_tag(self, axis: int, new_dim_tag: Dim, name: str | None = None) -> Self:
        """:return: template with another dim on an axis, counted with the batch axis"""
        dims = list(self.dims)
        dims[axis] = new_dim_tag
        return self._with_axes(dims, range(len(dims)), name=name)

    def copy_template_new_dim_tags(
        self, new_dim_tags: Sequence[Dim], name: str | None = None, keep_special_axes: bool = False
    ) -> Self:
        """
        :param new_dim_tags: all dims of the new template
        :param name: its name
        :param keep_special_axes: time and feature dim have the same axes as before; otherwise, the same dims
        """
        if keep_special_axes:
            if len(new_dim_tags) != len(self.dims):
                raise DimError(f"{self}: cannot keep time and feature axis with the dims {list(new_dim_tags)}.")
            return self._with_axes(new_dim_tags, range(len(self.dims)), name=name)
        old_axes = [self.dims.index(dim) if dim in self.dims else None for dim in new_dim_tags]
        return self._with_axes(new_dim_tags, old_axes, name=name)

    def get_default_new_axis_for_dim_tag(self, dim_tag: Dim) -> int:
        """:return: where a new dim usually stands: batch first, feature last, spatial behind batch and spatial dims"""
        if dim_tag.is_batch_dim():
            return 0
        if dim_tag.is_feature_dim() or not self.dims:
            return len(self.dims)
        feature_axis = self.feature_dim_axis
        if feature_axis is not None and feature_axis == len(self.dims) - 1:
            return feature_axis
        return len(self.dims)

    @classmethod
    def get_common_data(
        cls,
        sources: Sequence[Self],
        ignore_feature_dim: bool = False,
        allow_broadcast_all_sources: bool | type[NotSpecified] = NotSpecified,
        name: str | None = None,
    ) -> Self | None:
        """
        :param sources: tensors
        :param ignore_feature_dim: leave out the feature dims
        :param allow_broadcast_all_sources: whether it is fine that no source has all dims
        :param name: of the result
        :return: template with the dims of all sources, in the order of the source which has the most
        :raises DimError: if no source has all dims, and that is not allowed
        """
        if not sources:
            return None
        inputs = sources
        if ignore_feature_dim:
            inputs = [x if x.feature_dim is None else _remove_feature(x) for x in sources]
        common = max(inputs, key=lambda x: len(x.dims)).copy_template(name)
        for source in inputs:
            for dim in source.dims:
                if dim not in common.dims:
                    axis = common.get_default_new_axis_for_dim_tag(dim)
                    common = common._insert_dim(dim, axis, name)
        has_all = any(set(x.dims) >= set(common.dims) for x in inputs)
        if allow_broadcast_all_sources is False and not has_all:
            raise DimError(f"None of {list(sources)} has all of the dims {list(common.dims)}.")
        return common


def _remove_feature(x: T) -> T:
    axis = x.feature_dim_axis
    return x.copy_template() if axis is None else x.copy_template_excluding_axis(axis)
