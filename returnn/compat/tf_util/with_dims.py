"""Helpers on tensors with named dims, as code on raw tensors uses them."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor, single_step_dim

_PADDING_INFO = "_returnn_padding_info"


def copy_compatible_reduce(source: Tensor, target: Tensor, reduce_type: str) -> Tensor:
    """
    :param source: tensor
    :param target: template
    :param reduce_type: "max", "mean", "sum", ...: how dims are reduced that the target does not have
    :return: the source with the dims of the target; of size 1 where it has none
    """
    axes = [dim for dim in source.dims if dim not in target.dims]
    if axes:
        source = rf.reduce(source, mode=reduce_type, axis=axes)
    return source.copy_compatible_to(target, check_dtype=False, check_sparse=False)


def softmax_cross_entropy_over_size(logits: Tensor, labels: Tensor, stable_gradient: bool = True) -> Any:
    """
    Cross entropy over a dim of sequences, as for attention weights: padded frames get no probability.

    :param logits: [B, ..., T]
    :param labels: [B, ..., T], probabilities, sum to 1 over T
    :param stable_gradient: a probability of 0 gives a gradient of 0, also where the logit is minus infinity
    :return: raw tensor: the axes of the logits, without T
    """
    dims = [dim for dim in logits.dims if dim.is_dynamic_seq_length() and dim in labels.dims]
    assert dims, f"{logits}, {labels}: there is no common dim of sequences"
    axis = dims[-1]
    log_probs = rf.log_softmax(logits, axis=axis, use_mask=True)
    products = rf.combine_bc(labels, "*", log_probs)
    if stable_gradient:
        products = rf.where(rf.compare_bc(labels, "==", 0), 0.0, products)
    loss = rf.neg(rf.reduce_sum(products, axis=axis, use_mask=True))
    return loss.copy_compatible_to_dims_raw([dim for dim in logits.dims if dim != axis])


def is_axis_from_description_recurrent(axis: Dim | str, network: Any, data: Tensor) -> bool:
    """
    :param axis: dim, or description
    :param network: in which it stands
    :param data: tensor whose axis is meant
    :return: whether it is the dim of the loop around, of which the tensor is one frame
    """
    if isinstance(axis, Dim) and axis == single_step_dim:
        return True
    rec_dim = network.get_inside_rec_time_dim(inside_loop=True)
    if rec_dim is None:
        return False
    if isinstance(axis, Dim):
        return axis == rec_dim
    return axis.upper() in ("T", "TIME") and data.time_dim_axis is None


def set_padding_info(x: Tensor, dim: Dim, pad_value: float) -> None:
    """
    Notes that padded frames hold a value.

    :param x: tensor
    :param dim: one of its dims
    :param pad_value: what stands behind the end of the sequences
    """
    assert dim in x.dims, f"{x} has no {dim}"
    get_padding_info_dict_ref(x)[dim] = pad_value


def get_padding_info_dict_ref(x: Tensor) -> dict[Dim, float]:
    """:return: values that stand in padded frames, by dim; changes in it count"""
    raw = x.raw_tensor
    if not hasattr(raw, _PADDING_INFO):
        setattr(raw, _PADDING_INFO, {})
    return getattr(raw, _PADDING_INFO)  # type: ignore[no-any-return]
