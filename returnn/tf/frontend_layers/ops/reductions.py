"""Operations over dims: sums, products of matrices, softmax; and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._ops.operands import as_dims
from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_layers.recording import as_recorded, record, record_expression, template_backend


class ReductionLayers:
    """For their meaning see `returnn.frontend._ops`: `reduce`, `matmul`, `softmax`, `gradient`."""

    @classmethod
    def reduce(cls, source: Tensor[Any], *, mode: str, axis: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor[Any]:
        """:return: by a layer of class "reduce" """
        template = template_backend().reduce(source, mode=mode, axis=axis, use_mask=use_mask)
        dims = as_dims(axis)
        if not dims:
            return record(template, {"class": "copy", "from": as_recorded(source)})
        options = {"class": "reduce", "mode": mode, "from": as_recorded(source), "axes": dims}
        if any(dim.need_masking() for dim in dims):
            options["use_time_mask"] = use_mask
        return record(template, options, name=f"reduce_{mode}")

    @classmethod
    def reduce_distributed(cls, source: Tensor[Any], *, mode: str) -> Tensor[Any]:
        """:return: by an expression"""
        out: Tensor[Any] = record_expression("reduce_distributed", source, mode=mode)
        return out

    @classmethod
    def matmul(
        cls, a: Tensor[Any], b: Tensor[Any], *, reduce: Dim | Sequence[Dim], use_mask: bool = True
    ) -> Tensor[Any]:
        """:return: by a layer of class "dot" """
        template = template_backend().matmul(a, b, reduce=reduce, use_mask=use_mask)
        dims = as_dims(reduce)
        has_dim_twice = any(x.dims.count(dim) > 1 for x in (a, b) for dim in x.dims)
        if not dims or has_dim_twice:
            out: Tensor[Any] = record_expression("matmul", a, b, reduce=reduce, use_mask=use_mask)
            return out
        options: dict[str, Any] = {"class": "dot", "from": [as_recorded(a), as_recorded(b)], "reduce": dims}
        if any(dim.need_masking() for dim in dims):
            options["use_mask"] = use_mask
        return record(template, options)

    @classmethod
    def cumsum(cls, source: Tensor[Any], *, spatial_dim: Dim) -> Tensor[Any]:
        """:return: by a layer of class "cumsum" """
        template = template_backend().cumsum(source, spatial_dim=spatial_dim)
        if source.sparse_dim is not None:  # the layer takes sums of labels as labels
            out: Tensor[Any] = record_expression("cumsum", source, spatial_dim=spatial_dim)
            return out
        return record(template, {"class": "cumsum", "from": as_recorded(source), "axis": spatial_dim})

    @classmethod
    def softmax(cls, tensor: Tensor[Any], *, axis: Dim, use_mask: bool = True) -> Tensor[Any]:
        """:return: by a layer of class "softmax_over_spatial" """
        template = template_backend().softmax(tensor, axis=axis, use_mask=use_mask)
        return cls._softmax(tensor, template, axis, use_mask, "softmax")

    @classmethod
    def log_softmax(cls, tensor: Tensor[Any], *, axis: Dim, use_mask: bool = True) -> Tensor[Any]:
        """:return: by a layer of class "softmax_over_spatial" """
        template = template_backend().log_softmax(tensor, axis=axis, use_mask=use_mask)
        return cls._softmax(tensor, template, axis, use_mask, "log_softmax")

    @classmethod
    def _softmax(cls, source: Tensor[Any], template: Tensor[Any], axis: Dim, use_mask: bool, name: str) -> Tensor[Any]:
        options: dict[str, Any] = {"class": "softmax_over_spatial", "from": as_recorded(source), "axis": axis}
        if axis.need_masking():
            options["use_time_mask"] = use_mask
        if name == "log_softmax":
            options["log_space"] = True
        return record(template, options, name=name)

    @classmethod
    def softmax_cross_entropy_with_logits(cls, *, logits: Tensor[Any], targets: Tensor[Any], axis: Dim) -> Tensor[Any]:
        """:return: by a layer of class "sparse_softmax_cross_entropy_with_logits", for sparse targets"""
        template = template_backend().softmax_cross_entropy_with_logits(logits=logits, targets=targets, axis=axis)
        if targets.sparse_dim is None:
            out: Tensor[Any] = record_expression(
                "softmax_cross_entropy_with_logits", logits=logits, targets=targets, axis=axis
            )
            return out
        name = "sparse_softmax_cross_entropy_with_logits"
        options = {"class": name, "logits": as_recorded(logits), "targets": as_recorded(targets), "axis": axis}
        return record(template, options, name="cross_entropy")

    @classmethod
    def gradient(cls, y: Tensor[Any], x: Tensor[Any]) -> Tensor[Any]:
        """:return: by an expression: it is 0 where y does not depend on x, which is an error of the layer class"""
        out: Tensor[Any] = record_expression("gradient", y, x)
        return out

    @classmethod
    def stop_gradient(cls, tensor: Tensor[Any]) -> Tensor[Any]:
        """:return: by a layer of class "scaled_grad" """
        options = {"class": "scaled_grad", "from": as_recorded(tensor), "scale": 0}
        return record(template_backend().stop_gradient(tensor), options, name="stop_gradient")

    @classmethod
    def scaled_gradient_ext(
        cls,
        x: Tensor[Any],
        *,
        scale: float | Tensor[Any] = 1.0,
        shift: float | Tensor[Any] | None = None,
        scale_shift_by_sum_over_axis: Dim | None = None,
    ) -> Tensor[Any]:
        """:return: by a layer of class "scaled_grad" """
        axis = scale_shift_by_sum_over_axis
        template = template_backend().scaled_gradient_ext(
            x, scale=scale, shift=shift, scale_shift_by_sum_over_axis=axis
        )
        options: dict[str, Any] = {"class": "scaled_grad", "from": as_recorded(x), "scale": _number_or_layer(scale)}
        if shift is not None:
            options["shift"] = _number_or_layer(shift)
        if axis is not None:
            options["scale_shift_by_sum_over_axis"] = axis
        return record(template, options, name="scaled_gradient")


def _number_or_layer(value: Any) -> Any:
    return as_recorded(value) if isinstance(value, Tensor) else value
