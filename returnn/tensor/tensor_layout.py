"""Copies of a tensor with another order of its axes, or with axes added, removed, merged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from returnn.tensor._frontend import operations
from returnn.tensor.dim import Dim
from returnn.tensor.tensor_templates import TensorTemplates
from returnn.util.errors import DimError
from returnn.util.not_specified import NotSpecified

if TYPE_CHECKING:
    from typing_extensions import Self


class TensorLayout(TensorTemplates):
    """The floor of `Tensor` that changes the layout."""

    def copy(self, name: str | None = None) -> Self:
        """:return: another object with the same value"""
        new = self._with_same_axes(name=name)
        new._raw_tensor = self._raw_tensor
        return new

    def copy_with_roles(
        self,
        *,
        feature_dim: Dim | type[NotSpecified] | None = NotSpecified,
        time_dim: Dim | type[NotSpecified] | None = NotSpecified,
        sparse_dim: Dim | type[NotSpecified] | None = NotSpecified,
    ) -> Self:
        """
        What is not given stays as it is; None: there is no such dim.

        :param feature_dim: one of the dims, which linear transformations work on
        :param time_dim: one of the dims, over the time frames
        :param sparse_dim: what the values are indices into
        :return: the same value, with other roles of its dims
        :raises DimError: if it does not have the dim
        """
        new = self.copy()
        if feature_dim is not NotSpecified:
            new.feature_dim = feature_dim  # type: ignore[assignment]
        if time_dim is not NotSpecified:
            new.time_dim_axis = None if time_dim is None else new.get_axis_from_description(time_dim)  # type: ignore[arg-type]
        if sparse_dim is not NotSpecified:
            new.sparse_dim = sparse_dim  # type: ignore[assignment]
        return new

    def copy_transpose(self, perm: Sequence[int | Dim], *, allow_int: bool = True) -> Self:
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

    def copy_move_axis(self, old_axis: int, new_axis: int) -> Self:
        """:return: with one axis moved to another place; the others keep their order"""
        old_axis, new_axis = self._check_axis(old_axis), self._check_axis(new_axis)
        perm = [i for i in range(len(self.dims)) if i != old_axis]
        perm.insert(new_axis, old_axis)
        return self.copy_transpose(perm)

    def copy_swap_axes(self, axis1: int, axis2: int) -> Self:
        """:return: with two axes in each other's place"""
        perm = list(range(len(self.dims)))
        perm[axis1], perm[axis2] = perm[axis2], perm[axis1]
        return self.copy_transpose(perm)

    def copy_as_batch_major(self) -> Self:
        """:return: with the batch axis first"""
        return self.copy_with_batch_dim_axis(0)

    def copy_as_time_major(self) -> Self:
        """:return: with the time axis first"""
        return self.copy_with_time_dim_axis(0)

    def copy_as_bt_or_tb_major(self) -> Self:
        """:return: (batch, time, ...) or (time, batch, ...), whichever takes less"""
        if {self.batch_dim_axis, self.time_dim_axis} == {0, 1}:
            return self.copy()
        return self.copy_as_time_major().copy_as_batch_major()

    def copy_with_feature_last(self) -> Self:
        """:return: with the feature axis last"""
        return self.copy_with_feature_dim_axis(-1)

    def copy_with_batch_dim_axis(self, batch_dim_axis: int) -> Self:
        """:return: with the batch axis at this place"""
        return self.copy_move_axis(self.get_axis_from_description("B"), batch_dim_axis)

    def copy_with_time_dim_axis(self, time_dim_axis: int) -> Self:
        """:return: with the time axis at this place"""
        return self.copy_move_axis(self.get_axis_from_description("T"), time_dim_axis)

    def copy_with_feature_dim_axis(self, feature_dim_axis: int) -> Self:
        """:return: with the feature axis at this place"""
        return self.copy_move_axis(self.get_axis_from_description("F"), feature_dim_axis)

    def copy_add_dim_by_tag(self, dim_tag: Dim, unbroadcast: bool = False, axis: int | None = None) -> Self:
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
            if not backend.is_backend_raw_tensor_dim_tag_independent:
                new._raw_tensor = operations().expand_dim(self, dim_tag)._raw_tensor
                return new
            raw = backend.expand_dims_raw(self._raw_tensor, axis)
            if unbroadcast and dim_tag.size != 1:
                raw = backend.expand_raw(raw, axis, dim_tag.get_dim_value())
            new._raw_tensor = raw
        return new

    def copy_compatible_to(
        self,
        data: Self,
        add_dims: bool = True,
        unbroadcast: bool = False,
        except_feature: bool = False,
        except_axis: Any = None,
        check_sparse: bool = True,
        check_dtype: bool = True,
    ) -> Self:
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
        dims = _with_own_undefined(self.dims, dims)
        return self.copy_compatible_to_dims(dims, add_dims=add_dims, unbroadcast=unbroadcast)

    def copy_compatible_to_dims(self, dims: Sequence[Dim], *, add_dims: bool = True, unbroadcast: bool = False) -> Self:
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
        self, dims: Sequence[Dim], *, add_dims: bool = True, unbroadcast: bool = False
    ) -> Any:
        """:return: like `copy_compatible_to_dims`, but the raw tensor; no operation if it fits already"""
        if tuple(dims) == self.dims:
            return self.raw_tensor
        return self.copy_compatible_to_dims(dims, add_dims=add_dims, unbroadcast=unbroadcast).raw_tensor

    def get_out_permutation_to_dims(self, dims: Sequence[Dim]) -> list[int]:
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


def _with_own_undefined(own_dims: Sequence[Dim], dims: Sequence[Dim]) -> list[Dim]:
    """
    :param own_dims: of a tensor
    :param dims: of a template. Templates by hand have dims that nobody knows the lengths of yet
    :return: where such a dim can stand for one of the tensor, that one, in the order of the axes; also where it is the
        dim of the tensor that has no lengths. A batch dim stands for any other
    """
    open_dims = [dim for dim in own_dims if dim not in dims]
    result = []
    for dim in dims:
        if dim not in own_dims:
            found = next((own for own in open_dims if _may_be_the_same(own, dim)), dim)
            open_dims = [own for own in open_dims if own is not found]
            dim = found
        result.append(dim)
    return result


def _may_be_the_same(a: Dim, b: Dim) -> bool:
    if a.is_batch_dim() or b.is_batch_dim():
        return a.is_batch_dim() and b.is_batch_dim()
    return a.dimension is None and b.dimension is None and None in (a.dyn_size_ext, b.dyn_size_ext)
