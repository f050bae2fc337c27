"""Softmax, its logarithm, and the cross entropy of it."""

from __future__ import annotations

import numpy

from returnn.frontend._backends.template import TemplateBackend
from returnn.tensor import Dim, Tensor
from tests.frontend.reference.labeled import aligned, broadcast, valid


class SoftmaxReferenceOps:
    """Softmax. For the meaning of the operations see `returnn.frontend._ops`."""

    @classmethod
    def softmax(cls, tensor: Tensor, *, axis: Dim, use_mask: bool = True) -> Tensor:
        """:return: softmax"""
        out = TemplateBackend.softmax(tensor, axis=axis, use_mask=use_mask)
        out.raw_tensor = numpy.exp(cls.log_softmax(tensor, axis=axis, use_mask=use_mask).raw_tensor)
        return out

    @staticmethod
    def log_softmax(tensor: Tensor, *, axis: Dim, use_mask: bool = True) -> Tensor:
        """:return: logarithm of the softmax"""
        out = TemplateBackend.log_softmax(tensor, axis=axis, use_mask=use_mask)
        mask, nothing = valid([axis] if use_mask else [], out.dims), numpy.asarray(-numpy.inf, out.dtype)
        scores = numpy.where(mask, aligned(tensor, out.dims), nothing)
        position = out.get_axis_from_description(axis)
        with numpy.errstate(invalid="ignore"):
            normalization = numpy.logaddexp.reduce(scores, axis=position, keepdims=True)
            out.raw_tensor = numpy.where(mask, scores - normalization, nothing)
        return out

    @staticmethod
    def safe_log(tensor: Tensor, *, eps: float) -> Tensor:
        """:return: logarithm"""
        out = TemplateBackend.safe_log(tensor, eps=eps)
        raw = tensor.raw_tensor
        assert raw is not None
        out.raw_tensor = numpy.log(numpy.maximum(raw, numpy.asarray(eps, raw.dtype)))
        return out

    @classmethod
    def softmax_cross_entropy_with_logits(cls, *, logits: Tensor, targets: Tensor, axis: Dim) -> Tensor:
        """:return: cross entropy"""
        out = TemplateBackend.softmax_cross_entropy_with_logits(logits=logits, targets=targets, axis=axis)
        log_prob = broadcast(cls.log_softmax(logits, axis=axis), [*out.dims, axis])
        if targets.sparse_dim is None:
            prob = broadcast(targets, [*out.dims, axis])
        else:
            prob = numpy.arange(log_prob.shape[-1]) == broadcast(targets, out.dims)[..., None]
        with numpy.errstate(invalid="ignore"):
            out.raw_tensor = -numpy.where(prob != 0, prob * log_prob, 0).sum(axis=-1).astype(out.dtype)
        return out
