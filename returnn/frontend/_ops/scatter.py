"""Reductions over entries with the same index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._ops.creation import CreationOps
from returnn.frontend._ops.elementwise import ElementwiseOps
from returnn.frontend._ops.layout import product, raw_in_order, sizes_for_reshape
from returnn.frontend._ops.operands import as_dims, fail, require_dims, require_numbers
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError

SCATTER_MODES = ("sum", "max", "min")


class ScatterOps(ElementwiseOps, CreationOps):
    """Reductions over entries with the same index: over segments, with batch and out dims as one axis."""

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
        """
        :param source: {batch..., indices_dim..., ...}
        :param indices: {batch..., indices_dim...}; what has a negative index is left out
        :param indices_dim: the dims to reduce over
        :param mode: "sum", "max", "min"
        :param fill_value: where there is no index
        :param out_dim: which the indices are into; if several, into all of them merged
        :return: [batch..., out_dim..., (other dims of source)]
        """
        if mode not in SCATTER_MODES:
            raise fail(f"scatter: there is no mode {mode!r}.", f"Possible: {', '.join(SCATTER_MODES)}.")
        if not indices.dtype.startswith(("int", "uint")):
            raise DtypeError(f"scatter: the indices {indices} should be integers. Use rf.cast first.")
        require_numbers("scatter", source)
        reduced, out_dims = as_dims(indices_dim), as_dims(out_dim)
        batch = [dim for dim in indices.dims if dim not in reduced]
        rest = [dim for dim in source.dims if dim not in indices.dims]
        require_dims("scatter", indices, reduced)
        for needed in (reduced, batch):
            require_dims("scatter", source, needed)
        dims = [*batch, *out_dims, *rest]
        out = source._with_axes(dims, [source.dims.index(dim) if dim in source.dims else None for dim in dims])
        if cls.computes:
            per_entry = product([dim.get_dim_value() for dim in out_dims])
            number = product([per_entry, *(dim.get_dim_value() for dim in batch)])
            flat_indices = cls._flat_indices(indices, batch, per_entry)
            raw = raw_in_order(source, [*indices.dims, *rest])
            if len(indices.dims) != 1:
                count = product([dim.get_dim_value() for dim in indices.dims])
                raw = cls.reshape_raw(raw, [count, *(dim.get_dim_value() for dim in rest)])
            raw = cls.segment_raw(raw, flat_indices, number, mode)
            if not (mode == "sum" and fill_value == 0):
                raw = cls._fill_empty_segments(raw, flat_indices, number, fill_value, out.dtype, len(rest))
            has_shape = len(out.dims) == len(rest) + 1
            out._raw_tensor = raw if has_shape else cls.reshape_raw(raw, sizes_for_reshape(out.dims))
        return out

    @classmethod
    def _flat_indices(cls, indices: Tensor, batch: Sequence[Dim], per_entry: Any) -> Any:
        """:return: (N,), indices where each batch entry has its own range; negative ones stay negative"""
        if not batch:
            return indices._raw_tensor if len(indices.dims) == 1 else cls.reshape_raw(indices._raw_tensor, [-1])
        entry: Any = None
        for dim in batch:
            index = cls.cast(_without_sparse_dim(cls.range_over_dim(dim)), indices.dtype)
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
        plain = _without_sparse_dim(indices)
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


def _without_sparse_dim(x: Tensor) -> Tensor:
    """:return: the same numbers, not as indices into a dim"""
    new = x.copy()
    new.sparse_dim = None
    return new
