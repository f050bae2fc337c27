"""Copies of a tensor with another order of its axes, or with axes added, removed, merged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from returnn.tensor._frontend import frontend
from returnn.tensor.dim import Dim, batch_dim
from returnn.tensor.dim_types import DimKind
from returnn.util.errors import DimError
from returnn.util.not_specified import NotSpecified

if TYPE_CHECKING:
    from returnn.tensor.batch_info import BatchInfo
    from returnn.tensor.tensor import Tensor


class TensorLayout:
    """The part of `Tensor` that changes the layout."""

    def copy(self: Tensor, name: str | None = None) -> Tensor:
        """:return: another object with the same value"""
        new = self._with_same_axes(name=name)
        new._raw_tensor = self._raw_tensor
        return new

    def copy_transpose(self: Tensor, perm: Sequence[int | Dim], *, allow_int: bool = True) -> Tensor:
        """
        :param perm: for each new axis, the old one or its dim
        :param allow_int: whether numbers are allowed
        :raises DimError: if `perm` does not have each axis once
        """
        axes = [self.get_axis_from_description(p, allow_int=allow_int) for p in perm]
        if sorted(axes) != list(range(len(self.dims))):
            raise DimError(f"{self}: {list(perm)} is not an order of its axes.")
        if axes == list(range(len(axes))):
            return self.copy()
        new = self._with_axes([self.dims[i] for i in axes], axes)
        if self._raw_tensor is not None:
            new._raw_tensor = self._raw_backend.transpose_raw(self._raw_tensor, axes)
        return new

    def copy_move_axis(self: Tensor, old_axis: int, new_axis: int) -> Tensor:
        """:return: with one axis moved to another place; the others keep their order"""
        old_axis, new_axis = self._checked_axis(old_axis), self._checked_axis(new_axis)
        perm = [i for i in range(len(self.dims)) if i != old_axis]
        perm.insert(new_axis, old_axis)
        return self.copy_transpose(perm)

    def copy_swap_axes(self: Tensor, axis1: int, axis2: int) -> Tensor:
        """:return: with two axes in each other's place"""
        perm = list(range(len(self.dims)))
        perm[axis1], perm[axis2] = perm[axis2], perm[axis1]
        return self.copy_transpose(perm)

    def copy_as_batch_major(self: Tensor) -> Tensor:
        """:return: with the batch axis first"""
        return self.copy_with_batch_dim_axis(0)

    def copy_as_time_major(self: Tensor) -> Tensor:
        """:return: with the time axis first"""
        return self.copy_with_time_dim_axis(0)

    def copy_as_time_batch_major(self: Tensor) -> Tensor:
        """:return: (time, batch, ...); without a batch axis, with the time axis first"""
        new = self.copy_as_batch_major() if self.have_batch_axis() else self
        return new.copy_as_time_major()

    def copy_as_bt_or_tb_major(self: Tensor) -> Tensor:
        """:return: (batch, time, ...) or (time, batch, ...), whichever takes less"""
        if {self.batch_dim_axis, self.time_dim_axis} == {0, 1}:
            return self.copy()
        return self.copy_as_time_major().copy_as_batch_major()

    def copy_with_feature_last(self: Tensor) -> Tensor:
        """:return: with the feature axis last"""
        return self.copy_with_feature_dim_axis(-1)

    def copy_as_batch_feature_major(self: Tensor) -> Tensor:
        """:return: (batch, feature, ...)"""
        return self.copy_with_feature_dim_axis(0).copy_as_batch_major()

    def copy_as_batch_spatial_major(self: Tensor) -> Tensor:
        """:return: (batch, spatial axes, feature)"""
        new = self.copy_as_batch_major()
        return new.copy_with_feature_last() if new.have_feature_axis() else new

    def copy_with_batch_dim_axis(self: Tensor, batch_dim_axis: int) -> Tensor:
        """:return: with the batch axis at this place"""
        return self.copy_move_axis(self.get_axis_from_description("B"), batch_dim_axis)

    def copy_with_time_dim_axis(self: Tensor, time_dim_axis: int) -> Tensor:
        """:return: with the time axis at this place"""
        return self.copy_move_axis(self.get_axis_from_description("T"), time_dim_axis)

    def copy_with_feature_dim_axis(self: Tensor, feature_dim_axis: int) -> Tensor:
        """:return: with the feature axis at this place"""
        return self.copy_move_axis(self.get_axis_from_description("F"), feature_dim_axis)

    def copy_squeeze_axes(self: Tensor, axes: Sequence[int]) -> Tensor:
        """
        :param axes: axes of size 1, counted with the batch axis
        :return: without them
        """
        axes = [self._checked_axis(axis) for axis in axes]
        wrong = [self.dims[axis] for axis in axes if self.dims[axis].size != 1]
        if wrong:
            raise DimError(f"{self}: only axes of size 1 can be removed, not {wrong}.")
        keep = [i for i in range(len(self.dims)) if i not in axes]
        new = self._with_axes([self.dims[i] for i in keep], keep)
        if self._raw_tensor is not None:
            new._raw_tensor = self._raw_backend.squeeze_raw(self._raw_tensor, axes)
        return new

    def copy_add_dim_by_tag(self: Tensor, dim_tag: Dim, unbroadcast: bool = False, axis: int | None = None) -> Tensor:
        """
        :param dim_tag: the new dim
        :param unbroadcast: repeat the values along it; otherwise its axis has size 1
        :param axis: where; default: where such a dim usually stands
        """
        axis = self.get_default_new_axis_for_dim_tag(dim_tag) if axis is None else axis
        axis = axis % (len(self.dims) + 1)
        if not unbroadcast and dim_tag.size != 1 and not dim_tag.is_batch_dim():
            dim_tag = Dim(1, name=f"{dim_tag.name}:broadcast", kind=dim_tag.kind, auto_generated=True)
        new = self._insert_dim(dim_tag, axis)
        if self._raw_tensor is not None:
            backend = self._raw_backend
            raw = backend.expand_dims_raw(self._raw_tensor, axis)
            if unbroadcast and dim_tag.size != 1:
                raw = backend.expand_raw(raw, axis, dim_tag.get_dim_value())
            new._raw_tensor = raw
        return new

    def copy_add_batch_dim(
        self: Tensor, batch_dim_axis: int, batch: BatchInfo | None = None, dim_tag: Dim | None = None
    ) -> Tensor:
        """
        :param batch_dim_axis: where
        :param batch: what the batch consists of; the values are repeated for each entry. Default: the axis has size 1
        :param dim_tag: the dim of the batch
        """
        if self.have_batch_axis():
            raise DimError(f"{self}: has a batch axis already.")
        new = self.copy_add_dim_by_tag(dim_tag or batch_dim, unbroadcast=batch is not None, axis=batch_dim_axis)
        new.batch = batch
        return new

    def copy_add_spatial_dim(
        self: Tensor, spatial_dim_axis: int | None = None, dim: int | Dim | None = 1, auto_time_dim_axis: bool = True
    ) -> Tensor:
        """
        :param spatial_dim_axis: where, counted with the batch axis
        :param dim: its size, or the dim itself
        :param auto_time_dim_axis: the new axis is the time axis, if there was none
        """
        new_dim = (
            dim if isinstance(dim, Dim) else Dim(dim, name="added-spatial", kind=DimKind.Spatial, auto_generated=True)
        )
        had_time = self.have_time_axis()
        axis = self.get_default_new_axis_for_dim_tag(new_dim) if spatial_dim_axis is None else spatial_dim_axis
        axis = axis % (len(self.dims) + 1)
        new = self.copy_add_dim_by_tag(new_dim, unbroadcast=True, axis=axis)
        if auto_time_dim_axis and not had_time:
            new.time_dim_axis = axis
        return new

    def copy_add_feature_dim(self: Tensor, axis: int | None = None) -> Tensor:
        """:return: with a feature axis of size 1"""
        new_dim = Dim(1, name="added-feature", kind=DimKind.Feature, auto_generated=True)
        new = self.copy_add_dim_by_tag(new_dim, axis=axis)
        new.feature_dim_axis = next(i for i, d in enumerate(new.dims) if d is new_dim)
        return new

    def copy_split_feature_dim(self: Tensor, new_feature_dim: int) -> Tensor:
        """:return: with the feature axis of size n as two: n // new_feature_dim, and new_feature_dim"""
        axis = self.get_axis_from_description("F")
        size = self.dims[axis].size
        if size is None or size % new_feature_dim:
            raise DimError(f"{self}: the feature dim cannot be split into pieces of {new_feature_dim}.")
        outer = Dim(size // new_feature_dim, name="feature-split-outer", kind=DimKind.Spatial, auto_generated=True)
        inner = Dim(new_feature_dim, name="feature-split-inner", kind=DimKind.Feature, auto_generated=True)
        return frontend().split_dims(self, axis=self.dims[axis], dims=(outer, inner))

    def copy_compatible_to(
        self: Tensor,
        data: Tensor,
        add_dims: bool = True,
        unbroadcast: bool = False,
        except_feature: bool = False,
        except_axis: Any = None,
        check_sparse: bool = True,
        check_dtype: bool = True,
    ) -> Tensor:
        """
        :param data: the template to be compatible to
        :param add_dims: add axes of size 1 for dims that are missing here
        :param unbroadcast: repeat the values along the added axes
        :param except_feature: the feature axis may differ
        :param except_axis: this axis of `data` may differ
        :param check_sparse: both have to be sparse, or both dense
        :param check_dtype: both have to have the same dtype
        :return: this tensor with its axes in the order of those of `data`
        """
        if check_sparse and self.sparse != data.sparse:
            raise DimError(f"{self} and {data}: one is sparse, the other is not.")
        if check_dtype and self.dtype != data.dtype:
            raise DimError(f"{self} and {data}: the dtypes {self.dtype} and {data.dtype} differ.")
        dims = list(data.dims)
        if except_feature and data.feature_dim_axis is not None and self.feature_dim is not None:
            dims[data.feature_dim_axis] = self.feature_dim
        if except_axis is not None:
            axis = data.get_axis_from_description(except_axis, allow_int=True)
            dims = [d for i, d in enumerate(dims) if i != axis or d in self.dims]
        return self.copy_compatible_to_dims(dims, add_dims=add_dims, unbroadcast=unbroadcast)

    def copy_compatible_to_dims(
        self: Tensor, dims: Sequence[Dim], *, add_dims: bool = True, unbroadcast: bool = False
    ) -> Tensor:
        """
        :param dims: the order of the axes, and which of them have to be there
        :param add_dims: add axes of size 1 for dims that are missing here
        :param unbroadcast: repeat the values along the added axes
        :raises DimError: if a dim of this tensor is not among `dims`
        """
        order = self.get_out_permutation_to_dims(dims)
        new = self.copy_transpose([i for i in order if i >= 0])
        missing = [axis for axis, i in enumerate(order) if i < 0]
        if missing and not add_dims:
            raise DimError(f"{self}: the dims {[dims[i] for i in missing]} are missing.")
        for axis in missing:
            new = new.copy_add_dim_by_tag(dims[axis], unbroadcast=unbroadcast, axis=axis)
        return new

    def copy_compatible_to_dims_raw(
        self: Tensor, dims: Sequence[Dim], *, add_dims: bool = True, unbroadcast: bool = False
    ) -> Any:
        """:return: like `copy_compatible_to_dims`, but the raw tensor; no operation if it fits already"""
        if tuple(dims) == self.dims:
            return self.raw_tensor
        return self.copy_compatible_to_dims(dims, add_dims=add_dims, unbroadcast=unbroadcast).raw_tensor

    def get_out_permutation_to_dims(self: Tensor, dims: Sequence[Dim]) -> list[int]:
        """
        :return: for each of `dims`, the axis here, or -1
        :raises DimError: if a dim of this tensor is not among `dims`
        """
        positions = {id(dim): axis for axis, dim in enumerate(self._dims)}
        exact = [positions.get(id(dim), -1) for dim in dims]  # this is most often enough, and faster than to compare
        if sorted([axis for axis in exact if axis >= 0]) == list(range(len(self._dims))):
            return exact
        taken: list[int] = []
        order: list[int] = []
        for dim in dims:
            axes = [i for i, d in enumerate(self.dims) if i not in taken and d == dim]
            axes.sort(key=lambda i: (self.dims[i].match_priority != dim.match_priority, -self.dims[i].match_priority))
            order.append(axes[0] if axes else -1)
            taken += axes[:1]
        if len(taken) != len(self.dims):
            missing = [str(d) for i, d in enumerate(self.dims) if i not in taken]
            raise DimError(f"{self}: its dim {', '.join(missing)} is not among {', '.join(map(str, dims)) or 'none'}.")
        return order

    def get_default_new_axis_for_dim_tag(self: Tensor, dim_tag: Dim) -> int:
        """:return: where a new dim usually stands: batch first, feature last, spatial behind batch and spatial dims"""
        if dim_tag.is_batch_dim():
            return 0
        if dim_tag.is_feature_dim() or not self.dims:
            return len(self.dims)
        feature_axis = self.feature_dim_axis
        if feature_axis is not None and feature_axis == len(self.dims) - 1:
            return feature_axis
        return len(self.dims)

    def _new_tensor(
        self: Tensor,
        name: str,
        dims: Iterable[Dim],
        dtype: str,
        *,
        sparse_dim: Dim | None = None,
        raw_tensor: Any = None,
    ) -> Tensor:
        return type(self)._tensor_class(name, tuple(dims), dtype, sparse_dim=sparse_dim, raw_tensor=raw_tensor)

    def _insert_dim(self: Tensor, dim: Dim, axis: int, name: str | None = None) -> Tensor:
        dims = [*self.dims[:axis], dim, *self.dims[axis:]]
        return self._with_axes(dims, [*range(axis), None, *range(axis, len(self.dims))], name=name)

    def _with_axes(
        self: Tensor,
        dims: Iterable[Dim],
        old_axes: Iterable[int | None],
        *,
        name: str | None = None,
        dtype: str | None = None,
    ) -> Tensor:
        """
        :param dims: of the new tensor
        :param old_axes: for each of them, the axis here that it stands for, or None if it is new
        :return: template with these dims. Time and feature dim go with their axes.
        """
        new = self._with_same_axes(name=name, dtype=dtype)
        new._dims = tuple(dims)
        positions = list(old_axes)
        for attribute in ("_feature_dim_axis", "_time_dim_axis"):
            axis = getattr(self, attribute)
            if axis is not None and axis is not NotSpecified:
                setattr(new, attribute, positions.index(axis) if axis in positions else NotSpecified)
        return new

    def _with_same_axes(self: Tensor, *, name: str | None = None, dtype: str | None = None) -> Tensor:
        """:return: template with the same dims. This is what most operations start with, so it does not call much."""
        new = object.__new__(type(self)._tensor_class)
        new.__dict__.update(self.__dict__)
        new._raw_tensor = None
        if name is not None:
            new.name = name
        if dtype is not None:
            new.dtype = dtype
            if not dtype.startswith(("int", "uint")):
                new.sparse_dim = None
        return new
