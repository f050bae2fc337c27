"""Names of `Data`, as old configs and layer classes use them, and the text that describes a tensor."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from returnn.tensor._frontend import frontend
from returnn.tensor.dim import Dim, batch_dim
from returnn.util.errors import DimError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from returnn.tensor.tensor import Tensor


class TensorOldNames:
    """The part of `Tensor` with old names. Shapes have None for a dynamic size."""

    @property
    def dim_tags(self: Tensor) -> tuple[Dim, ...]:
        """Old word for `dims`."""
        return self.dims

    @property
    def dim_tags_sparse(self: Tensor) -> tuple[Dim, ...]:
        """The dims without the feature dim."""
        return tuple(d for i, d in enumerate(self.dims) if self.sparse or i != self.feature_dim_axis)

    @property
    def shape(self: Tensor) -> tuple[int | None, ...]:
        """Sizes without the batch axis."""
        return tuple(dim.size for i, dim in enumerate(self.dims) if i != self.batch_dim_axis)

    @property
    def shape_dense(self: Tensor) -> tuple[int | None, ...]:
        """Sizes without the batch axis, as they were with an axis for the labels of sparse data."""
        return (*self.shape, self.dim) if self.sparse else self.shape

    @property
    def batch_shape(self: Tensor) -> tuple[int | None, ...]:
        """Sizes with the batch axis."""
        return tuple(dim.size for dim in self.dims)

    @property
    def batch_shape_dense(self: Tensor) -> tuple[int | None, ...]:
        """Sizes with the batch axis, as they were with an axis for the labels of sparse data."""
        return (*self.batch_shape, self.dim) if self.sparse else self.batch_shape

    @property
    def ndim(self: Tensor) -> int:
        """Number of axes without the batch axis."""
        return len(self.shape)

    @property
    def ndim_dense(self: Tensor) -> int:
        """Number of axes without the batch axis, as they were with an axis for the labels of sparse data."""
        return self.ndim + self.sparse

    @property
    def batch_ndim(self: Tensor) -> int:
        """Number of axes."""
        return len(self.dims)

    @property
    def batch_ndim_dense(self: Tensor) -> int:
        """Number of axes, as they were with an axis for the labels of sparse data."""
        return self.batch_ndim + self.sparse

    @property
    def is_batch_major(self: Tensor) -> bool:
        """Whether the batch axis is the first one."""
        return self.batch_dim_axis == 0

    @property
    def is_time_major(self: Tensor) -> bool:
        """Whether the time axis is the first one."""
        return self.time_dim_axis == 0

    @property
    def is_batch_feature_major(self: Tensor) -> bool:
        """Whether batch and feature axis are the first ones."""
        return self.batch_dim_axis == 0 and self.feature_dim_axis == 1

    @property
    def time_dim_axis_excluding_batch(self: Tensor) -> int | None:
        """The time axis, counted without the batch axis."""
        axis = self.time_dim_axis
        return None if axis is None else self.get_batch_axis_excluding_batch(axis)

    def get_placeholder_as_batch_major(self: Tensor) -> Any:
        """:return: raw tensor with the batch axis first"""
        return self.copy_as_batch_major().raw_tensor

    def get_placeholder_as_time_major(self: Tensor) -> Any:
        """:return: raw tensor with the time axis first"""
        return self.copy_as_time_major().raw_tensor

    def get_placeholder_time_flattened(self: Tensor) -> Any:
        """:return: raw tensor of the valid frames alone: (sum of lengths, ...)"""
        return self.copy_time_flattened().raw_tensor

    def copy_time_flattened(self: Tensor) -> Tensor:
        """:return: with one axis of all valid frames in place of batch and time axis"""
        rf = frontend()
        dims = [self.get_batch_dim_tag(), self.get_time_dim_tag()]
        dims.sort(key=self.dims.index)
        if not dims[0].need_masking() and not dims[1].need_masking():
            return rf.merge_dims(self, dims=dims)[0]
        mask = self.get_time_dim_tag().get_mask(dim_order=dims)
        return rf.masked_select(self, mask=mask, dims=dims)[0]

    def get_placeholder_flattened(self: Tensor, keepdims: bool = False) -> Any:
        """
        :param keepdims: keep the axes that were merged, with size 1
        :return: raw tensor of the valid entries over batch and all dynamic axes: (number of entries, ...)
        """
        rf = frontend()
        merge = [d for i, d in enumerate(self.dims) if d.is_batch_dim() or self.is_axis_dynamic(i)]
        if not merge:
            return self.raw_tensor
        masks = [d.get_mask(dim_order=self.dims) for d in merge if d.need_masking()]
        if masks:
            mask = masks[0]
            for other in masks[1:]:
                mask = rf.combine_bc(mask, "logical_and", other)
            mask = rf.expand_to(mask, merge)
            flat, merged = rf.masked_select(self, mask=mask, dims=merge)
        else:
            flat, merged = rf.merge_dims(self, dims=merge)
        raw = flat.copy_move_axis(flat.dims.index(merged), 0).raw_tensor
        for _ in range(len(merge) - 1 if keepdims else 0):
            raw = flat._raw_backend.expand_dims_raw(raw, 1)
        return raw

    def get_dynamic_batch_shape(self: Tensor) -> list[Any]:
        """:return: sizes of all axes in memory, as numbers or raw scalars"""
        return [dim.get_dim_value() for dim in self.dims]

    def get_batch_shape(self: Tensor, batch_dim: Any) -> tuple[Any, ...]:
        """:return: sizes of all axes, with this one for the batch"""
        return tuple(batch_dim if dim.is_batch_dim() else dim.size for dim in self.dims)

    def get_batch_shape_dim_tags(self: Tensor) -> tuple[Dim, ...]:
        """:return: the dims"""
        return self.dims

    def get_bc_spatial_batch_shape(self: Tensor) -> tuple[int | None, ...]:
        """:return: sizes with 1 for all spatial axes and the batch axis, so that something per feature fits"""
        return tuple(dim.size if i == self.feature_dim_axis else 1 for i, dim in enumerate(self.dims))

    def get_bc_shape(self: Tensor, opts: Mapping[Any, Any] | None = None) -> tuple[Any, ...]:
        """
        :param opts: axis description -> 1 for size 1, -1 or None for the size of the axis; "*" for all others.
            Default: as `get_bc_spatial_batch_shape`, size 1 for all but the feature axis
        :return: sizes, such as those of noise which is the same in all frames of all sequences
        """
        of_size_1 = self.get_bc_axes(opts)
        return tuple(1 if i in of_size_1 else dim.get_dim_value() for i, dim in enumerate(self.dims))

    def get_bc_axes(self: Tensor, opts: Mapping[Any, Any] | None = None) -> set[int]:
        """
        :param opts: see `get_bc_shape`
        :return: the axes of size 1 there
        """
        options = dict(opts or {})
        for value in options.values():
            if value not in (1, -1, None):
                raise DimError(f"{self}: the size of a broadcast axis is 1 or -1, not {value!r}.")
        by_default = options.pop("*", 1)
        axes = set(range(len(self.dims))) if by_default == 1 else set()
        if "*" not in (opts or {}):
            axes.discard(self.feature_dim_axis)
        for description, value in options.items():
            described = set(self.get_axes_from_description(description, allow_int=True))
            axes = axes | described if value == 1 else axes - described
        return axes

    def get_compare_key(self: Tensor) -> tuple[Any, ...]:
        """:return: something to sort templates by"""
        return (
            self.dtype, self.shape, -1 if self.batch_dim_axis is None else self.batch_dim_axis,
            -1 if self.feature_dim_axis is None else self.feature_dim_axis, self.sparse, self.dim or -1,
        )  # fmt: skip

    def get_kwargs(self: Tensor, *, include_special_axes: bool = True) -> dict[str, Any]:
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
        self: Tensor, counted_with_batch_dim: bool = True, only_available: bool = False
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

    def get_placeholder_kwargs(self: Tensor, with_batch: bool = True) -> dict[str, Any]:
        """:return: arguments for `tf.compat.v1.placeholder`"""
        return {"shape": self.batch_shape if with_batch else self.shape, "dtype": self.dtype, "name": self.name}

    def matches_var_dim_pattern(self: Tensor, other: Tensor) -> bool:
        """:return: whether the same axes have sequences of different lengths"""
        return self.get_axes_with_size() == other.get_axes_with_size()

    def have_varying_shape_in_ctx(self: Tensor) -> bool:
        """:return: whether the size of some axis is another one in each step of the loop that it lives in"""
        return any(d.control_flow_ctx is not None for d in self.dims if d.size is None and not d.is_batch_dim())

    def get_full_name(self: Tensor) -> str:
        """:return: the name"""
        return self.name

    def get_scope_name(self: Tensor) -> str:
        """:return: the name, with letters only that a TensorFlow name scope can have"""
        return re.sub(r"[^A-Za-z0-9_.\\/>-]", "_", self.name)

    @staticmethod
    def from_tensor(x: Any) -> Tensor:
        """:return: scalar tensor with this raw value"""
        return frontend().convert_to_tensor(x, dims=())

    def sanity_check(self: Tensor, ignore_placeholder: bool = False, assume_complete: bool = True) -> None:
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

    def create_placeholders(self: Tensor) -> None:
        """Makes a TensorFlow placeholder for the value, and for each dynamic dim without lengths one for those."""
        backend = frontend().get_backend_by_name("tf")
        for axis, dim in enumerate(self.dims):
            if dim.size is not None or dim.is_batch_dim() or dim.dyn_size is not None or dim.is_derived():
                continue
            template = dim.dyn_size_ext
            lengths_dims = (batch_dim,) if template is None else template.dims
            lengths = type(self)(f"{self.name}_dim{axis}_size", lengths_dims, type(self).size_dtype)
            lengths.raw_tensor = backend.create_placeholder_raw(lengths)
            dim.dyn_size_ext = lengths
        self.raw_tensor = backend.create_placeholder_raw(self)

    def get_batch_axes_short_description(self: Tensor, special_axes: bool = True) -> list[str]:
        """
        :param special_axes: mark which one is the time and which one the feature axis
        :return: for each axis, the dim as text
        """
        texts = []
        for axis, dim in enumerate(self.dims):
            text = "B" if dim.is_batch_dim() and not dim.is_derived() else dim.short_repr()
            if special_axes and self.version == 1 and axis == self.time_dim_axis:
                text = f"T|{text}"
            if special_axes and axis == self.feature_dim_axis:
                text = f"F|{text}"
            texts.append(text)
        return texts

    def get_description(
        self: Tensor, with_name: bool = True, with_placeholder: bool = False, catch_exceptions: bool = False
    ) -> str:
        """
        :param with_name: begin with the name
        :param with_placeholder: also show the raw tensor
        :param catch_exceptions: for use in `repr`, where an error would hide another one
        :return: such as `'encoder' [B, T|time[B], F|feature(512)]`
        """
        try:
            axes = self.get_batch_axes_short_description()
        except (AttributeError, ValueError, RuntimeError) as exc:
            if not catch_exceptions:
                raise
            axes = [f"<{type(exc).__name__}: {exc}>"]
        parts = [repr(self.name)] if with_name else []
        parts.append(f"[{', '.join(axes)}]")
        if self.dtype != "float32":
            parts.append(self.dtype)
        if self.sparse_dim is not None:
            parts.append(f"-> {self.sparse_dim.short_repr()}")
        if with_placeholder:
            parts.append(repr(self.raw_tensor))
        return " ".join(parts)
