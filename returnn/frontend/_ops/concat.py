"""Tensors behind each other along a dim, and pieces of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._ops.layout import raw_in_order
from returnn.frontend._ops.operands import OperandOps, common_template, fail, require_dims, shown
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError


class ConcatOps(OperandOps):
    """Operations on axes in memory. What becomes of the lengths of sequences is up to those who call them."""

    @classmethod
    def concat(cls, *sources: tuple[Tensor, Dim], allow_broadcast: bool = False, out_dim: Dim) -> Tensor:
        """
        :param sources: tensors, each with its dim along which it is concatenated
        :param allow_broadcast: a source may lack some of the other dims; its values are repeated there
        :param out_dim: for these dims
        :return: like the source which has the most dims
        """
        sources = tuple((cls.as_tensor(x), dim) for x, dim in sources)
        out = _concat_template(sources, allow_broadcast, out_dim)
        if cls.computes:
            axis = next(i for i, dim in enumerate(out.dims) if dim is out_dim)
            parts = []
            for source, dim in sources:
                dims = [*out.dims[:axis], dim, *out.dims[axis + 1 :]]
                parts.append(source.copy_compatible_to_dims_raw(dims, unbroadcast=True))
            out._raw_tensor = cls.concat_raw(parts, axis) if len(parts) > 1 else parts[0]
        return out

    @classmethod
    def split(cls, source: Tensor, *, axis: Dim, out_dims: Sequence[Dim]) -> tuple[Tensor, ...]:
        """:return: pieces of source along `axis`, of the sizes of `out_dims`"""
        require_dims("split", source, [axis])
        sizes = [dim.size for dim in out_dims]
        if axis.size is not None and None not in sizes and sum(sizes) != axis.size:  # type: ignore[arg-type]
            raise fail(f"split: {source}: the sizes of {shown(out_dims)} do not sum up to that of {axis}.")
        number = source.get_axis_from_description(axis)
        outs = tuple(source.copy_template_replace_dim_tag(number, dim) for dim in out_dims)
        if cls.computes:
            sizes_in_memory = [dim.get_dim_value() for dim in out_dims]
            _fill(outs, cls.split_raw(source._raw_tensor, sizes_in_memory, number))
        return outs

    @classmethod
    def stack(cls, sources: Sequence[Tensor], *, out_dim: Dim) -> Tensor:
        """:return: all sources behind each other along the new dim, which stands in front"""
        sources = [cls.as_tensor(source) for source in sources]
        first = sources[0]
        for source in sources[1:]:
            if source.dims_set != first.dims_set:
                raise fail(
                    f"stack: the dims of {first} and {source} differ.", "Use rf.expand_dim where one is missing."
                )
            if source.dtype != first.dtype:
                raise DtypeError(f"stack: the dtypes of {first} and {source} differ.\n  Use rf.cast on one of them.")
        out = common_template("stack", sources)._insert_dim(out_dim, 0)
        if cls.computes:
            out._raw_tensor = cls.stack_raw([raw_in_order(source, out.dims[1:]) for source in sources])
        return out

    @classmethod
    def unstack(cls, source: Tensor, *, axis: Dim) -> tuple[Tensor, ...]:
        """:return: the entries of the static `axis`"""
        require_dims("unstack", source, [axis])
        if axis.size is None:
            raise fail(f"unstack: {source}: {axis} has no fixed size, so the number of tensors is not known.")
        number = source.get_axis_from_description(axis)
        outs = tuple(source.copy_template_excluding_axis(number) for _ in range(axis.size))
        if cls.computes:
            _fill(outs, cls.unstack_raw(source._raw_tensor, number, len(outs)))
        return outs


def _concat_template(sources: Sequence[tuple[Tensor, Dim]], allow_broadcast: bool, out_dim: Dim) -> Tensor:
    first = sources[0][0]
    main, main_dim = max(sources, key=lambda entry: len(entry[0].dims))
    rest = main.remaining_dims(main_dim)
    for source, dim in sources:
        require_dims("concat", source, [dim])
        others = source.remaining_dims(dim)
        if any(d not in rest for d in others) or (len(others) < len(rest) and not allow_broadcast):
            raise fail(
                f"concat: {source} along {dim} does not fit to {main} along {main_dim}.",
                "The other dims have to be the same; or, with allow_broadcast=True, a part of them.",
            )
        if source.dtype != first.dtype:
            raise DtypeError(f"concat: the dtypes of {first} and {source} differ.\n  Use rf.cast on one of them.")
    out = main.copy_template_replace_dim_tag(main.get_axis_from_description(main_dim), out_dim, "concat")
    if any(source.sparse_dim != first.sparse_dim for source, _ in sources):
        out = out.copy_with_roles(sparse_dim=None)
    return out


def _fill(outs: Sequence[Tensor], raws: Sequence[Any]) -> None:
    for out, raw in zip(outs, raws, strict=True):
        out._raw_tensor = raw
