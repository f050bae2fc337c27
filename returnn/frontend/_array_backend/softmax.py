"""Softmax, its logarithm, and the cross entropy of it."""

from __future__ import annotations

from typing import Any

import numpy

from returnn.frontend._array_backend.core import CoreArrayOps
from returnn.frontend._ops.layout import masked_raw
from returnn.frontend._ops.operands import expand_for_mask
from returnn.frontend._template_backend import TemplateBackend
from returnn.tensor import Dim, Tensor


class SoftmaxArrayOps(CoreArrayOps):
    """Softmax, on the raw operations below, which TensorFlow and PyTorch define."""

    @staticmethod
    def softmax_raw(raw_tensor: Any, axis: int) -> Any:
        """:return: softmax"""
        raise NotImplementedError

    @staticmethod
    def log_softmax_raw(raw_tensor: Any, axis: int) -> Any:
        """:return: logarithm of the softmax"""
        raise NotImplementedError

    @staticmethod
    def log_of_softmax_raw(raw_tensor: Any) -> Any:
        """:return: if it is known that this was computed by a softmax: the logarithm, without rounding; or else None"""
        return None

    @staticmethod
    def sparse_cross_entropy_raw(logits: Any, targets: Any) -> Any:
        """
        :param logits: (..., C)
        :param targets: (...), integers
        :return: (...), cross entropy
        """
        raise NotImplementedError

    @classmethod
    def softmax(cls, tensor: Tensor, *, axis: Dim, use_mask: bool = True) -> Tensor:
        """:return: softmax"""
        tensor = expand_for_mask(cls, tensor, [axis]) if use_mask else tensor
        out = TemplateBackend.softmax(tensor, axis=axis, use_mask=False)
        raw = masked_raw(tensor, [axis] if use_mask else [], -numpy.inf)
        out._raw_tensor = cls.softmax_raw(raw, tensor.get_axis_from_description(axis))
        return out

    @classmethod
    def log_softmax(cls, tensor: Tensor, *, axis: Dim, use_mask: bool = True) -> Tensor:
        """:return: logarithm of the softmax"""
        tensor = expand_for_mask(cls, tensor, [axis]) if use_mask else tensor
        out = TemplateBackend.log_softmax(tensor, axis=axis, use_mask=False)
        raw = masked_raw(tensor, [axis] if use_mask else [], -numpy.inf)
        out._raw_tensor = cls.log_softmax_raw(raw, tensor.get_axis_from_description(axis))
        return out

    @classmethod
    def safe_log(cls, tensor: Tensor, *, eps: float) -> Tensor:
        """:return: logarithm"""
        out = TemplateBackend.safe_log(tensor, eps=eps)
        out._raw_tensor = cls.log_of_softmax_raw(tensor._raw_tensor)
        if out._raw_tensor is None:
            out._raw_tensor = cls.activation_raw(cls.combine(tensor, "maximum", eps)._raw_tensor, "log")
        return out

    @classmethod
    def softmax_cross_entropy_with_logits(cls, *, logits: Tensor, targets: Tensor, axis: Dim) -> Tensor:
        """:return: cross entropy"""
        targets = cls.as_tensor(targets)
        out = TemplateBackend.softmax_cross_entropy_with_logits(logits=logits, targets=targets, axis=axis)
        if targets.sparse_dim is None:
            return cls._dense_cross_entropy(logits, targets, axis).copy_transpose(out.dims)
        logits = cls._expanded(logits.copy_masked(-numpy.inf, dims=[axis]), [*out.dims, axis])
        targets = cls._expanded(targets.copy_masked(0), out.dims)  # what is there in padding may be no class at all
        out._raw_tensor = cls.sparse_cross_entropy_raw(logits._raw_tensor, targets._raw_tensor)
        return out

    @classmethod
    def _dense_cross_entropy(cls, logits: Tensor, targets: Tensor, axis: Dim) -> Tensor:
        log_prob = cls.log_softmax(logits, axis=axis)
        targets = targets.copy_masked(0, dims=[axis])
        product = cls.combine(log_prob, "mul", targets, allow_broadcast_all_sources=True)
        return cls.activation(cls.reduce(product, mode="sum", axis=axis), "neg")

    @classmethod
    def _expanded(cls, x: Tensor, dims: Any) -> Tensor:
        """:return: x with its axes in the order of `dims`, repeated along those that it does not have"""
        return x if x.dims == tuple(dims) else x.copy_compatible_to_dims(dims, unbroadcast=True)
