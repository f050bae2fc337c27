"""SpecAugment: in training, stretches of frames and of features become 0 (Park et al. 2019)."""

from __future__ import annotations

from collections.abc import Sequence

from returnn.config.current import current_config
from returnn.frontend._ops.operands import as_dims, fail, require_dims
from returnn.frontend._reduce import reduce_any, reduce_max, top_k
from returnn.frontend.array_ import cast, where
from returnn.frontend.cond import cond
from returnn.frontend.const import full
from returnn.frontend.dims import range_over_dim
from returnn.frontend.math_ import combine_bc, compare_bc, logical_and, maximum, minimum
from returnn.frontend.rand import random_uniform
from returnn.frontend.run_ctx import get_run_ctx
from returnn.tensor import Dim, Tensor
from returnn.util.behavior_version import BehaviorVersion

__all__ = ["mask", "random_mask", "specaugment"]


def specaugment(
    x: Tensor,
    *,
    spatial_dim: Dim,
    feature_dim: Dim | None = None,
    global_train_step_dependent: bool = True,
    only_on_train: bool = True,
    max_consecutive_spatial_dims: int = 20,
    max_consecutive_feature_dims: int | None = None,
    num_spatial_mask_factor: int = 100,
    num_masks_per_seq: bool | None = None,
    steps: tuple[int, int, int] = (0, 1000, 2000),
) -> Tensor:
    """
    :param x: {..., spatial_dim, feature_dim}
    :param spatial_dim: the frames
    :param feature_dim: default: that of x
    :param global_train_step_dependent: more is masked in later steps, see `steps`. Otherwise, as in late ones
    :param only_on_train: nothing is masked outside of training
    :param max_consecutive_spatial_dims: longest stretch, in frames
    :param max_consecutive_feature_dims: the same for features; default: a fifth of them
    :param num_spatial_mask_factor: one stretch of frames, or more in later steps, for so many frames
    :param num_masks_per_seq: the number of stretches follows from the length of each sequence, which then does not
        depend on what else is in the batch. Otherwise, from that of the longest one. Default: the option
        `rf_specaugment_num_masks_per_seq` of the config, or else whether `behavior_version` is at least 30
    :param steps: from the first one on, there is anything at all; with each further one, there is more
    :return: the dims of x
    """
    feature_dim = feature_dim or x.feature_dim
    if feature_dim is None or feature_dim.size is None:
        raise fail(f"specaugment: {x} needs a feature_dim of fixed size, got {feature_dim}.")
    require_dims("specaugment", x, [spatial_dim, feature_dim])
    has_masks_per_seq = _has_masks_per_seq() if num_masks_per_seq is None else num_masks_per_seq
    max_features = max_consecutive_feature_dims or max(feature_dim.size // 5, 1)

    def masked() -> Tensor:
        # Each is 0 or 1: a training begins without masks, and gets more of them in two further stages.
        begin, more, most = _stages(steps) if global_train_step_dependent else (1, 1, 1)
        number = (1 + more + 2 * most) * begin
        at_least = (more + most) * begin
        num_frames: Tensor = spatial_dim.get_size_tensor()
        if not has_masks_per_seq and num_frames.dims:
            num_frames = reduce_max(num_frames, axis=num_frames.dims)
        by_length = maximum(num_frames // num_spatial_mask_factor, 2)
        out = random_mask(
            x,
            mask_axis=spatial_dim,
            broadcast_axis=feature_dim,
            min_num=minimum(num_frames, at_least),
            max_num=minimum(by_length * number, num_frames),
            max_dims=max_consecutive_spatial_dims,
        )
        return random_mask(
            out,
            mask_axis=feature_dim,
            broadcast_axis=spatial_dim,
            min_num=at_least,
            max_num=(2 + more + 2 * most) * begin,
            max_dims=max_features,
        )

    if not only_on_train:
        return masked()
    train_flag = get_run_ctx().is_train_flag_enabled(func=specaugment)
    if isinstance(train_flag, bool):
        return masked() if train_flag else x
    return cond(train_flag, masked, lambda: x)


def _has_masks_per_seq() -> bool:
    config = current_config()
    value = None if config is None else config.options.rf_specaugment_num_masks_per_seq
    return BehaviorVersion.get() >= 30 if value is None else value


def random_mask(
    x: Tensor,
    *,
    mask_axis: Dim,
    broadcast_axis: Dim | Sequence[Dim],
    min_num: int | Tensor,
    max_num: int | Tensor,
    max_dims: int | Tensor,
    mask_value: int | float | Tensor = 0.0,
    max_num_bound: int | Tensor | None = None,
) -> Tensor:
    """
    Masks several stretches, at random positions.

    :param x: {..., mask_axis, broadcast_axis...}
    :param mask_axis: the stretches are along this dim
    :param broadcast_axis: the same is masked along these dims; along the others, each has its own
    :param min_num: lowest number of stretches: number, or tensor with dims among those others
    :param max_num: highest number of stretches, likewise
    :param max_dims: longest stretch
    :param mask_value: what stands there then
    :param max_num_bound: no number of stretches is higher; default: found from `max_num`
    :return: the dims of x
    """
    broadcast = as_dims(broadcast_axis)
    require_dims("random_mask", x, [mask_axis, *broadcast])
    batch_dims = [dim for dim in x.dims if dim != mask_axis and dim not in broadcast]
    num = _random_number(batch_dims, min_num, max_num, x.device)
    bound = max_num if max_num_bound is None else max_num_bound
    bound = minimum(_highest(bound), mask_axis.get_dim_value_tensor())
    scores = random_uniform([*batch_dims, mask_axis], device=x.device)
    _, begin, stretches = top_k(scores, axis=mask_axis, k=bound)
    assert isinstance(begin, Tensor)
    inside = _stretch(begin, mask_axis, max_dims)
    is_used = compare_bc(range_over_dim(stretches, device=x.device), "<", num)
    inside = reduce_any(combine_bc(inside, "and", is_used), axis=stretches)
    return _replaced(x, inside, mask_value)


def mask(
    x: Tensor,
    *,
    mask_axis: Dim,
    pos: Tensor,
    max_amount: int | Tensor,
    mask_value: int | float | Tensor = 0.0,
) -> Tensor:
    """
    Masks one stretch, of random length.

    :param x: {..., mask_axis}
    :param mask_axis: the stretch is along this dim
    :param pos: {...}, where it begins, for each entry of these dims
    :param max_amount: longest stretch; the shortest one has length 1
    :param mask_value: what stands there then
    :return: the dims of x
    """
    require_dims("mask", x, [mask_axis, *pos.dims])
    return _replaced(x, _stretch(pos, mask_axis, max_amount), mask_value)


def _stages(steps: Sequence[int]) -> list[Tensor]:
    """:return: for each of the steps, 1 from there on, 0 before"""
    step = get_run_ctx().get_step_tensor()
    return [cast(step >= limit, "int32") for limit in steps]


def _random_number(dims: Sequence[Dim], low: int | Tensor, high: int | Tensor, device: str | None) -> Tensor:
    """:return: [dims...], int32, at least `low`, at most `high`"""
    uniform = random_uniform(dims, device=device)
    span = cast(combine_bc(full(dims=(), fill_value=1, dtype="int32"), "+", combine_bc(high, "-", low)), "float32")
    number = combine_bc(cast(combine_bc(uniform, "*", span), "int32"), "+", low)
    return combine_bc(number, "min", high)  # as float32, the product can be rounded up


def _highest(bound: int | Tensor) -> int | Tensor:
    return reduce_max(bound, axis=bound.dims) if isinstance(bound, Tensor) and bound.dims else bound


def _stretch(begin: Tensor, axis: Dim, max_amount: int | Tensor) -> Tensor:
    """:return: {..., axis}, bool, True from `begin` on, for a random number of frames"""
    amount = _random_number(begin.dims, 1, max_amount, begin.device)
    position = range_over_dim(axis, device=begin.device)
    behind_begin = compare_bc(position, ">=", begin)
    before_end = compare_bc(position, "<", combine_bc(begin, "+", amount), dim_order=behind_begin.dims)
    return logical_and(behind_begin, before_end)


def _replaced(x: Tensor, inside: Tensor, value: int | float | Tensor) -> Tensor:
    return where(inside, value, x).copy_with_roles(feature_dim=x.feature_dim)
