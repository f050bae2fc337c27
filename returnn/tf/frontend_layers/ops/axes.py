"""Operations on axes: add, remove, join, split and rename dims, and pick entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_layers.make_layer import make_sub_layer, set_lengths_by_layer
from returnn.tf.frontend_layers.recording import (
    as_recorded,
    record,
    record_expression,
    set_labels,
    template_backend,
)

_PAD_MODES = {"constant": "constant", "reflect": "reflect", "symmetric": "symmetric", "replicate": "replication"}


class AxesLayers:
    """For their meaning see `returnn.frontend._ops`: `axes`, `concat`, `merge_split`, `gather`, `slice`, `pad`."""

    @classmethod
    def expand_dim(cls, source: Tensor[Any], dim: Dim) -> Tensor[Any]:
        """:return: by a layer of class "expand_dims", if the size is fixed"""
        if dim.size is None:
            out: Tensor[Any] = record_expression("expand_dim", source, dim)
            return out
        template = template_backend().expand_dim(source, dim)
        axis = "F" if dim.is_feature_dim() and not source.sparse else "spatial"
        return record(template, {"class": "expand_dims", "from": as_recorded(source), "axis": axis, "dim": dim})

    @classmethod
    def squeeze(cls, source: Tensor[Any], axis: Dim) -> Tensor[Any]:
        """:return: by a layer of class "squeeze" """
        template = template_backend().squeeze(source, axis)
        return record(template, {"class": "squeeze", "from": as_recorded(source), "axis": axis})

    @classmethod
    def set_sparse_dim(cls, source: Tensor[Any], sparse_dim: Dim | None) -> Tensor[Any]:
        """:return: by a layer of class "reinterpret_data" """
        template_backend().set_sparse_dim(source, sparse_dim)
        return set_labels(source, as_recorded(source).raw_tensor, sparse_dim)

    @classmethod
    def replace_dim(cls, source: Tensor[Any], *, in_dim: Dim, out_dim: Dim) -> Tensor[Any]:
        """:return: by a layer of class "reinterpret_data", if the size is fixed"""
        if in_dim == source.sparse_dim and in_dim not in source.dims:
            return cls.set_sparse_dim(source, out_dim)
        if in_dim.size is None:
            out: Tensor[Any] = record_expression("replace_dim", source, in_dim=in_dim, out_dim=out_dim)
            return out
        template = template_backend().replace_dim(source, in_dim=in_dim, out_dim=out_dim)
        options = {"class": "reinterpret_data", "from": as_recorded(source), "set_dim_tags": {in_dim: out_dim}}
        return record(template, options, name="replace_dim")

    @classmethod
    def concat(cls, *sources: tuple[Tensor[Any], Dim], allow_broadcast: bool = False, out_dim: Dim) -> Tensor[Any]:
        """:return: by a layer of class "concat", if the sizes are fixed"""
        if any(dim.size is None for _, dim in sources) or len(sources) == 1:
            out: Tensor[Any] = record_expression("concat", *sources, allow_broadcast=allow_broadcast, out_dim=out_dim)
            return out
        template = template_backend().concat(*sources, allow_broadcast=allow_broadcast, out_dim=out_dim)
        pairs = [(as_recorded(source), dim) for source, dim in sources]
        options = {"class": "concat", "from": pairs, "allow_broadcast": allow_broadcast, "out_dim": out_dim}
        return record(template, options)

    @classmethod
    def split(cls, source: Tensor[Any], *, axis: Dim, out_dims: Sequence[Dim]) -> tuple[Tensor[Any], ...]:
        """:return: by a layer of class "split" """
        templates = template_backend().split(source, axis=axis, out_dims=out_dims)
        options = {"class": "split", "from": as_recorded(source), "axis": axis, "out_dims": list(out_dims)}
        whole = record(source.copy_template(), options)
        return tuple(make_sub_layer(whole.raw_tensor, str(i), template) for i, template in enumerate(templates))

    @classmethod
    def stack(cls, sources: Sequence[Tensor[Any]], *, out_dim: Dim) -> Tensor[Any]:
        """:return: by a layer of class "stack" """
        template = template_backend().stack(sources, out_dim=out_dim)
        options = {"class": "stack", "from": [as_recorded(x) for x in sources], "out_spatial_dim": out_dim}
        return record(template, options)

    @classmethod
    def unstack(cls, source: Tensor[Any], *, axis: Dim) -> tuple[Tensor[Any], ...]:
        """:return: by layers of class "gather" """
        templates = template_backend().unstack(source, axis=axis)
        return tuple(cls.gather(source, indices=i, axis=axis) for i in range(len(templates)))

    @classmethod
    def merge_dims(
        cls, source: Tensor[Any], *, dims: Sequence[Dim], out_dim: Dim | None = None
    ) -> tuple[Tensor[Any], Dim]:
        """:return: by a layer of class "merge_dims", if the sizes are fixed"""
        template, out_dim = template_backend().merge_dims(source, dims=dims, out_dim=out_dim)
        if any(dim.size is None for dim in dims) or len(dims) < 2 or any(dim.is_batch_dim() for dim in dims):
            merged: tuple[Tensor[Any], Dim] = record_expression("merge_dims", source, dims=dims, out_dim=out_dim)
            return merged
        options = {"class": "merge_dims", "from": as_recorded(source), "axes": list(dims), "out_dim": out_dim}
        return record(template, {**options, "keep_order": True}), out_dim

    @classmethod
    def split_dims(
        cls,
        source: Tensor[Any],
        *,
        axis: Dim,
        dims: Sequence[Dim],
        pad_to_multiples: bool | None = None,
        pad_value: Any = None,
    ) -> Tensor[Any]:
        """:return: by a layer of class "split_dims", if the sizes are fixed"""
        if axis.size is None or pad_to_multiples or any(dim.size is None for dim in dims):
            out: Tensor[Any] = record_expression(
                "split_dims", source, axis=axis, dims=dims, pad_to_multiples=pad_to_multiples, pad_value=pad_value
            )
            return out
        template = template_backend().split_dims(source, axis=axis, dims=dims)
        options = {"class": "split_dims", "from": as_recorded(source), "axis": axis, "dims": list(dims)}
        return record(template, {**options, "pad_to_multiples": False})

    @classmethod
    def gather(
        cls, source: Tensor[Any], *, indices: Tensor[Any] | int, axis: Dim, clip_to_valid: bool = False
    ) -> Tensor[Any]:
        """:return: by a layer of class "gather" """
        template = template_backend().gather(source, indices=indices, axis=axis, clip_to_valid=clip_to_valid)
        position = indices if isinstance(indices, int) else as_recorded(indices)
        options = {"class": "gather", "from": as_recorded(source), "position": position, "axis": axis}
        if clip_to_valid:
            options["clip_to_valid"] = True
        return record(template, options)

    @classmethod
    def slice(
        cls,
        source: Tensor[Any],
        *,
        axis: Dim,
        start: Any = None,
        end: Any = None,
        step: Any = None,
        size: Any = None,
        out_dim: Dim,
    ) -> Tensor[Any]:
        """:return: by a layer of class "slice", if the positions are numbers"""
        numbers = [start, step] if axis.size is None else [start, end, step]
        is_simple = all(x is None or (isinstance(x, int) and x >= 0) for x in numbers) and size is None
        is_simple = is_simple and (end is None or isinstance(end, int))
        is_all = not start and end is None and step in (None, 1)
        if not is_simple or is_all:
            out: Tensor[Any] = record_expression(
                "slice", source, axis=axis, start=start, end=end, step=step, out_dim=out_dim
            )
            return out
        template = template_backend().slice(source, axis=axis, start=start, end=end, step=step, out_dim=out_dim)
        options = {"class": "slice", "from": as_recorded(source), "axis": axis, "out_dim": out_dim}
        given = {"slice_start": start, "slice_end": end, "slice_step": step}
        return record(template, {**options, **{name: value for name, value in given.items() if value is not None}})

    @classmethod
    def pad(
        cls,
        source: Tensor[Any],
        *,
        axes: Sequence[Dim],
        padding: Sequence[tuple[Dim | int, Dim | int]],
        out_dims: Sequence[Dim],
        handle_dynamic_dims: bool,
        mode: str = "constant",
        value: Any = None,
    ) -> Tensor[Any]:
        """:return: by a layer of class "pad", if the numbers of frames are known and it has the mode"""
        given: dict[str, Any] = {"axes": list(axes), "padding": [tuple(pair) for pair in padding]}
        given.update(out_dims=list(out_dims), handle_dynamic_dims=handle_dynamic_dims)
        fill = value.copy_template() if isinstance(value, Tensor) else value
        template = template_backend().pad(source.copy_template(), **given, mode=mode, value=fill)
        is_number = value is None or isinstance(value, (bool, int, float))
        are_known = all(isinstance(side, int) for pair in padding for side in pair)
        if mode not in _PAD_MODES or not are_known or not (is_number or isinstance(value, Tensor)):
            out: Tensor[Any] = record_expression("pad", source, **given, mode=mode, value=value)
            return out
        options: dict[str, Any] = {"class": "pad", "from": as_recorded(source), **given, "mode": _PAD_MODES[mode]}
        if value is not None and mode == "constant":
            options["value"] = as_recorded(value, like=source) if isinstance(value, Tensor) else value
        return record(template, options)

    @classmethod
    def masked_select(
        cls, tensor: Tensor[Any], *, mask: Tensor[Any], dims: Sequence[Dim], out_dim: Dim | None = None
    ) -> tuple[Tensor[Any], Dim]:
        """:return: by a layer of class "boolean_mask" """
        template, out_dim = template_backend().masked_select(tensor, mask=mask, dims=dims, out_dim=out_dim)
        options = {"class": "boolean_mask", "from": as_recorded(tensor), "mask": as_recorded(mask)}
        out = record(template, {**options, "dims": list(dims), "out_dim": out_dim}, name="masked_select")
        set_lengths_by_layer(out, [out_dim])
        return out, out_dim

    @classmethod
    def top_k(
        cls, source: Tensor[Any], *, axis: Dim | Sequence[Dim], k: Any, k_dim: Dim | None = None, sorted: bool = True
    ) -> Any:
        """:return: by a layer of class "top_k" """
        values, indices, k_dim = template_backend().top_k(source, axis=axis, k=k, k_dim=k_dim, sorted=sorted)
        options = {"class": "top_k", "from": as_recorded(source), "axis": axis if isinstance(axis, Dim) else list(axis)}
        number = as_recorded(k) if isinstance(k, Tensor) else k
        out = record(values, {**options, "k": number, "k_dim": k_dim, "sorted": sorted})
        if isinstance(indices, Tensor):
            return out, make_sub_layer(out.raw_tensor, "indices", indices), k_dim
        layers = [make_sub_layer(out.raw_tensor, f"indices{i}", x) for i, x in enumerate(indices)]
        return out, layers, k_dim
