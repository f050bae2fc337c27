"""Losses."""

from __future__ import annotations

from typing import NamedTuple

from returnn.frontend._array.gather import valid_only
from returnn.frontend._backend import get_backend_of
from returnn.frontend._ops.operands import fail, require_dims, shown
from returnn.frontend._out_dims import out_dim_for, out_dim_with_lengths
from returnn.frontend._reduce import reduce_argmax, reduce_sum
from returnn.frontend._watch import Watch
from returnn.frontend.array_ import cast, gather, masked_select, scatter, shift_right, where
from returnn.frontend.assert_ import assert_
from returnn.frontend.const import ones_like
from returnn.frontend.dims import set_sparse_dim
from returnn.frontend.math_ import combine_bc, compare_bc, cumsum, equal, logical_and, neg, not_equal, safe_log
from returnn.frontend.matmul import matmul
from returnn.tensor import Dim, Tensor
from returnn.util.errors import check_known

_ESTIMATED_TYPES = ("logits", "probs", "log-probs")


class CtcOperands(NamedTuple):
    """What a CTC loss, or a forced alignment, compares."""

    function: str
    targets: Tensor
    targets_spatial_dim: Dim
    input_spatial_dim: Dim
    label_loop: bool
    classes: Dim | None
    blank_index: int


_CROSS_ENTROPIES: Watch[tuple[Tensor, Tensor, Dim]] = Watch()
_CTC_OPERANDS: Watch[CtcOperands] = Watch()
watched_cross_entropies = _CROSS_ENTROPIES.look  # `estimated`, `target` and `axis` of each
watched_ctc_losses = _CTC_OPERANDS.look  # also of forced alignments


def cross_entropy(*, estimated: Tensor, target: Tensor, axis: Dim, estimated_type: str) -> Tensor:
    """
    :param estimated: {..., axis}: scores, probabilities, or their logarithms
    :param target: {...}, sparse, indices into `axis`; or {..., axis}, probabilities
    :param axis: the classes
    :param estimated_type: what `estimated` is: "logits", "probs" or "log-probs"
    :return: {...}, in nats: -sum_axis target * log(estimated)
    """
    check_known("estimated_type", estimated_type, _ESTIMATED_TYPES, where="cross_entropy")
    others = [dim for dim in target.dims if dim not in estimated.dims]
    if others and (missing := [dim for dim in estimated.dims if dim != axis and dim not in target.dims]):
        raise fail(
            f"cross_entropy: {estimated} has {shown(missing)}, {target} has {shown(others)}.",
            "If they are as long as each other, they have to be the same dim, by rf.replace_dim, or in data by "
            "'same_dim_tags_as'. For all pairs of both, there is rf.expand_dims.",
        )
    _CROSS_ENTROPIES.note((estimated, target, axis))
    if estimated_type == "logits":
        backend = get_backend_of(estimated, target)
        return backend.softmax_cross_entropy_with_logits(logits=estimated, targets=target, axis=axis)
    log_probs = safe_log(estimated) if estimated_type == "probs" else estimated
    if target.sparse:
        return neg(gather(log_probs, indices=target, axis=axis))
    return neg(matmul(target, log_probs, reduce=axis))


def ctc_loss(
    *,
    logits: Tensor,
    logits_normalized: bool = False,
    targets: Tensor,
    input_spatial_dim: Dim,
    targets_spatial_dim: Dim,
    blank_index: int,
    max_approx: bool = False,
    use_native_op: bool | None = None,
    label_loop: bool = True,
) -> Tensor:
    """
    Connectionist temporal classification (Graves et al. 2006).

    :param logits: {..., input_spatial_dim, classes}; the classes are the feature dim
    :param logits_normalized: whether these are log probabilities already
    :param targets: {..., targets_spatial_dim}: labels, each the index of its class, which is not blank
    :param input_spatial_dim: the frames
    :param targets_spatial_dim: the labels
    :param blank_index: the class of frames without label
    :param max_approx: the best alignment alone, instead of the sum over all
    :param use_native_op: whether by a native operation; None: where there is one; True: it is an error if there is none
    :param label_loop: whether a label can last several frames; then there is a blank between two equal labels.
        Otherwise each label lasts one frame.
    :return: {...}, in nats: negative log probability of the targets; infinite, with gradient 0, where there is no
        alignment
    """
    dims = targets_spatial_dim, input_spatial_dim
    _CTC_OPERANDS.note(CtcOperands("ctc_loss", targets, *dims, label_loop, logits.feature_dim, blank_index))
    return get_backend_of(logits, targets).ctc_loss(
        logits=logits,
        logits_normalized=logits_normalized,
        targets=targets,
        input_spatial_dim=input_spatial_dim,
        targets_spatial_dim=targets_spatial_dim,
        blank_index=blank_index,
        max_approx=max_approx,
        use_native_op=use_native_op,
        label_loop=label_loop,
    )


def ctc_best_path(
    *,
    logits: Tensor,
    logits_normalized: bool = False,
    targets: Tensor,
    input_spatial_dim: Dim,
    targets_spatial_dim: Dim,
    blank_index: int,
    label_loop: bool = True,
) -> Tensor:
    """
    Forced alignment. For the arguments see `ctc_loss`.

    :return: [..., input_spatial_dim] -> classes: the path with the highest probability, with blanks. Where there is no
        alignment, as the targets need more frames, these are any classes; `ctc_loss` with `max_approx` is infinite then
    """
    dims = targets_spatial_dim, input_spatial_dim
    _CTC_OPERANDS.note(CtcOperands("ctc_best_path", targets, *dims, label_loop, logits.feature_dim, blank_index))
    return get_backend_of(logits, targets).ctc_best_path(
        logits=logits,
        logits_normalized=logits_normalized,
        targets=targets,
        input_spatial_dim=input_spatial_dim,
        targets_spatial_dim=targets_spatial_dim,
        blank_index=blank_index,
        label_loop=label_loop,
    )


def ctc_greedy_decode(
    logits: Tensor,
    *,
    in_spatial_dim: Dim,
    blank_index: int,
    out_spatial_dim: Dim | None = None,
    target_dim: Dim | None = None,
    wb_target_dim: Dim | None = None,
) -> tuple[Tensor, Dim]:
    """
    The labels of the path which takes the best class in each frame.

    :param logits: {..., in_spatial_dim, wb_target_dim}
    :param in_spatial_dim: the frames
    :param blank_index: the class of frames without label
    :param out_spatial_dim: for the labels; default: a new one
    :param target_dim: the labels, for the result; default: `wb_target_dim`
    :param wb_target_dim: the classes, labels with blank; default: the feature dim
    :return: {..., out_spatial_dim} -> target_dim; out_spatial_dim
    """
    classes = wb_target_dim or logits.feature_dim
    if classes is None:
        raise fail(f"ctc_greedy_decode: {logits} has no feature dim. Give wb_target_dim.")
    require_dims("ctc_greedy_decode", logits, [in_spatial_dim, classes])
    path = reduce_argmax(logits, axis=classes)
    labels, out_dim = masked_select(
        path,
        mask=_is_new_label(path, in_spatial_dim, blank_index),
        dims=[in_spatial_dim],
        out_dim=out_spatial_dim,
    )
    return set_sparse_dim(labels, target_dim or classes), out_dim


def ctc_durations_from_path(
    *,
    path: Tensor,
    path_spatial_dim: Dim,
    blank_index: int,
    targets_spatial_dim: Dim | None = None,
    out_spatial_dim: Dim | None = None,
    check_dims: bool = True,
    stop_on_failed_check: bool = True,
) -> tuple[Tensor, Dim]:
    """
    :param path: {..., path_spatial_dim}: class of each frame, such as from `ctc_best_path`
    :param path_spatial_dim: the frames
    :param blank_index: the class of frames without label
    :param targets_spatial_dim: the labels, if known
    :param out_spatial_dim: default: `2 * targets_spatial_dim + 1`
    :param check_dims: whether there have to be as many labels in the path as `targets_spatial_dim` says
    :param stop_on_failed_check: an error if not; otherwise, this is only said
    :return: {..., out_spatial_dim}, int32: number of frames of blank, the first label, blank, ..., the last label,
        blank; out_spatial_dim
    """
    is_new = cast(_is_new_label(path, path_spatial_dim, blank_index), "int32")
    number = cumsum(is_new, spatial_dim=path_spatial_dim)
    state = combine_bc(number, "*", 2) - cast(not_equal(path, blank_index), "int32")
    out_dim = _dim_of_states(
        is_new, path_spatial_dim, targets_spatial_dim, out_spatial_dim, 2, check_dims, stop_on_failed_check
    )
    return _count_frames(state, path_spatial_dim, out_dim), out_dim


def ctc_no_label_loop_blank_durations_from_path(
    *,
    path: Tensor,
    path_spatial_dim: Dim,
    blank_index: int,
    targets_spatial_dim: Dim | None = None,
    out_spatial_dim: Dim | None = None,
    check_dims: bool = True,
    stop_on_failed_check: bool = True,
) -> tuple[Tensor, Dim]:
    """
    For paths where each label lasts one frame. For the arguments see `ctc_durations_from_path`.

    :return: {..., out_spatial_dim}, int32: number of blanks before the first label, ..., before the last one, and
        behind it; out_spatial_dim, by default `targets_spatial_dim + 1`
    """
    is_label = valid_only(cast(not_equal(path, blank_index), "int32"), 0)
    number = cumsum(is_label, spatial_dim=path_spatial_dim)
    out_dim = _dim_of_states(
        is_label, path_spatial_dim, targets_spatial_dim, out_spatial_dim, 1, check_dims, stop_on_failed_check
    )
    return _count_frames(where(equal(path, blank_index), number, -1), path_spatial_dim, out_dim), out_dim


def edit_distance(a: Tensor, a_spatial_dim: Dim, b: Tensor, b_spatial_dim: Dim, *, dtype: str = "int32") -> Tensor:
    """
    Levenshtein distance.

    :param a: {..., a_spatial_dim}, labels
    :param a_spatial_dim: with the labels of a
    :param b: {..., b_spatial_dim}, labels
    :param b_spatial_dim: with the labels of b
    :param dtype: of the result
    :return: {...}: the least number of labels to insert, delete and substitute so that a becomes b
    """
    return cast(get_backend_of(a, b).edit_distance(a, a_spatial_dim, b, b_spatial_dim), dtype)


def _is_new_label(path: Tensor, spatial_dim: Dim, blank_index: int) -> Tensor:
    """:return: bool: whether a label begins in the frame; False in padded frames"""
    before = shift_right(path, axis=spatial_dim, pad_value=blank_index)
    is_new = logical_and(not_equal(path, blank_index), not_equal(path, before))
    return valid_only(is_new, False)


def _dim_of_states(
    is_new: Tensor,
    path_spatial_dim: Dim,
    targets_dim: Dim | None,
    out_dim: Dim | None,
    factor: int,
    check: bool,
    stop: bool,
) -> Dim:
    """:return: dim of `factor` times the number of labels, and one more"""
    number = reduce_sum(is_new, axis=path_spatial_dim, use_mask=False)
    if targets_dim is None:
        lengths = combine_bc(combine_bc(number, "*", factor), "+", 1)
        return out_dim_with_lengths(out_dim, lengths, name="ctc-states", like=path_spatial_dim)
    if check:
        is_same = compare_bc(number, "==", targets_dim.get_size_tensor())
        assert_(is_same, f"ctc: the number of labels in a path is not the length of {targets_dim}", stop=stop)
    return out_dim_for("ctc_durations_from_path", out_dim, targets_dim * factor + 1)


def _count_frames(state: Tensor, path_spatial_dim: Dim, out_dim: Dim) -> Tensor:
    """:return: {..., out_dim}: in how many frames the path is in this state"""
    ones = ones_like(cast(state, "int32"))
    return scatter(ones, indices=state, indices_dim=path_spatial_dim, out_dim=out_dim)


__all__ = [
    "cross_entropy",
    "ctc_best_path",
    "ctc_durations_from_path",
    "ctc_greedy_decode",
    "ctc_loss",
    "ctc_no_label_loop_blank_durations_from_path",
    "edit_distance",
]
