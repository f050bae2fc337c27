"""Rules of the softmax and of the cross entropy."""

from __future__ import annotations

from returnn.frontend._ops.operands import (
    common_template,
    expand_for_mask,
    fail,
    require_dims,
    require_float,
)
from returnn.frontend._template_backend.core import CoreRules
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError


class SoftmaxRules:
    """Rules of the softmax. For the meaning of the operations see `returnn.frontend._interface.softmax`."""

    @staticmethod
    def softmax(tensor: Tensor, *, axis: Dim, use_mask: bool = True) -> Tensor:
        """:return: template"""
        return _softmax("softmax", tensor, axis, use_mask)

    @staticmethod
    def log_softmax(tensor: Tensor, *, axis: Dim, use_mask: bool = True) -> Tensor:
        """:return: template"""
        return _softmax("log_softmax", tensor, axis, use_mask)

    @staticmethod
    def safe_log(tensor: Tensor, *, eps: float) -> Tensor:
        """:return: template"""
        require_float("safe_log", tensor)
        return tensor.copy_template("safe_log")

    @staticmethod
    def softmax_cross_entropy_with_logits(*, logits: Tensor, targets: Tensor, axis: Dim) -> Tensor:
        """:return: template"""
        require_dims("cross_entropy", logits, [axis])
        require_float("cross_entropy", logits)
        frames = CoreRules.reduce(logits, mode="sum", axis=axis)
        if targets.sparse_dim is None:
            require_dims("cross_entropy", targets, [axis])
            if targets.dtype != logits.dtype:
                raise DtypeError(
                    f"cross_entropy: the dtypes of the logits {logits} and of the targets {targets} differ.\n"
                    "  Targets are probabilities over the classes, or sparse."
                )
            others = CoreRules.reduce(targets, mode="sum", axis=axis)
        else:
            if targets.sparse_dim != axis:
                raise fail(
                    f"cross_entropy: the targets {targets} are indices into {targets.sparse_dim}, the classes of the "
                    f"logits {logits} are {axis}.",
                    "rf.set_sparse_dim(targets, dim), or dim.declare_same_as(other), says that they are the same.",
                )
            others = targets
        out = common_template("cross_entropy", [frames, others], allow_broadcast_all_sources=True)
        out.dtype, out.sparse_dim = logits.dtype, None
        return out


def _softmax(name: str, tensor: Tensor, axis: Dim, use_mask: bool) -> Tensor:
    require_dims(name, tensor, [axis])
    require_float(name, tensor)
    return (expand_for_mask(CoreRules, tensor, [axis]) if use_mask else tensor).copy_template(name)
