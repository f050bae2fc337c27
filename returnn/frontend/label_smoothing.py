"""Label smoothing (Szegedy et al. 2016): a part of the probability goes from the label to all others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from returnn.frontend._array.labels import sparse_to_dense
from returnn.frontend._backend import get_backend_of
from returnn.frontend._template_backend.rules import fail, require_dims
from returnn.frontend.array_ import where
from returnn.frontend.gradient import scaled_gradient_ext
from returnn.tensor import Dim, Tensor


def label_smoothing(prob: Tensor, smoothing: float | Tensor, *, axis: Dim | None = None) -> Tensor:
    """
    :param prob: {..., axis}, probabilities; or {...}, sparse, labels
    :param smoothing: which part of the probability goes to all other labels together, such as 0.1
    :param axis: the labels. Default: the sparse dim, or the feature dim
    :return: {..., axis}, probabilities
    """
    axis = _label_dim("label_smoothing", prob, axis)
    if prob.sparse_dim is not None:
        return smooth_one_hot(prob, label_prob=1.0 - smoothing)
    share = smoothing / float(_num_others("label_smoothing", axis))
    return prob * (1.0 - share * float(axis.get_dim_value())) + share


def smooth_one_hot(source: Tensor, *, label_prob: float | Tensor) -> Tensor:
    """
    :param source: {...}, sparse, labels
    :param label_prob: probability of the label
    :return: {..., sparse dim}: this for the label, and the rest in equal parts for all others
    """
    axis = _label_dim("smooth_one_hot", source, source.sparse_dim)
    if source.sparse_dim is None:
        raise fail(f"smooth_one_hot: {source} should be sparse.")
    share = (1.0 - label_prob) / float(_num_others("smooth_one_hot", axis))
    return sparse_to_dense(source, label_value=label_prob, other_value=share)


def label_smoothed_log_prob_gradient(
    log_prob: Tensor,
    smoothing: float | Tensor,
    *,
    axis: Dim | None = None,
    exclude_labels: Sequence[int] | None = None,
) -> Tensor:
    """
    For losses such as CTC, whose gradient with respect to the log probabilities is minus the probability of each label.

    :param log_prob: {..., axis}, log probabilities
    :param smoothing: which part of the gradient of a label goes to all others together
    :param axis: the labels. Default: the feature dim
    :param exclude_labels: labels whose gradient stays as it is, such as blank
    :return: the same value; on its way back, the gradient is smoothed
    """
    axis = _label_dim("label_smoothed_log_prob_gradient", log_prob, axis)
    excluded = sorted(set(exclude_labels or ()))
    share = smoothing / float(_num_others("label_smoothed_log_prob_gradient", axis) - len(excluded))
    scale = 1.0 - share * float(axis.get_dim_value() - len(excluded))
    if not excluded:
        return scaled_gradient_ext(log_prob, scale=scale, shift=-share, scale_shift_by_sum_over_axis=axis)
    is_excluded = numpy.isin(numpy.arange(axis.get_dim_value()), excluded)
    mask = get_backend_of(log_prob).convert_to_tensor(is_excluded, dims=[axis], dtype="bool", device=log_prob.device)
    # Of the gradient, the smoothed part sees only what belongs to the other labels.
    shift = where(mask, 0.0, -share)
    smoothed = scaled_gradient_ext(log_prob, scale=scale, shift=shift, scale_shift_by_sum_over_axis=axis)
    return where(mask, log_prob, smoothed)


def _label_dim(name: str, x: Tensor, axis: Dim | None) -> Dim:
    axis = axis or x.sparse_dim or x.feature_dim
    if axis is None:
        raise fail(f"{name}: {x} has no feature dim. Give the axis.")
    if axis != x.sparse_dim:
        require_dims(f"{name}: axis", x, [axis])
    return axis


def _num_others(name: str, axis: Dim) -> int:
    if axis.size is None or axis.size < 2:
        raise fail(f"{name}: the labels {axis} should have a fixed size of 2 or more.")
    return axis.size - 1


__all__ = ["label_smoothed_log_prob_gradient", "label_smoothing", "smooth_one_hot"]
