"""Losses."""

from __future__ import annotations

from returnn.frontend._backend import get_backend_of
from returnn.frontend.array_ import gather
from returnn.frontend.math_ import neg, safe_log
from returnn.frontend.matmul import matmul
from returnn.tensor import Dim, Tensor
from returnn.util.errors import check_known

_ESTIMATED_TYPES = ("logits", "probs", "log-probs")


def cross_entropy(*, estimated: Tensor, target: Tensor, axis: Dim, estimated_type: str) -> Tensor:
    """
    :param estimated: {..., axis}: scores, probabilities, or their logarithms
    :param target: {...}, sparse, indices into `axis`; or {..., axis}, probabilities
    :param axis: the classes
    :param estimated_type: what `estimated` is: "logits", "probs" or "log-probs"
    :return: {...}, in nats: -sum_axis target * log(estimated)
    """
    check_known("estimated_type", estimated_type, _ESTIMATED_TYPES, where="cross_entropy")
    if estimated_type == "logits":
        backend = get_backend_of(estimated, target)
        return backend.softmax_cross_entropy_with_logits(logits=estimated, targets=target, axis=axis)
    log_probs = safe_log(estimated) if estimated_type == "probs" else estimated
    if target.sparse:
        return neg(gather(log_probs, indices=target, axis=axis))
    return neg(matmul(target, log_probs, reduce=axis))
