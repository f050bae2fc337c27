"""
Softmax, its logarithm, and the cross entropy of it. Classes beyond the end of a dynamic dim get no probability: also of
a sequence without any, which has no softmax.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from returnn.frontend._ops.layout import mask_over, raw_for_broadcast
from returnn.frontend._ops.operands import (
    common_template,
    expand_for_mask,
    expanded_template,
    fail,
    require_dims,
    require_float,
)
from returnn.frontend._ops.reduce import ReduceOps, without_axes
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError


class SoftmaxOps(ReduceOps):
    """Softmax and what belongs to it."""

    @classmethod
    def softmax(cls, tensor: Tensor, *, axis: Dim, use_mask: bool = True) -> Tensor:
        """See `returnn.frontend.softmax`."""
        return cls._over_classes("softmax", tensor, axis, use_mask)

    @classmethod
    def log_softmax(cls, tensor: Tensor, *, axis: Dim, use_mask: bool = True) -> Tensor:
        """See `returnn.frontend.log_softmax`."""
        return cls._over_classes("log_softmax", tensor, axis, use_mask)

    @classmethod
    def _over_classes(cls, name: str, tensor: Tensor, axis: Dim, use_mask: bool) -> Tensor:
        require_dims(name, tensor, [axis])
        require_float(name, tensor)
        if use_mask:
            tensor = expand_for_mask(cls.expand_dim, tensor, [axis])
        out = tensor.copy_template(name)
        if cls.computes:
            function = cls.softmax_raw if name == "softmax" else cls.log_softmax_raw
            number = tensor.get_axis_from_description(axis)
            mask = mask_over(tensor, [axis]) if use_mask else None
            raw = tensor._raw_tensor
            if mask is None:
                raw = function(raw, number)
            else:
                raw_mask = raw_for_broadcast(mask, tensor._dims)
                lowest, nothing = (
                    cls.number_raw(value, tensor.dtype, tensor)
                    for value in (-numpy.inf, 0.0 if name == "softmax" else -numpy.inf)
                )
                raw = function(cls.where_raw(raw_mask, raw, lowest), number)
                raw = cls.where_raw(raw_mask, raw, nothing)  # where all are left out, it is not a number
            out._raw_tensor = raw
        return out

    @classmethod
    def safe_log(cls, tensor: Tensor, *, eps: float) -> Tensor:
        """:return: log(max(tensor, eps)); where the backend knows that the tensor is a softmax, its `log_softmax`"""
        require_float("safe_log", tensor)
        out = tensor.copy_template("safe_log")
        if cls.computes:
            out._raw_tensor = cls.log_of_softmax_raw(tensor._raw_tensor, eps)
            if out._raw_tensor is None:
                out._raw_tensor = cls.activation_raw(cls.combine(tensor, "maximum", eps)._raw_tensor, "log")
        return out

    @classmethod
    def softmax_cross_entropy_with_logits(cls, *, logits: Tensor, targets: Tensor, axis: Dim) -> Tensor:
        """
        :param logits: {..., axis}, scores without normalization
        :param targets: {..., axis}, probabilities; or {...}, sparse, indices into `axis`
        :param axis: the classes
        :return: {...}, in nats: -sum_axis targets * log_softmax(logits)
        """
        targets = cls.as_tensor(targets)
        out = _cross_entropy_template(logits, targets, axis)
        if not cls.computes:
            return out
        if targets.sparse_dim is None:
            return cls._dense_cross_entropy(logits, targets, axis).copy_transpose(out.dims)
        logits = _expanded(logits.copy_masked(-numpy.inf, dims=[axis]), [*out.dims, axis])
        targets = _expanded(targets.copy_masked(0), out.dims)  # what is there in padding may be no class at all
        try:
            out._raw_tensor = cls.sparse_cross_entropy_raw(logits._raw_tensor, targets._raw_tensor)
        except IndexError as exc:
            raise fail(
                f"cross_entropy: the targets {targets} have a label that is not in {axis}: {exc}",
                f"Possible are 0 to {axis.get_dim_value() - 1}.",
            ) from exc
        return out

    @classmethod
    def _dense_cross_entropy(cls, logits: Tensor, targets: Tensor, axis: Dim) -> Tensor:
        log_prob = cls.log_softmax(logits, axis=axis)
        targets = targets.copy_masked(0, dims=[axis])
        product = cls.combine(log_prob, "mul", targets, allow_broadcast_all_sources=True)
        return cls.activation(cls.reduce(product, mode="sum", axis=axis), "neg")


def _cross_entropy_template(logits: Tensor, targets: Tensor, axis: Dim) -> Tensor:
    require_dims("cross_entropy", logits, [axis])
    require_float("cross_entropy", logits)
    others = targets
    if targets.sparse_dim is None:
        require_dims("cross_entropy", targets, [axis])
        if targets.dtype != logits.dtype:
            raise DtypeError(
                f"cross_entropy: the dtypes of the logits {logits} and of the targets {targets} differ.\n"
                "  Targets are probabilities over the classes, or sparse."
            )
        others = _without_classes(targets, axis)
    elif targets.sparse_dim != axis:
        raise fail(
            f"cross_entropy: the targets {targets} are indices into {targets.sparse_dim}, the classes of the "
            f"logits {logits} are {axis}.",
            "rf.set_sparse_dim(targets, dim), or dim.declare_same_as(other), says that they are the same.",
        )
    out = common_template("cross_entropy", [_without_classes(logits, axis), others], allow_broadcast_all_sources=True)
    out.dtype, out.sparse_dim = logits.dtype, None
    return out


def _without_classes(x: Tensor, axis: Dim) -> Tensor:
    """:return: template of x, summed up over the classes"""
    x = expand_for_mask(expanded_template, x, [axis])
    return without_axes(x, [x.get_axis_from_description(axis)])


def _expanded(x: Tensor, dims: Sequence[Dim]) -> Tensor:
    """:return: x with its axes in the order of `dims`, repeated along those that it does not have"""
    return x if x.dims == tuple(dims) else x.copy_compatible_to_dims(dims, unbroadcast=True)
