"""
Label smoothing (Szegedy et al. 2016, section 7): targets with some of the probability spread over the other labels.
"""

from __future__ import annotations

from collections.abc import Sequence

from returnn.frontend._ops.operands import fail, require_dims
from returnn.frontend._ranges import positions
from returnn.frontend.array_ import sparse_to_dense, where
from returnn.frontend.gradient import scaled_gradient_ext
from returnn.frontend.math_ import compare, logical_and
from returnn.tensor import Dim, Tensor

__all__ = ["label_smoothed_log_prob_gradient", "label_smoothing", "smooth_one_hot"]


def label_smoothing(prob: Tensor, smoothing: Tensor | float, *, axis: Dim | None = None) -> Tensor:
    """
    :param prob: {..., axis}, probabilities; or {...}, sparse, indices into `axis`
    :param smoothing: how much of the probability of a label all others get together
    :param axis: the labels; default: the sparse dim or the feature dim
    :return: {..., axis}, probabilities: with n labels, those of a single label become 1 - smoothing for it, and
        smoothing / (n - 1) for each of the others
    """
    _check("label_smoothing", smoothing)
    axis = _labels("label_smoothing", prob, axis)
    if prob.sparse_dim is not None and axis not in prob.dims:
        return smooth_one_hot(prob, label_prob=1.0 - smoothing)
    require_dims("label_smoothing", prob, [axis])
    other = smoothing / (_number(axis) - 1)
    out = prob * (1.0 - smoothing - other) + other
    return out.copy_with_roles(feature_dim=prob.feature_dim)


def smooth_one_hot(source: Tensor, *, label_prob: Tensor | float) -> Tensor:
    """
    :param source: {...}, sparse
    :param label_prob: probability of the label
    :return: {..., sparse dim}: `label_prob` at the label; the rest is spread over the others
    """
    axis = _labels("smooth_one_hot", source, None)
    return sparse_to_dense(
        source, label_value=label_prob, other_value=(1.0 - label_prob) / (_number(axis) - 1), axis=axis
    )


def label_smoothed_log_prob_gradient(
    log_prob: Tensor,
    smoothing: Tensor | float,
    *,
    axis: Dim | None = None,
    exclude_labels: Sequence[int] | None = None,
) -> Tensor:
    """
    Changes the gradient of any loss that is to raise log probabilities, such as the cross entropy or CTC, to what label
    smoothing of the cross entropy gives: part of what goes to a label goes to the others.

    :param log_prob: {..., axis}
    :param smoothing: how much of the gradient of a label all others get together
    :param axis: the labels; default: the feature dim
    :param exclude_labels: these keep their gradient and get nothing of the others, such as blank
    :return: the same values
    """
    _check("label_smoothed_log_prob_gradient", smoothing)
    axis = _labels("label_smoothed_log_prob_gradient", log_prob, axis)
    require_dims("label_smoothed_log_prob_gradient", log_prob, [axis])
    excluded = sorted(set(exclude_labels or ()))
    others = smoothing / (_number(axis) - len(excluded) - 1)
    scale = 1.0 - smoothing - others
    if not excluded:
        # The gradient at a label is negative.
        return scaled_gradient_ext(log_prob, scale=scale, shift=-others, scale_shift_by_sum_over_axis=axis)
    label = positions(axis)
    smoothed = compare(label, "!=", excluded[0])
    for number in excluded[1:]:
        smoothed = logical_and(smoothed, compare(label, "!=", number))
    shift = where(smoothed, -others, 0.0, allow_broadcast_all_sources=True)
    changed = scaled_gradient_ext(log_prob, scale=scale, shift=shift, scale_shift_by_sum_over_axis=axis)
    return where(smoothed, changed, log_prob)


def _check(operation: str, smoothing: Tensor | float) -> None:
    if not isinstance(smoothing, Tensor) and not 0 <= smoothing <= 1:
        raise fail(f"{operation}: smoothing is {smoothing}.", "It is a part of the probability, from 0 to 1.")


def _labels(operation: str, source: Tensor, axis: Dim | None) -> Dim:
    axis = axis or source.feature_dim_or_sparse_dim
    if axis is None:
        raise fail(f"{operation}: {source} has neither a sparse nor a feature dim.", "Give the axis.")
    return axis


def _number(axis: Dim) -> int:
    if axis.size is None or axis.size < 2:
        raise fail(f"label smoothing: the labels {axis} should be of a fixed number, of at least 2.")
    return axis.size
