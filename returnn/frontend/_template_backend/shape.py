"""Rules of operations which change dims and keep values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._ops.operands import as_operand, common_template, fail, require_dims, shown
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError

PAD_MODES = ("constant", "reflect", "symmetric", "replicate", "circular")


class ShapeRules:
    """Rules. For the meaning of the operations see `returnn.frontend._interface.shape`."""

    @staticmethod
    def merge_dims(source: Tensor, *, dims: Sequence[Dim], out_dim: Dim) -> tuple[Tensor, Dim]:
        """:return: template, out dim"""
        require_dims("merge_dims", source, dims)
        _check_same_size("merge_dims", source, dims, [out_dim])
        return replaced_axes(source, axes_of(source, dims), [out_dim]), out_dim

    @staticmethod
    def split_dims(
        source: Tensor,
        *,
        axis: Dim,
        dims: Sequence[Dim],
        pad_to_multiples: bool | None = None,
        pad_value: Any = None,
    ) -> Tensor:
        """:return: template"""
        require_dims("split_dims", source, [axis])
        if not pad_to_multiples:
            _check_same_size("split_dims", source, [axis], dims)
        return replaced_axes(source, axes_of(source, [axis]), dims)

    @staticmethod
    def reshape(source: Tensor, in_dims: Sequence[Dim], out_dims: Sequence[Dim]) -> Tensor:
        """:return: template"""
        if not in_dims:
            raise fail(f"reshape: {source}: in_dims is empty.", "To add a dim, use rf.expand_dim.")
        require_dims("reshape", source, in_dims)
        _check_same_size("reshape", source, in_dims, out_dims)
        return replaced_axes(source, axes_of(source, in_dims), out_dims)

    @classmethod
    def replace_dim(cls, source: Tensor, *, in_dim: Dim, out_dim: Dim) -> Tensor:
        """:return: template"""
        if in_dim == source.sparse_dim and in_dim not in source.dims:
            return cls.set_sparse_dim(source, out_dim)
        require_dims("replace_dim", source, [in_dim])
        _check_same_size("replace_dim", source, [in_dim], [out_dim])
        return source.copy_template_replace_dim_tag(source.get_axis_from_description(in_dim), out_dim)

    @staticmethod
    def set_sparse_dim(source: Tensor, sparse_dim: Dim | None) -> Tensor:
        """:return: template"""
        if sparse_dim is not None and not source.dtype.startswith(("int", "uint")):
            raise DtypeError(f"set_sparse_dim: {source} should have integers, as indices into {sparse_dim}.")
        out = source.copy_template()
        out.sparse_dim = sparse_dim
        return out

    @staticmethod
    def concat(*sources: tuple[Tensor, Dim], allow_broadcast: bool = False, out_dim: Dim) -> Tensor:
        """:return: template, like the source which has the most dims"""
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
            out.sparse_dim = None
        return out

    @staticmethod
    def split(source: Tensor, *, axis: Dim, out_dims: Sequence[Dim]) -> tuple[Tensor, ...]:
        """:return: templates"""
        require_dims("split", source, [axis])
        sizes = [dim.size for dim in out_dims]
        if axis.size is not None and None not in sizes and sum(sizes) != axis.size:  # type: ignore[arg-type]
            raise fail(f"split: {source}: the sizes of {shown(out_dims)} do not sum up to that of {axis}.")
        number = source.get_axis_from_description(axis)
        return tuple(source.copy_template_replace_dim_tag(number, dim) for dim in out_dims)

    @staticmethod
    def stack(sources: Sequence[Tensor], *, out_dim: Dim) -> Tensor:
        """:return: template. The new dim stands in front."""
        first = sources[0]
        for source in sources[1:]:
            if source.dims_set != first.dims_set:
                raise fail(
                    f"stack: the dims of {first} and {source} differ.", "Use rf.expand_dim where one is missing."
                )
            if source.dtype != first.dtype:
                raise DtypeError(f"stack: the dtypes of {first} and {source} differ.\n  Use rf.cast on one of them.")
        return common_template("stack", sources)._insert_dim(out_dim, 0)

    @staticmethod
    def unstack(source: Tensor, *, axis: Dim) -> tuple[Tensor, ...]:
        """:return: templates"""
        require_dims("unstack", source, [axis])
        if axis.size is None:
            raise fail(f"unstack: {source}: {axis} has no fixed size, so the number of tensors is not known.")
        number = source.get_axis_from_description(axis)
        return tuple(source.copy_template_excluding_axis(number) for _ in range(axis.size))

    @staticmethod
    def pad(
        source: Tensor,
        *,
        axes: Sequence[Dim],
        padding: Sequence[tuple[Dim | int, Dim | int]],
        out_dims: Sequence[Dim],
        handle_dynamic_dims: bool,
        mode: str = "constant",
        value: Any = None,
    ) -> Tensor:
        """:return: template"""
        if mode not in PAD_MODES:
            raise fail(f"pad: there is no mode {mode!r}.", f"Possible: {', '.join(PAD_MODES)}.")
        require_dims("pad", source, axes)
        fill = value if value is None or isinstance(value, Tensor) else as_operand(value, like=source)
        if fill is not None and fill.dtype != source.dtype:
            raise DtypeError(
                f"pad: the dtypes of {source} and the value {value} differ.\n  Use rf.cast on one of them."
            )
        out = source
        for axis, new_dim in zip(axes_of(source, axes), out_dims, strict=True):
            out = out.copy_template_replace_dim_tag(axis, new_dim)
        return out

    @staticmethod
    def slice(
        source: Tensor,
        *,
        axis: Dim,
        start: Any = None,
        end: Any = None,
        step: Any = None,
        size: Any = None,
        out_dim: Dim,
    ) -> Tensor:
        """:return: template"""
        require_dims("slice", source, [axis])
        return source.copy_template_replace_dim_tag(source.get_axis_from_description(axis), out_dim)

    @staticmethod
    def flip_no_mask(source: Tensor, *, axis: Dim) -> Tensor:
        """:return: template"""
        require_dims("flip_no_mask", source, [axis])
        return source.copy_template()


def axes_of(source: Tensor, dims: Sequence[Dim]) -> list[int]:
    """:return: the axis of each dim"""
    return [source.get_axis_from_description(dim) for dim in dims]


def replaced_axes(source: Tensor, axes: Sequence[int], new_dims: Sequence[Dim]) -> Tensor:
    """
    :param source: tensor
    :param axes: its axes which are replaced, all together, by ...
    :param new_dims: ... these, at the place of the first of the axes. If the feature or the time axis is replaced, the
        last of these dims takes over this role.
    :return: template
    """
    first = min(axes)
    rest = [i for i in range(len(source.dims)) if i not in axes]
    before, behind = [i for i in rest if i < first], [i for i in rest if i > first]
    roles = [i for i in (source._feature_dim_axis, source._time_dim_axis) if i in axes]
    new_axes: list[Any] = [*[None] * (len(new_dims) - 1), roles[0] if roles else None] if new_dims else []
    dims = [*(source.dims[i] for i in before), *new_dims, *(source.dims[i] for i in behind)]
    return source._with_axes(dims, [*before, *new_axes, *behind])


def _check_same_size(operation: str, source: Tensor, old: Sequence[Dim], new: Sequence[Dim]) -> None:
    """:raises DimError: if there are not as many values as before, as far as known"""
    before, after = _size_of(old), _size_of(new)
    if before is None or after is None:
        return
    if before != after:
        raise fail(f"{operation}: {source}: {shown(old)} has {before} entries, but {shown(new)} has {after}.")


def _size_of(dims: Sequence[Dim]) -> int | None:
    """:return: the product of the sizes, None if one of them is not known"""
    size = 1
    for dim in dims:
        if dim.size is None:
            return None
        size *= dim.size
    return size
