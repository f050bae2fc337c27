"""Tensors without a value which are like a given tensor, but for some of its dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

from returnn.tensor.dim import Dim, batch_dim
from returnn.tensor.dim_types import DimKind
from returnn.util.errors import DimError
from returnn.util.not_specified import NotSpecified

if TYPE_CHECKING:
    from returnn.tensor.control_flow_ctx import ControlFlowContext
    from returnn.tensor.tensor import Tensor


class TensorTemplates:
    """The part of `Tensor` that makes templates."""

    def copy_template(self: Tensor, name: str | None = None, *, dtype: str | None = None) -> Tensor:
        """:return: the same without its value"""
        return self._with_same_axes(name=name, dtype=dtype)

    def copy_template_dense(self: Tensor, name: str | None = None, dtype: str | None = None) -> Tensor:
        """:return: for sparse data, what it looks like with an axis over the labels instead"""
        if self.sparse_dim is None:
            return self.copy_template(name, dtype=dtype)
        dims = (*self.dims, self.sparse_dim)
        new = self._with_axes(dims, [*range(len(self.dims)), None], name=name, dtype=dtype or "float32")
        new.sparse_dim = None
        new.feature_dim_axis = len(dims) - 1
        return new

    def copy_template_excluding_axis(self: Tensor, exclude_axis: int, name: str | None = None) -> Tensor:
        """:return: template without an axis, counted with the batch axis"""
        keep = [i for i in range(len(self.dims)) if i != self._checked_axis(exclude_axis)]
        return self._with_axes([self.dims[i] for i in keep], keep, name=name)

    def copy_template_excluding_spatial_dim(self: Tensor, spatial_axis_num: int, name: str | None = None) -> Tensor:
        """:return: template without the spatial axis that has this number"""
        return self.copy_template_excluding_axis(self.get_spatial_batch_axes()[spatial_axis_num], name)

    def copy_template_excluding_time_dim(self: Tensor, name: str | None = None) -> Tensor:
        """:return: template of a single frame"""
        axis = self.get_axis_from_description("T")
        new = self.copy_template_excluding_axis(axis, name)
        new.time_dim_axis = None
        return new

    def copy_template_adding_time_dim(self: Tensor, name: str | None = None, time_dim_axis: int = 0) -> Tensor:
        """:return: template of a sequence of what this is"""
        time_dim = Dim(None, name=f"{self.name}:time", kind=DimKind.Spatial)
        new = self._insert_dim(time_dim, time_dim_axis, name)
        new.time_dim_axis = time_dim_axis
        return new

    def copy_template_replace_dim_tag(self: Tensor, axis: int, new_dim_tag: Dim, name: str | None = None) -> Tensor:
        """:return: template with another dim on an axis, counted with the batch axis"""
        dims = list(self.dims)
        dims[axis] = new_dim_tag
        return self._with_axes(dims, range(len(dims)), name=name)

    def copy_template_replace_dim(self: Tensor, axis: int, new_dim: int | None, new_size: Any = None) -> Tensor:
        """
        :param axis: counted with the batch axis
        :param new_dim: size of the axis
        :param new_size: raw lengths of the axis
        :return: template with another size on the axis
        """
        old = self.dims[axis]
        dim = Dim(new_dim, name=f"{old.name}:replaced", kind=old.kind, auto_generated=new_dim is not None)
        new = self.copy_template_replace_dim_tag(axis, batch_dim if old.is_batch_dim() else dim)
        if new_size is not None:
            new.set_dynamic_size(axis, new_size)
        return new

    def copy_template_new_dim_tags(
        self: Tensor, new_dim_tags: Sequence[Dim], name: str | None = None, keep_special_axes: bool = False
    ) -> Tensor:
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

    def copy_template_set_ctx(self: Tensor, ctx: ControlFlowContext | None) -> Tensor:
        """:return: template that lives in this loop"""
        new = self.copy_template()
        new.control_flow_ctx = ctx
        return new

    def copy_template_unpack_batch(self: Tensor) -> Tensor:
        """:return: template with one axis for each part of the batch axis"""
        axis = self.batch_dim_axis
        if axis is None:
            return self.copy_template()
        parts = [part for part in self.dims[axis].axis_split_info() if isinstance(part, Dim)]
        dims = [*self.dims[:axis], *parts, *self.dims[axis + 1 :]]
        old_axes = [*range(axis), *[axis if part.is_batch_dim() else None for part in parts]]
        return self._with_axes(dims, [*old_axes, *range(axis + 1, len(self.dims))])

    @classmethod
    def template_from_constant(
        cls,
        x: Any,
        name: str,
        dtype: str | None = None,
        shape: Sequence[Dim | int] | None = None,
        with_batch_dim: bool = False,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
    ) -> Tensor:
        """
        :param x: number, text, numpy array, ...
        :param name: of the template
        :param dtype: default: that of `x`, where numbers of Python are int32 or float32
        :param shape: its dims, or sizes; default: made from the shape of `x`
        :param with_batch_dim: with a batch axis in front, which `x` itself does not have
        :param sparse_dim: what the values are indices into
        :param feature_dim: of the template
        """
        if not hasattr(x, "shape"):
            is_of_python = not isinstance(x, numpy.generic)
            x = numpy.asarray(x)
            dtype = dtype or (_DTYPES_OF_PYTHON.get(x.dtype.kind) if is_of_python else None)
        sizes = [int(size) for size in x.shape] if shape is None else shape
        dims = [_as_dim(size, name=f"{name}:dim{i}") for i, size in enumerate(sizes)]
        if with_batch_dim and batch_dim not in dims:
            dims.insert(0, batch_dim)
        dtype = dtype or getattr(x.dtype, "name", str(x.dtype))
        return cls(name, dims, dtype, sparse_dim=sparse_dim, feature_dim=feature_dim)  # type: ignore[call-arg, return-value]

    @classmethod
    def get_common_data(
        cls,
        sources: Sequence[Tensor],
        ignore_feature_dim: bool = False,
        allow_broadcast_all_sources: bool | type[NotSpecified] = NotSpecified,
        name: str | None = None,
    ) -> Tensor | None:
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
            inputs = [x if x.feature_dim is None else _without_feature(x) for x in sources]
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


def _without_feature(x: Tensor) -> Tensor:
    axis = x.feature_dim_axis
    return x.copy_template() if axis is None else x.copy_template_excluding_axis(axis)


_DTYPES_OF_PYTHON = {"b": "bool", "i": "int32", "f": "float32", "U": "string", "S": "string", "c": "complex64"}


def _as_dim(size: Dim | int, *, name: str) -> Dim:
    return size if isinstance(size, Dim) else Dim(size, name=name, auto_generated=True)
