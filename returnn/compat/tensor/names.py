"""Names of `Data`, as old configs and layer classes use them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from returnn.compat.tensor.batch_size import take_batch_size_from
from returnn.compat.tensor.templates import TensorOldTemplates
from returnn.tensor._frontend import operations
from returnn.tensor.dim import Dim
from returnn.tensor.tensor import Tensor
from returnn.util.errors import DimError

if TYPE_CHECKING:
    from typing_extensions import Self


class TensorOldNames(TensorOldTemplates):
    """What `Tensor` gets from here."""

    SpecialAxesNames = ("time_dim_axis", "feature_dim_axis")

    @property
    def placeholder(self) -> Any:
        """Old word for `raw_tensor`."""
        return self.raw_tensor

    @placeholder.setter
    def placeholder(self, value: Any) -> None:
        self.raw_tensor = value
        take_batch_size_from(self)

    @property
    def dim_tags(self) -> tuple[Dim, ...]:
        """Old word for `dims`."""
        return self.dims

    @property
    def dim_tags_sparse(self) -> tuple[Dim, ...]:
        """The dims without the feature dim."""
        return tuple(d for i, d in enumerate(self.dims) if self.sparse or i != self.feature_dim_axis)

    @property
    def dim_tags_set(self) -> set[Dim]:
        """Old word for `dims_set`."""
        return self.dims_set

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Sizes without the batch axis."""
        return tuple(dim.size for i, dim in enumerate(self.dims) if i != self.batch_dim_axis)

    @property
    def shape_dense(self) -> tuple[int | None, ...]:
        """Sizes without the batch axis, as they were with an axis for the labels of sparse data."""
        return (*self.shape, self.dim) if self.sparse else self.shape

    @property
    def shape_sparse(self) -> tuple[int | None, ...]:
        """Sizes without the batch axis and without the feature axis."""
        return tuple(dim.size for dim in self.dim_tags_sparse if not dim.is_batch_dim())

    @property
    def batch_shape_dense(self) -> tuple[int | None, ...]:
        """Sizes with the batch axis, as they were with an axis for the labels of sparse data."""
        return (*self.batch_shape, self.dim) if self.sparse else self.batch_shape

    @property
    def ndim(self) -> int:
        """Number of axes without the batch axis."""
        return len(self.shape)

    @property
    def ndim_dense(self) -> int:
        """Number of axes without the batch axis, as they were with an axis for the labels of sparse data."""
        return self.ndim + self.sparse

    @property
    def batch_ndim(self) -> int:
        """Number of axes."""
        return len(self.dims)

    @property
    def batch_ndim_dense(self) -> int:
        """Number of axes, as they were with an axis for the labels of sparse data."""
        return self.batch_ndim + self.sparse

    @property
    def is_batch_major(self) -> bool:
        """Whether the batch axis is the first one."""
        return self.batch_dim_axis == 0

    @property
    def is_time_major(self) -> bool:
        """Whether the time axis is the first one."""
        return self.time_dim_axis == 0

    @property
    def is_batch_feature_major(self) -> bool:
        """Whether batch and feature axis are the first ones."""
        return self.batch_dim_axis == 0 and self.feature_dim_axis == 1

    @property
    def time_dim_axis_excluding_batch(self) -> int | None:
        """The time axis, counted without the batch axis."""
        axis = self.time_dim_axis
        return None if axis is None else self.get_batch_axis_excluding_batch(axis)

    def get_placeholder_as_batch_major(self) -> Any:
        """:return: raw tensor with the batch axis first"""
        return self.copy_as_batch_major().raw_tensor

    def get_placeholder_as_time_major(self) -> Any:
        """:return: raw tensor with the time axis first"""
        return self.copy_as_time_major().raw_tensor

    def get_placeholder_time_flattened(self) -> Any:
        """:return: raw tensor of the valid frames alone: (sum of lengths, ...)"""
        return self.copy_time_flattened().raw_tensor

    def copy_time_flattened(self) -> Self:
        """:return: with one axis of all valid frames in place of batch and time axis"""
        rf = operations()
        dims = [self.get_batch_dim_tag(), self.get_time_dim_tag()]
        dims.sort(key=self.dims.index)
        if not dims[0].need_masking() and not dims[1].need_masking():
            return rf.merge_dims(self, dims=dims)[0]
        mask = self.get_time_dim_tag().get_mask(dim_order=dims)
        return rf.masked_select(self, mask=mask, dims=dims)[0]

    def get_dynamic_batch_shape(self) -> list[Any]:
        """:return: sizes of all axes in memory, as numbers or raw scalars"""
        return [dim.get_dim_value() for dim in self.dims]

    def get_batch_shape(self, batch_dim: Any) -> tuple[Any, ...]:
        """:return: sizes of all axes, with this one for the batch"""
        return tuple(batch_dim if dim.is_batch_dim() else dim.size for dim in self.dims)

    def get_batch_shape_dim_tags(self) -> tuple[Dim, ...]:
        """:return: the dims"""
        return self.dims

    def get_bc_spatial_batch_shape(self) -> tuple[int | None, ...]:
        """:return: sizes with 1 for all spatial axes and the batch axis, so that something per feature fits"""
        return tuple(dim.size if i == self.feature_dim_axis else 1 for i, dim in enumerate(self.dims))

    def get_bc_shape(self, opts: Mapping[Any, Any] | None = None) -> tuple[Any, ...]:
        """
        :param opts: axis description -> 1 for size 1, -1 or None for the size of the axis; "*" for all others.
            Default: as `get_bc_spatial_batch_shape`, size 1 for all but the feature axis
        :return: sizes, such as those of noise which is the same in all frames of all sequences
        """
        of_size_1 = self.get_bc_axes(opts)
        return tuple(1 if i in of_size_1 else dim.get_dim_value() for i, dim in enumerate(self.dims))

    def get_compare_key(self) -> tuple[Any, ...]:
        """:return: something to sort templates by"""
        return (
            self.dtype,
            self.shape,
            -1 if self.batch_dim_axis is None else self.batch_dim_axis,
            -1 if self.feature_dim_axis is None else self.feature_dim_axis,
            self.sparse,
            self.dim or -1,
        )

    def get_kwargs(self, *, include_special_axes: bool = True) -> dict[str, Any]:
        """:return: arguments which make the same template"""
        kwargs: dict[str, Any] = {"name": self.name, "dims": self.dims, "dtype": self.dtype, "version": self.version}
        if self.sparse_dim is not None:
            kwargs["sparse_dim"] = self.sparse_dim
        if include_special_axes:
            kwargs.update(self.get_special_axes_dict())
        if not self.available_for_inference:
            kwargs["available_for_inference"] = False
        return kwargs

    def get_special_axes_dict(
        self, counted_with_batch_dim: bool = True, only_available: bool = False
    ) -> dict[str, Any]:
        """
        :param counted_with_batch_dim: how to count the axes
        :param only_available: leave out those that there are not
        :return: "time_dim_axis" and "feature_dim_axis", as they were given
        """
        axes: dict[str, Any] = {name: getattr(self, f"_{name}") for name in type(self).SpecialAxesNames}
        if not counted_with_batch_dim:
            axes = {k: self.get_batch_axis_excluding_batch(v) if isinstance(v, int) else v for k, v in axes.items()}
        return {k: v for k, v in axes.items() if isinstance(v, int)} if only_available else axes

    def get_placeholder_kwargs(self, with_batch: bool = True) -> dict[str, Any]:
        """:return: arguments for `tf.compat.v1.placeholder`"""
        return {"shape": self.batch_shape if with_batch else self.shape, "dtype": self.dtype, "name": self.name}

    def matches_var_dim_pattern(self, other: Self) -> bool:
        """:return: whether the same axes have sequences of different lengths"""
        return self.get_axes_with_size() == other.get_axes_with_size()

    def have_varying_shape_in_ctx(self) -> bool:
        """:return: whether the size of some axis is another one in each step of the loop that it lives in"""
        return any(
            dim.dyn_size_ext is not None and dim.dyn_size_ext.control_flow_ctx is not None
            for dim in self.dims
            if dim.size is None and not dim.is_batch_dim()
        )

    def get_full_name(self) -> str:
        """:return: the name"""
        return self.name

    @staticmethod
    def from_tensor(x: Any) -> Tensor:
        """:return: scalar tensor with this raw value"""
        tensor: Tensor = operations().convert_to_tensor(x, dims=())
        return tensor

    def sanity_check(self, ignore_placeholder: bool = False, assume_complete: bool = True) -> None:
        """
        :param ignore_placeholder: do not look at the value
        :param assume_complete: all lengths have to be known, if there is a value
        :raises DimError: if something does not fit
        """
        if self.raw_tensor is None or ignore_placeholder:
            return
        self._check_raw(self.raw_tensor)
        unknown = [dim for dim in self.dims if dim.size is None and dim.dyn_size is None and not dim.is_batch_dim()]
        if assume_complete and unknown:
            raise DimError(f"{self}: the lengths of {', '.join(map(str, unknown))} are not known.")
