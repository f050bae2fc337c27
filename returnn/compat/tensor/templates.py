"""Templates which are like a tensor, but for some axes by their number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

from returnn.compat.tensor.layout import TensorOldLayout
from returnn.tensor.control_flow_ctx import ControlFlowContext
from returnn.tensor.dim import Dim, batch_dim
from returnn.tensor.dim_types import DimKind

if TYPE_CHECKING:
    from typing_extensions import Self


class TensorOldTemplates(TensorOldLayout):
    """What `Tensor` gets from here."""

    def copy_template_excluding_spatial_dim(self, spatial_axis_num: int, name: str | None = None) -> Self:
        """:return: template without the spatial axis that has this number"""
        return self.copy_template_excluding_axis(self.get_spatial_batch_axes()[spatial_axis_num], name)

    def copy_template_excluding_time_dim(self, name: str | None = None) -> Self:
        """:return: template of a single frame"""
        axis = self.get_axis_from_description("T")
        new = self.copy_template_excluding_axis(axis, name)
        new.time_dim_axis = None
        return new

    def copy_template_adding_time_dim(self, name: str | None = None, time_dim_axis: int = 0) -> Self:
        """:return: template of a sequence of what this is"""
        time_dim = Dim(None, name=f"{self.name}:time", kind=DimKind.Spatial)
        axis = time_dim_axis if time_dim_axis >= 0 else time_dim_axis + len(self.dims) + 1
        new = self._insert_dim(time_dim, axis, name)
        new.time_dim_axis = axis
        return new

    def copy_template_replace_dim(self, axis: int, new_dim: int | None, new_size: Any = None) -> Self:
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

    def copy_template_set_ctx(self, ctx: ControlFlowContext | None) -> Self:
        """:return: template that lives in this loop"""
        new = self.copy_template()
        new.control_flow_ctx = ctx
        return new

    def copy_template_unpack_batch(self) -> Self:
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
    ) -> Self:
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
        return cls(name, dims, dtype, sparse_dim=sparse_dim, feature_dim=feature_dim)


_DTYPES_OF_PYTHON = {"b": "bool", "i": "int32", "f": "float32", "U": "string", "S": "string", "c": "complex64"}


def _as_dim(size: Dim | int, *, name: str) -> Dim:
    return size if isinstance(size, Dim) else Dim(size, name=name, auto_generated=True)
