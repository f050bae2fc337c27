"""Rules of operations which pick values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._ops.operands import (
    common_template,
    fail,
    has_dim,
    require_dims,
    require_numbers,
    shown,
)
from returnn.frontend._template_backend.core import as_dims
from returnn.frontend._template_backend.shape import axes_of
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError

SCATTER_MODES = ("sum", "max", "min")


class SelectRules:
    """Rules. For the meaning of the operations see `returnn.frontend._interface.select`."""

    @staticmethod
    def gather(source: Tensor, *, indices: Tensor | int, axis: Dim, clip_to_valid: bool = False) -> Tensor:
        """:return: template"""
        require_dims("gather", source, [axis])
        number = source.get_axis_from_description(axis)
        if isinstance(indices, int):
            if indices < 0 or (axis.size is not None and indices >= axis.size):
                raise fail(f"gather: {source}: there is no index {indices} in {axis}.")
            return source.copy_template_excluding_axis(number)
        if not indices.dtype.startswith(("int", "uint")):
            raise DtypeError(f"gather: the indices {indices} should be integers. Use rf.cast first.")
        if clip_to_valid and axis.size is None:
            indices = common_template("gather", [indices, axis.get_size_tensor()], allow_broadcast_all_sources=True)
        batch, new, before, behind = gather_axes(source, indices, number)
        dims = [source.dims[i] for i in (*batch, *before)]
        dims += [indices.dims[i] for i in new] + [source.dims[i] for i in behind]
        out = source._with_axes(dims, [*batch, *before, *[None] * len(new), *behind])
        if out.feature_dim_axis is None and indices.feature_dim in out.dims and indices.feature_dim is not None:
            out.feature_dim = indices.feature_dim
        return out

    @staticmethod
    def scatter(
        source: Tensor,
        *,
        indices: Tensor,
        indices_dim: Dim | Sequence[Dim],
        mode: str,
        fill_value: Any,
        out_dim: Dim | Sequence[Dim],
    ) -> Tensor:
        """:return: template"""
        if mode not in SCATTER_MODES:
            raise fail(f"scatter: there is no mode {mode!r}.", f"Possible: {', '.join(SCATTER_MODES)}.")
        if not indices.dtype.startswith(("int", "uint")):
            raise DtypeError(f"scatter: the indices {indices} should be integers. Use rf.cast first.")
        require_numbers("scatter", source)
        reduced = as_dims(indices_dim)
        require_dims("scatter", indices, reduced)
        require_dims("scatter", source, reduced)
        batch = [dim for dim in indices.dims if dim not in reduced]
        require_dims("scatter", source, batch)
        rest = [dim for dim in source.dims if dim not in indices.dims]
        dims = [*batch, *as_dims(out_dim), *rest]
        return source._with_axes(dims, [source.dims.index(dim) if dim in source.dims else None for dim in dims])

    @staticmethod
    def masked_select(
        tensor: Tensor, *, mask: Tensor, dims: Sequence[Dim], out_dim: Dim | None = None
    ) -> tuple[Tensor, Dim]:
        """:return: template, out dim"""
        check_mask("masked_select", mask, dims)
        require_dims("masked_select", tensor, dims)
        if out_dim is None:
            out_dim = Dim(None, name="masked-select", kind=dims[-1].kind)
        if out_dim.size is None and out_dim.dyn_size_ext is None:
            out_dim.dyn_size_ext = Tensor("masked-select:lengths", dims=(), dtype="int32")
        rest = [i for i, dim in enumerate(tensor.dims) if dim not in dims]
        return tensor._with_axes([out_dim, *(tensor.dims[i] for i in rest)], [None, *rest]), out_dim

    @staticmethod
    def masked_scatter(
        source: Tensor, backup: Tensor | None = None, *, mask: Tensor, dims: Sequence[Dim], in_dim: Dim
    ) -> Tensor:
        """:return: template"""
        check_mask("masked_scatter", mask, dims)
        require_dims("masked_scatter", source, [in_dim])
        rest = [i for i, dim in enumerate(source.dims) if dim != in_dim]
        out = source._with_axes([*dims, *(source.dims[i] for i in rest)], [*[None] * len(dims), *rest])
        if backup is not None:
            require_dims("masked_scatter", out, backup.dims)
            if backup.dtype != source.dtype:
                raise DtypeError(f"masked_scatter: the dtypes of {source} and {backup} differ.\n  Use rf.cast on one.")
        return out

    @staticmethod
    def search_sorted(
        sorted_seq: Tensor, values: Tensor, *, axis: Dim, side: str = "left", out_dtype: str = "int32"
    ) -> Tensor:
        """:return: template. Dims: those of values, behind those of sorted_seq alone."""
        require_dims("search_sorted", sorted_seq, [axis])
        if side not in ("left", "right"):
            raise fail(f"search_sorted: there is no side {side!r}.", "Possible: left, right.")
        if sorted_seq.dtype != values.dtype:
            raise DtypeError(
                f"search_sorted: the dtypes of {sorted_seq} and {values} differ.\n  Use rf.cast on one of them."
            )
        if has_dim(values.dims, axis):
            raise fail(
                f"search_sorted: {values} has the axis {axis} of {sorted_seq} itself.",
                "Use rf.replace_dim on it first.",
            )
        own = [dim for dim in sorted_seq.remaining_dims(axis) if dim not in values.dims]
        out = values._with_axes([*own, *values.dims], [*[None] * len(own), *range(len(values.dims))])
        out.dtype, out.sparse_dim = out_dtype, None
        return out

    @staticmethod
    def sort(source: Tensor, *, axis: Dim, descending: bool, stable: bool) -> tuple[Tensor, Tensor]:
        """:return: templates: sorted values; their indices"""
        require_dims("sort", source, [axis])
        indices = source.copy_template(dtype="int32")
        indices.sparse_dim = axis
        return source.copy_template(), indices

    @staticmethod
    def top_k(
        source: Tensor, *, axis: Dim | Sequence[Dim], k: int | Tensor, k_dim: Dim | None = None, sorted: bool = True
    ) -> tuple[Tensor, Tensor | Sequence[Tensor], Dim]:
        """:return: templates: the highest values; their indices, for each axis if there are several; k_dim"""
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
        return values, indices[0] if isinstance(axis, Dim) else indices, k_dim


def gather_axes(source: Tensor, indices: Tensor, axis: int) -> tuple[list[int], list[int], list[int], list[int]]:
    """
    :return: the axes of source which indices have, too; the axes of indices which are new; the other axes of source
        before `axis`, and those behind it
    """
    batch = [i for i, dim in enumerate(source.dims) if i != axis and dim in indices.dims]
    batch_dims = [source.dims[i] for i in batch]
    new = [i for i, dim in enumerate(indices.dims) if dim not in batch_dims]
    before = [i for i in range(axis) if i not in batch]
    behind = [i for i in range(axis + 1, len(source.dims)) if i not in batch]
    return batch, new, before, behind


def require_mask(operation: str, mask: Tensor) -> None:
    """:raises DtypeError: if the mask is not bool"""
    if mask.dtype != "bool":
        raise DtypeError(f"{operation}: the mask {mask} should be bool. Compare with something first, such as `x > 0`.")


def check_mask(operation: str, mask: Tensor, dims: Sequence[Dim]) -> None:
    """
    :raises DtypeError: if the mask is not bool
    :raises DimError: if its dims are not these
    """
    require_mask(operation, mask)
    if mask.dims_set != set(dims):
        raise fail(f"{operation}: the mask {mask} should have exactly the dims {shown(dims)}.")
