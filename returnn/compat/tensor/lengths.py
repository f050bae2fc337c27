"""Lengths and masks of a tensor by the number of its axis, as raw tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from returnn.compat.tensor.axes import TensorOldAxes
from returnn.compat.tensor.dim_names import dim_of_lengths, note_dim_of_lengths
from returnn.tensor._frontend import backend_of_raw
from returnn.tensor.dim import Dim
from returnn.tensor.tensor import Tensor
from returnn.util.errors import DimError

if TYPE_CHECKING:
    from typing_extensions import Self


class SizesByAxis(dict[int, Any]):
    """Raw lengths by axis, counted without the batch axis. What is set, the tensor gets; not so in a copy."""

    def __init__(self, sizes: Any = (), *, tensor: TensorOldLengths | None = None) -> None:
        """
        :param sizes: as for a dict. TensorFlow makes another one for what a session computed
        :param tensor: whose lengths they are
        """
        super().__init__(sizes)
        self._tensor = tensor

    @classmethod
    def of_tensor(cls, tensor: TensorOldLengths) -> SizesByAxis:
        """:return: the lengths that are known"""
        sizes = {tensor._count_without_batch(i): tensor._raw_lengths(i) for i in tensor.get_dynamic_axes()}
        return cls({axis: size for axis, size in sizes.items() if size is not None}, tensor=tensor)

    def __setitem__(self, axis: int, size: Any) -> None:
        if self._tensor is not None:
            self._tensor.set_dynamic_size(self._tensor.get_batch_axis(axis), size)
        super().__setitem__(axis, size)

    def as_dict(self) -> dict[int, Any]:
        """:return: a copy"""
        return dict(self)

    def update(self, *sizes: Any, **more: Any) -> None:
        """Sets several of them."""
        for axis, size in dict(*sizes, **more).items():
            self[axis] = size


class TensorOldLengths(TensorOldAxes):
    """What `Tensor` gets from here."""

    def set_dynamic_size(self, axis: int, sizes: Any) -> None:
        """
        If the dim has other lengths already, which may be those of other tensors, the axis gets a new dim.

        :param axis: counted with the batch axis
        :param sizes: raw lengths, (B,)
        """
        dim = self.dims[axis]
        if dim.size is not None:
            raise DimError(f"{self}: the axis {dim} has a fixed size.")
        if dim.dyn_size is sizes:
            return
        if dim.dyn_size is not None:
            dim = Dim(None, name=dim.name, kind=dim.kind)
            self._dims = (*self.dims[:axis], dim, *self.dims[axis + 1 :])
        known = dim_of_lengths(sizes)
        if known is not None and known != dim:
            dim.declare_same_as(known)
            return
        backend = backend_of_raw(sizes)
        dims = [self.get_batch_dim_tag()] if backend.get_ndim_raw(sizes) == 1 else []
        dtype = backend.get_dtype_name_raw(sizes)
        dim.dyn_size_ext = Tensor(f"{dim.name}:lengths", dims, dtype, raw_tensor=sizes)
        note_dim_of_lengths(sizes, dim)

    def has_dynamic_size(self, axis: int) -> bool:
        """:return: whether the axis, counted with the batch axis, has lengths"""
        return self.dims[axis].dyn_size is not None

    def get_axes_with_size(self) -> list[int]:
        """:return: axes with sequences of different lengths, counted without the batch axis"""
        return [self._count_without_batch(i) for i in self.get_dynamic_axes()]

    @property
    def size_placeholder(self) -> SizesByAxis:
        """Raw lengths by axis, counted without the batch axis, as far as they are known. What is set, the axis gets."""
        return SizesByAxis.of_tensor(self)

    @size_placeholder.setter
    def size_placeholder(self, sizes: Mapping[int, Any] | None) -> None:
        for axis, size in (sizes or {}).items():
            self.set_dynamic_size(self.get_batch_axis(axis), size)

    def _raw_lengths(self, axis: int) -> Any:
        """:return: raw lengths of the axis, None if they are not known. Whose they are is noted on them"""
        dim = self.dims[axis]
        if dim.dyn_size is None:
            return None
        note_dim_of_lengths(dim.dyn_size, dim)
        return self.lengths_of_axis(axis).raw_tensor

    def get_size_dim_tag(self, number: int) -> Dim:
        """:return: the dim of the axis with lengths that has this number"""
        return self.dims[self.get_dynamic_axes()[number]]

    def is_time_axis_dynamic(self) -> bool:
        """:return: whether the time axis has sequences of different lengths"""
        axis = self.time_dim_axis
        return axis is not None and self.is_axis_dynamic(axis)

    def time_dimension(self) -> Any:
        """:return: size of the time axis in memory, as number or raw scalar"""
        return self.get_time_dim_tag().get_dim_value()

    def get_sequence_mask_tensor(self, axis: int) -> Tensor:
        """:return: bool, True for the frames on this axis which belong to their sequence: [B, T] as dims"""
        mask: Tensor = self.with_own_beam(self.dims[axis].get_mask(dim_order=self.dims))
        own = [dim for dim in self.dims if dim in mask.dims]
        return mask.copy_transpose([*own, *(dim for dim in mask.dims if dim not in own)])

    def get_sequence_mask(self) -> Any:
        """:return: raw mask over the time axis: (B, T) or (T, B), as the tensor is batch- or time-major"""
        return self.get_sequence_mask_tensor(self.get_axis_from_description("T")).raw_tensor

    def get_sequence_mask_broadcast(self, axis: Any = None) -> Any:
        """:return: raw mask over an axis (default: time), with axes of size 1, so that it fits this tensor"""
        axis = self.get_axis_from_description("T" if axis is None else axis, allow_int=True)
        return self.get_sequence_mask_tensor(axis).copy_compatible_to(self, check_dtype=False).raw_tensor

    def get_sequence_lengths_broadcast(self, axis: Any = None) -> Any:
        """:return: raw lengths of an axis (default: time), with axes of size 1, so that they fit this tensor"""
        axis = self.get_axis_from_description("T" if axis is None else axis, allow_int=True)
        lengths = self.dims[axis].get_size_tensor()
        return lengths.copy_compatible_to(self, check_dtype=False, check_sparse=False).raw_tensor

    def mark_same_time(self, tags: Any, must_match: bool = False) -> bool:
        """
        Makes the first axis with one of these dims the time axis.

        :param tags: dims
        :param must_match: raise an error if there is none
        :return: whether there was one
        """
        wanted = {tags} if hasattr(tags, "dyn_size_ext") else set(tags)
        for axis, dim in enumerate(self.dims):
            if dim in wanted:
                self.time_dim_axis = axis
                return True
        if must_match:
            raise DimError(f"{self}: none of the dims {sorted(wanted)} is there.")
        return False

    def is_same_time_dim(self, other: Self) -> bool:
        """:return: whether both have the same time dim"""
        return self.get_time_dim_tag() == other.get_time_dim_tag()
