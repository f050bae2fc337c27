"""
The array operations on nested structures, such as the state of a decoder: dicts, lists, tuples of tensors and dims.

A dim whose lengths change becomes a new dim, and the tensors that have it get the new one. `dim_map` says which dim
became which; what is in there already is used, and what is new is added.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from returnn.frontend._array.convert import expand_to, where
from returnn.frontend._array.gather import gather
from returnn.frontend._array.masked import masked_scatter, masked_select
from returnn.frontend._ops.operands import fail
from returnn.frontend.dims import replace_dim_v2
from returnn.tensor import Dim, Tensor
from returnn.util.python.nested import make_seq_of_type

DimMap = MutableMapping[Dim, Dim]


def gather_nested(s: Any, *, indices: Tensor, dim_map: DimMap | None = None) -> Any:
    """
    :param s: nested structure
    :param indices: with a sparse dim; tensors without this dim stay as they are
    :param dim_map: see the head of this module
    """
    axis = indices.sparse_dim
    if axis is None:
        raise fail(f"gather_nested: the indices {indices} have no sparse dim.")
    return _map_single(s, axis, lambda x: gather(x, indices=indices, axis=axis), dim_map)


def masked_select_nested(
    s: Any,
    *,
    mask: Tensor,
    mask_cpu: Tensor | None = None,
    dims: Sequence[Dim],
    out_dim: Dim | None = None,
    dim_map: DimMap | None = None,
) -> tuple[Any, Dim]:
    """
    :param s: nested structure; tensors without any of `dims` stay as they are
    :param mask: [dims...], bool
    :param mask_cpu: the same on the CPU, if it is there already
    :param dims: to select from
    :param out_dim: the new dim for them
    :param dim_map: see the head of this module
    :return: the structure with the selected entries; out_dim
    """
    _, new_dim = masked_select(mask, mask=mask, dims=dims, out_dim=out_dim)

    def select(x: Tensor) -> Tensor:
        x = expand_to(x, dims)
        return masked_select(x, mask=_mask_for(x, mask, mask_cpu), dims=dims, out_dim=new_dim)[0]

    return _map_single(s, dims, select, dim_map), new_dim


def masked_scatter_nested(
    s: Any,
    backup: Any,
    *,
    mask: Tensor,
    mask_cpu: Tensor | None,
    dims: Sequence[Dim],
    in_dim: Dim,
    masked_select_dim_map: DimMap,
    masked_scatter_dim_map: DimMap | None = None,
) -> Any:
    """
    The inverse of `masked_select_nested`, after the selected part was worked on.

    :param s: nested structure, with `in_dim`
    :param backup: the same, of what was not selected, with `dims`
    :param mask: [dims...], bool
    :param mask_cpu: the same on the CPU, if it is there already
    :param dims: to scatter to
    :param in_dim: the selected entries
    :param masked_select_dim_map: what `masked_select_nested` made of the dims
    :param masked_scatter_dim_map: which dims of `s` became which, see the head of this module
    """

    def scatter(x: Tensor, y: Tensor) -> Tensor:
        if in_dim not in x.dims:
            return x
        return masked_scatter(x, y, mask=_mask_for(x, mask, mask_cpu), dims=dims, in_dim=in_dim)

    before = {new: old for old, new in masked_select_dim_map.items()}
    merge = _Merge(scatter, {} if masked_scatter_dim_map is None else masked_scatter_dim_map, before)
    return _map_pairs(s, backup, merge)


def where_nested(x: Any, y: Any, *, condition: Tensor, condition_cpu: Tensor | None = None) -> Any:
    """
    :param x: nested structure, taken where the condition is true
    :param y: the same, taken where it is not
    :param condition: bool
    :param condition_cpu: the same on the CPU, if it is there already
    """

    def choose(a: Tensor, b: Tensor) -> Tensor:
        return where(_mask_for(a, condition, condition_cpu), a, b, allow_broadcast_all_sources=True)

    return _map_pairs(x, y, _Merge(choose, {}, {}))


def mask_nested(
    s: Any,
    *,
    mask: Tensor,
    mask_cpu: Tensor | None = None,
    mask_value: Any,
    dim_map: DimMap | None = None,
    allow_dim_extension: bool = True,
) -> Any:
    """
    :param s: nested structure
    :param mask: bool
    :param mask_cpu: the same on the CPU, if it is there already
    :param mask_value: where the mask is false: a number, for empty sequences; or the same structure
    :param dim_map: see the head of this module
    :param allow_dim_extension: whether sequences can become longer, where those of `mask_value` are
    """

    def choose(a: Tensor, b: Any) -> Tensor:
        return where(_mask_for(a, mask, mask_cpu), a, b, allow_broadcast_all_sources=True)

    merge = _Merge(choose, {} if dim_map is None else dim_map, {}, allow_dim_extension)
    if isinstance(mask_value, (int, float, bool)):
        return _map_leaves(lambda x: merge.with_number(x, mask_value), s)
    return _map_pairs(s, mask_value, merge)


@dataclass
class _Merge:
    """Makes one tensor or dim out of two, which can have dims of different lengths."""

    operation: Callable[[Any, Any], Tensor]
    dim_map: DimMap  # dim of the first -> new dim
    known_pairs: MutableMapping[Dim, Dim]  # dim of the first -> dim of the second
    allow_longer: bool = True

    def tensors(self, x: Tensor, y: Tensor) -> Tensor:
        """:return: merged, with new dims where those of x and y differ"""
        for old in x.dims:
            other = old if old in y.dims else self._partner(old, x, y)
            if other is not None and other != old and old.is_dynamic():
                new = self.dims(old, other)
                x = replace_dim_v2(x, in_dim=old, out_dim=new, allow_expand=self.allow_longer)
                y = replace_dim_v2(y, in_dim=other, out_dim=new)
        return self.operation(x, y)

    def dims(self, x: Dim, y: Dim) -> Dim:
        """:return: dim with merged lengths"""
        if x == y or x.is_static():
            return x
        if x not in self.dim_map:
            lengths = self.operation(x.get_size_tensor(), y.get_size_tensor())
            self.dim_map[x] = Dim(lengths, name=x.name, kind=x.kind)
        self.known_pairs.setdefault(x, y)
        return self.dim_map[x]

    def with_number(self, x: Tensor | Dim, value: Any) -> Tensor | Dim:
        """:return: tensor merged with a number; dim merged with empty sequences"""
        if isinstance(x, Dim):
            if x.is_dynamic_seq_length() and x not in self.dim_map:
                self.dim_map[x] = Dim(self.operation(x.get_size_tensor(), 0), name=x.name, kind=x.kind)
            return self.dim_map.get(x, x)
        out = self.operation(x, value)
        for dim in x.dims:
            new = self.with_number(dim, value)
            assert isinstance(new, Dim)
            out = replace_dim_v2(out, in_dim=dim, out_dim=new)
        return out

    def _partner(self, dim: Dim, x: Tensor, y: Tensor) -> Dim | None:
        known = self.known_pairs.get(dim)
        if known in y.dims:
            return known
        mine = [d for d in x.dims if d not in y.dims and d.is_dynamic_seq_length()]
        others = [d for d in y.dims if d not in x.dims and d.is_dynamic_seq_length()]
        return others[mine.index(dim)] if dim in mine and len(mine) == len(others) else None


def _map_single(
    s: Any, axes: Dim | Sequence[Dim], operation: Callable[[Tensor], Tensor], dim_map: DimMap | None
) -> Any:
    """:return: the operation on all tensors with one of the axes, and on the lengths of dims"""
    dims = [axes] if isinstance(axes, Dim) else axes
    new_dims: DimMap = {} if dim_map is None else dim_map

    def new_dim(dim: Dim) -> Dim:
        lengths = None if dim.size is not None or dim in dims or dim.is_batch_dim() else dim.dyn_size_ext
        if lengths is not None and dim not in new_dims and any(d in dims for d in lengths.dims):
            new_dims[dim] = Dim(operation(lengths), name=dim.name, kind=dim.kind)
        return new_dims.get(dim, dim)

    def apply(x: Tensor | Dim) -> Tensor | Dim:
        if isinstance(x, Dim):
            return new_dim(x)
        if not any(dim in dims for dim in x.dims):
            return x
        old_dims = [dim for dim in x.dims if dim not in dims]
        x = operation(x)
        for dim in old_dims:
            x = replace_dim_v2(x, in_dim=dim, out_dim=new_dim(dim))
        return x

    return _map_leaves(apply, s)


def _map_leaves(func: Callable[[Any], Any], s: Any) -> Any:
    if isinstance(s, dict):
        return type(s)({key: _map_leaves(func, value) for key, value in s.items()})
    if isinstance(s, (list, tuple)):
        return make_seq_of_type(type(s), [_map_leaves(func, value) for value in s])
    return func(s) if isinstance(s, (Tensor, Dim)) else s


def _map_pairs(x: Any, y: Any, merge: _Merge) -> Any:
    """:raises DimError: if the structures differ"""
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        return merge.tensors(x, y)
    if isinstance(x, Dim) and isinstance(y, Dim):
        return merge.dims(x, y)
    if type(x) is not type(y):
        raise fail(f"nested structures differ: {type(x).__name__} and {type(y).__name__}.", f"{x!r} and {y!r}.")
    if isinstance(x, dict):
        if x.keys() != y.keys():
            raise fail(f"nested structures differ: the keys {sorted(x)} and {sorted(y)}.")
        return type(x)({key: _map_pairs(x[key], y[key], merge) for key in x})
    if isinstance(x, (list, tuple)):
        if len(x) != len(y):
            raise fail(f"nested structures differ: {len(x)} and {len(y)} entries.")
        return make_seq_of_type(type(x), [_map_pairs(a, b, merge) for a, b in zip(x, y, strict=True)])
    return x


def _mask_for(x: Tensor, mask: Tensor, mask_cpu: Tensor | None) -> Tensor:
    """:return: the mask that is on the device of x"""
    return mask_cpu if mask_cpu is not None and x.device == "cpu" else mask
