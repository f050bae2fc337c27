"""Values by their order: sort, the highest ones, and where a value belongs. All frames in memory count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._ops.axes import axes_of
from returnn.frontend._ops.elementwise import ElementwiseOps
from returnn.frontend._ops.layout import product, raw_in_order, sizes_for_reshape, with_at_least
from returnn.frontend._ops.limits import extreme_value
from returnn.frontend._ops.operands import as_dims, fail, has_dim, require_dims
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError


class OrderOps(ElementwiseOps):
    """Values by their order."""

    @classmethod
    def search_sorted(
        cls, sorted_seq: Tensor, values: Tensor, *, axis: Dim, side: str = "left", out_dtype: str = "int32"
    ) -> Tensor:
        """
        See `returnn.frontend.search_sorted`. Dims: those of values, behind those of sorted_seq alone.

        For the raw operation, the dims which both have become one batch axis.
        """
        sorted_seq, values = cls.as_tensor(sorted_seq), cls.as_tensor(values)
        _check_search(sorted_seq, values, axis, side)
        own = [dim for dim in sorted_seq.remaining_dims(axis) if dim not in values.dims]
        out = values._with_axes([*own, *values.dims], [*[None] * len(own), *range(len(values.dims))])
        out.dtype, out.sparse_dim = out_dtype, None
        if not cls.computes:
            return out
        common = [dim for dim in values.dims if dim in sorted_seq.dims]
        batch, rest = [*own, *common], [dim for dim in values.dims if dim not in common]
        rows = cls.reshape_raw(raw_in_order(sorted_seq, [*batch, axis]), [_count(batch), _count([axis])])
        wanted = values.copy_compatible_to_dims_raw([*batch, *rest], unbroadcast=True)
        wanted = cls.reshape_raw(wanted, [_count(batch), _count(rest)])
        found = out.copy_template_new_dim_tags([*batch, *rest])
        raw = cls.search_sorted_raw(rows, wanted, side=side, dtype=out_dtype)
        found._raw_tensor = cls.reshape_raw(raw, sizes_for_reshape(found.dims))
        out._raw_tensor = raw_in_order(found, out.dims)
        return out

    @classmethod
    def sort(cls, source: Tensor, *, axis: Dim, descending: bool, stable: bool) -> tuple[Tensor, Tensor]:
        """See `returnn.frontend.sort`."""
        require_dims("sort", source, [axis])
        values, indices = source.copy_template(), source.copy_template(dtype="int32")
        indices.sparse_dim = axis
        if cls.computes:
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
        """See `returnn.frontend.top_k`."""
        axes = as_dims(axis)
        require_dims("top_k", source, axes)
        if isinstance(k, int) and len(axes) == 1 and axes[0].size is not None and k > axes[0].size:
            raise fail(f"top_k: {source}: there are no {k} entries in {axes[0]}.")
        assert k_dim is not None
        rest = [i for i in range(len(source.dims)) if i not in axes_of(source, axes)]
        values = source._with_axes([*(source.dims[i] for i in rest), k_dim], [*rest, None])
        indices = []
        for dim in axes:
            index = values.copy_template(dtype="int32")
            index.sparse_dim = dim
            indices.append(index)
        if cls.computes:
            raw = raw_in_order(source, [*values.dims[:-1], *axes])
            if len(axes) != 1:
                raw = cls.reshape_raw(raw, [*(dim.get_dim_value() for dim in values.dims[:-1]), _count(axes)])
            raw_k = k._raw_tensor if isinstance(k, Tensor) else k
            values._raw_tensor, raw_indices = cls._top_k_of_few(source, raw, raw_k, _count(axes), sorted)
            cls._split_indices(raw_indices, indices, axes)
        return values, indices[0] if isinstance(axis, Dim) else indices, k_dim

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

    @classmethod
    def _split_indices(cls, raw: Any, indices: Sequence[Tensor], axes: Sequence[Dim]) -> None:
        """
        :param raw: indices into all axes as one
        :param indices: get the indices into each axis
        :param axes: dims
        """
        flat = indices[0].copy_template()
        flat._raw_tensor = raw
        flat.sparse_dim = None
        for i in range(len(axes) - 1, 0, -1):
            size = cls.as_tensor(axes[i].get_dim_value_tensor())
            if axes[i].size is None:  # it may be empty
                size = cls.combine(size, "maximum", 1)
            indices[i]._raw_tensor = cls.combine(flat, "mod", size)._raw_tensor
            flat = cls.combine(flat, "floordiv", size)
        indices[0]._raw_tensor = flat._raw_tensor


def _check_search(sorted_seq: Tensor, values: Tensor, axis: Dim, side: str) -> None:
    require_dims("search_sorted", sorted_seq, [axis])
    if side not in ("left", "right"):
        raise fail(f"search_sorted: there is no side {side!r}.", "Possible: left, right.")
    if sorted_seq.dtype != values.dtype:
        raise DtypeError(
            f"search_sorted: the dtypes of {sorted_seq} and {values} differ.\n  Use rf.cast on one of them."
        )
    if has_dim(values.dims, axis):
        raise fail(
            f"search_sorted: {values} has the axis {axis} of {sorted_seq} itself.", "Use rf.replace_dim on it first."
        )


def _count(dims: Sequence[Dim]) -> Any:
    return product([dim.get_dim_value() for dim in dims])
