"""Operations which pick values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._array_backend.core import CoreArrayOps
from returnn.frontend._ops.layout import product, raw_in_order, with_at_least
from returnn.frontend._ops.limits import extreme_value, zero_value
from returnn.frontend._template_backend import TemplateBackend
from returnn.frontend._template_backend.core import as_dims
from returnn.frontend._template_backend.select import gather_axes
from returnn.tensor import Dim, Tensor


class SelectArrayOps(CoreArrayOps):
    """For the meaning of the operations see `returnn.frontend._interface.select`."""

    @staticmethod
    def gather_raw(raw_tensor: Any, indices: Any, axis: int, batch_axes: int) -> Any:
        """
        :param raw_tensor: (batch..., before..., axis, behind...)
        :param indices: (batch..., new...)
        :param axis: which the indices are into
        :param batch_axes: number of axes in (batch...)
        :return: (batch..., before..., new..., behind...)
        """
        raise NotImplementedError

    @staticmethod
    def segment_raw(values: Any, indices: Any, number: Any, mode: str) -> Any:
        """
        :param values: (N, rest...)
        :param indices: (N,); negative: left out
        :param number: of segments
        :param mode: "sum", "max", "min"
        :return: (number, rest...). A segment without values has any value.
        """
        raise NotImplementedError

    @staticmethod
    def masked_select_raw(raw_tensor: Any, mask: Any) -> Any:
        """:return: (mask..., rest...), (mask...) -> (N, rest...)"""
        raise NotImplementedError

    @staticmethod
    def masked_scatter_raw(raw_tensor: Any, mask: Any, backup: Any) -> Any:
        """:return: (N, rest...), (mask...), None or (mask..., rest...) -> (mask..., rest...)"""
        raise NotImplementedError

    @staticmethod
    def search_sorted_raw(sorted_rows: Any, values: Any, *, side: str, dtype: str) -> Any:
        """:return: (batch, N), (batch, M) -> (batch, M)"""
        raise NotImplementedError

    @staticmethod
    def sort_raw(raw_tensor: Any, axis: int, *, descending: bool, stable: bool) -> tuple[Any, Any]:
        """:return: sorted values; their indices, int32"""
        raise NotImplementedError

    @staticmethod
    def top_k_raw(raw_tensor: Any, k: Any, *, sorted: bool) -> tuple[Any, Any]:
        """:return: the highest values along the last axis; their indices, int32"""
        raise NotImplementedError

    @classmethod
    def gather(cls, source: Tensor, *, indices: Tensor | int, axis: Dim, clip_to_valid: bool = False) -> Tensor:
        """:return: gathered, with one raw operation, if the dims which source and indices share come first in both"""
        raw = source._raw_tensor
        if isinstance(indices, int):
            out = TemplateBackend.gather(source, indices=indices, axis=axis)
            number = source.get_axis_from_description(axis)
            assert raw is not None
            out._raw_tensor = raw[(*[slice(None)] * number, indices)]
            return out
        indices = cls.as_tensor(indices)
        if clip_to_valid:
            last = cls.combine(cls.as_tensor(axis.get_size_tensor()), "sub", 1)
            indices = cls.combine(indices, "minimum", cls.cast(last, indices.dtype), allow_broadcast_all_sources=True)
            indices = cls.combine(indices, "maximum", 0)
        out = TemplateBackend.gather(source, indices=indices, axis=axis)
        number = source.get_axis_from_description(axis)
        if clip_to_valid and axis.size is None:  # there is something in memory for the index of an empty sequence
            raw = with_at_least(source, raw, number, 1, zero_value(source.dtype), size=axis.get_dim_value())
        batch, _, before, behind = gather_axes(source, indices, number)
        new_dims = [dim for dim in indices.dims if dim not in [source.dims[i] for i in batch]]
        perm = [*batch, *before, number, *behind]
        if perm != sorted(perm):
            raw = cls.transpose_raw(raw, perm)
        raw_indices = raw_in_order(indices, [*(source.dims[i] for i in batch), *new_dims])
        out._raw_tensor = cls.gather_raw(raw, raw_indices, len(batch) + len(before), len(batch))
        return out

    @classmethod
    def scatter(
        cls,
        source: Tensor,
        *,
        indices: Tensor,
        indices_dim: Dim | Sequence[Dim],
        mode: str,
        fill_value: Any,
        out_dim: Dim | Sequence[Dim],
    ) -> Tensor:
        """:return: scattered, as reduction over segments: batch and out dims as one axis"""
        out = TemplateBackend.scatter(
            source, indices=indices, indices_dim=indices_dim, mode=mode, fill_value=fill_value, out_dim=out_dim
        )
        reduced = as_dims(indices_dim)
        batch = [dim for dim in indices.dims if dim not in reduced]
        rest = [dim for dim in source.dims if dim not in indices.dims]
        per_entry = product([dim.get_dim_value() for dim in as_dims(out_dim)])
        flat_indices = cls._flat_indices(indices, batch, per_entry)
        raw = raw_in_order(source, [*indices.dims, *rest])
        if len(indices.dims) != 1:
            raw = cls.reshape_raw(raw, [_count(indices.dims), *(dim.get_dim_value() for dim in rest)])
        number = product([per_entry, *(dim.get_dim_value() for dim in batch)])
        result = cls.segment_raw(raw, flat_indices, number, mode)
        if not (mode == "sum" and fill_value == 0):
            result = cls._fill_empty_segments(result, flat_indices, number, fill_value, out.dtype, len(rest))
        if len(out.dims) != len(rest) + 1:
            result = cls.reshape_raw(result, cls._sizes_for_reshape(out.dims))
        out._raw_tensor = result
        return out

    @classmethod
    def _flat_indices(cls, indices: Tensor, batch: Sequence[Dim], per_entry: Any) -> Any:
        """:return: (N,), indices where each batch entry has its own range; negative ones stay negative"""
        if not batch:
            return indices._raw_tensor if len(indices.dims) == 1 else cls.reshape_raw(indices._raw_tensor, [-1])
        entry: Any = None
        for dim in batch:
            index = cls.cast(_plain(cls.range_over_dim(dim)), indices.dtype)
            if entry is not None:
                size = cls.cast(cls.as_tensor(dim.get_dim_value_tensor()), indices.dtype)
                index = cls.combine(cls.combine(entry, "mul", size), "add", index, allow_broadcast_all_sources=True)
            entry = index
        size = Tensor("size", dims=(), dtype=indices.dtype)
        is_raw = isinstance(per_entry, cls.RawTensorType)
        size._raw_tensor = (
            cls.cast_raw(per_entry, size.dtype) if is_raw else cls.constant_raw(per_entry, size.dtype, None)
        )
        offset = cls.combine(entry, "mul", size)
        plain = _plain(indices)
        moved = cls.combine(plain, "add", offset, allow_broadcast_all_sources=True, dim_order=indices.dims)
        moved = cls.where(cls.compare(plain, "less", 0), -1, moved)
        return cls.reshape_raw(raw_in_order(moved, indices.dims), [-1])

    @classmethod
    def _fill_empty_segments(
        cls, raw: Any, indices: Any, number: Any, fill_value: Any, dtype: str, num_rest: int
    ) -> Any:
        zero, one = (cls.constant_raw(value, "int32", None) for value in (0, 1))
        ones = cls.fill_raw(cls.get_shape_raw(indices), one)
        is_empty = cls.compare_raw(cls.segment_raw(ones, indices, number, "sum"), "equal", zero)
        for _ in range(num_rest):
            is_empty = cls.expand_dims_raw(is_empty, -1)
        return cls.where_raw(is_empty, cls.constant_raw(fill_value, dtype, None), raw)

    @classmethod
    def masked_select(
        cls, tensor: Tensor, *, mask: Tensor, dims: Sequence[Dim], out_dim: Dim | None = None
    ) -> tuple[Tensor, Dim]:
        """:return: selected frames, out dim"""
        mask = cls.as_tensor(mask)
        out, out_dim = TemplateBackend.masked_select(tensor, mask=mask, dims=dims, out_dim=out_dim)
        raw = raw_in_order(tensor, [*dims, *out.dims[1:]])
        out._raw_tensor = cls.masked_select_raw(raw, raw_in_order(mask, dims))
        if out_dim.size is None and out_dim.dyn_size is None:
            size = cls.get_shape_tuple_raw(out._raw_tensor)[0]
            raw_size = size if isinstance(size, cls.RawTensorType) else cls.constant_raw(size, "int32", "cpu")
            out_dim.dyn_size_ext = Tensor("masked-select:lengths", dims=(), dtype="int32", raw_tensor=raw_size)
        return out, out_dim

    @classmethod
    def masked_scatter(
        cls, source: Tensor, backup: Tensor | None = None, *, mask: Tensor, dims: Sequence[Dim], in_dim: Dim
    ) -> Tensor:
        """:return: scattered"""
        mask = cls.as_tensor(mask)
        out = TemplateBackend.masked_scatter(source, backup, mask=mask, dims=dims, in_dim=in_dim)
        raw_backup = None
        if backup is not None:
            raw_backup = cls.as_tensor(backup).copy_compatible_to_dims_raw(out.dims, unbroadcast=True)
        raw = raw_in_order(source, [in_dim, *out.dims[len(dims) :]])
        out._raw_tensor = cls.masked_scatter_raw(raw, raw_in_order(mask, dims), raw_backup)
        return out

    @classmethod
    def search_sorted(
        cls, sorted_seq: Tensor, values: Tensor, *, axis: Dim, side: str = "left", out_dtype: str = "int32"
    ) -> Tensor:
        """:return: positions. The dims which both have become one batch axis."""
        sorted_seq, values = cls.as_tensor(sorted_seq), cls.as_tensor(values)
        out = TemplateBackend.search_sorted(sorted_seq, values, axis=axis, side=side, out_dtype=out_dtype)
        own = out.dims[: len(out.dims) - len(values.dims)]
        batch = [dim for dim in values.dims if dim in sorted_seq.dims]
        rest = [dim for dim in values.dims if dim not in batch]
        rows = cls.reshape_raw(raw_in_order(sorted_seq, [*own, *batch, axis]), [_count([*own, *batch]), _count([axis])])
        wanted = values.copy_compatible_to_dims_raw([*own, *batch, *rest], unbroadcast=True)
        wanted = cls.reshape_raw(wanted, [_count([*own, *batch]), _count(rest)])
        found = out.copy_template_new_dim_tags([*own, *batch, *rest])
        raw = cls.search_sorted_raw(rows, wanted, side=side, dtype=out_dtype)
        found._raw_tensor = cls.reshape_raw(raw, cls._sizes_for_reshape(found.dims))
        out._raw_tensor = raw_in_order(found, out.dims)
        return out

    @classmethod
    def sort(cls, source: Tensor, *, axis: Dim, descending: bool, stable: bool) -> tuple[Tensor, Tensor]:
        """:return: sorted values; their indices"""
        values, indices = TemplateBackend.sort(source, axis=axis, descending=descending, stable=stable)
        number = source.get_axis_from_description(axis)
        values._raw_tensor, indices._raw_tensor = cls.sort_raw(
            source._raw_tensor, number, descending=descending, stable=stable
        )
        return values, indices

    @classmethod
    def top_k(
        cls,
        source: Tensor,
        *,
        axis: Dim | Sequence[Dim],
        k: int | Tensor,
        k_dim: Dim | None = None,
        sorted: bool = True,
    ) -> tuple[Tensor, Tensor | Sequence[Tensor], Dim]:
        """:return: the highest values; their indices; k_dim"""
        values, indices, k_dim = TemplateBackend.top_k(source, axis=axis, k=k, k_dim=k_dim, sorted=sorted)
        axes, rest = as_dims(axis), list(values.dims[:-1])
        raw, size = raw_in_order(source, [*rest, *axes]), _count(axes)
        if len(axes) != 1:
            raw = cls.reshape_raw(raw, [*(dim.get_dim_value() for dim in rest), size])
        raw_k = k._raw_tensor if isinstance(k, Tensor) else k
        values._raw_tensor, raw_indices = cls._top_k_of_few(source, raw, raw_k, size, sorted)
        if isinstance(indices, Tensor):
            indices._raw_tensor = raw_indices
            return values, indices, k_dim
        flat = values.copy_template(dtype="int32")
        flat._raw_tensor = raw_indices
        for i in range(len(axes) - 1, 0, -1):
            size_tensor = cls.as_tensor(axes[i].get_dim_value_tensor())
            if axes[i].size is None:  # it may be empty
                size_tensor = cls.combine(size_tensor, "maximum", 1)
            indices[i]._raw_tensor = cls.combine(flat, "mod", size_tensor)._raw_tensor
            flat = cls.combine(flat, "floordiv", size_tensor)
        indices[0]._raw_tensor = flat._raw_tensor
        return values, indices, k_dim

    @classmethod
    def _top_k_of_few(cls, source: Tensor, raw: Any, k: Any, size: Any, sorted: bool) -> tuple[Any, Any]:
        """:return: as `top_k_raw`; behind `size` values comes the lowest number, with the last index"""
        if isinstance(size, int):
            if cls.executing_eagerly():
                k = int(k)
            if not isinstance(k, int) or k <= size:
                return cls.top_k_raw(raw, k, sorted=sorted)
        lowest = extreme_value(source.dtype, highest=False)
        raw = with_at_least(source, raw, -1, k, lowest, size=size)
        values, indices = cls.top_k_raw(raw, k, sorted=sorted)
        last = max(size - 1, 0) if isinstance(size, int) else cls.combine_raw(size - 1, "maximum", 0)
        return values, cls.combine_raw(indices, "minimum", last)


def _plain(x: Tensor) -> Tensor:
    """:return: the same numbers, not as indices into a dim"""
    new = x.copy()
    new.sparse_dim = None
    return new


def _count(dims: Sequence[Dim]) -> Any:
    return product([dim.get_dim_value() for dim in dims])
