"""Softmax, its logarithm, and the cross entropy of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from returnn.tensor import Dim, Tensor


class SoftmaxOps:
    """Softmax and what belongs to it."""

    @staticmethod
    def softmax(tensor: Tensor, *, axis: Dim, use_mask: bool = True) -> Tensor:
        """See `returnn.frontend.softmax`."""
        raise NotImplementedError

    @staticmethod
    def log_softmax(tensor: Tensor, *, axis: Dim, use_mask: bool = True) -> Tensor:
        """See `returnn.frontend.log_softmax`."""
        raise NotImplementedError

    @staticmethod
    def safe_log(tensor: Tensor, *, eps: float) -> Tensor:
        """:return: log(max(tensor, eps)); where the backend knows that the tensor is a softmax, its `log_softmax`"""
        raise NotImplementedError

    @staticmethod
    def softmax_cross_entropy_with_logits(*, logits: Tensor, targets: Tensor, axis: Dim) -> Tensor:
        """
        :param logits: {..., axis}, scores without normalization
        :param targets: {..., axis}, probabilities; or {...}, sparse, indices into `axis`
        :param axis: the classes
        :return: {...}, in nats: -sum_axis targets * log_softmax(logits)
        """
        raise NotImplementedError
