"""Rules of scores and alignments of label sequences."""

from __future__ import annotations

from collections.abc import Sequence

from returnn.frontend._ops.operands import fail, require_dims, require_float
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError, UserError


class CtcRules:
    """Rules. For the meaning of the operations see `returnn.frontend._interface.ctc`."""

    @staticmethod
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
        """:return: template, {batch...}"""
        if use_native_op:
            raise UserError("ctc_loss: there is no native operation. Leave use_native_op at None.")
        _check("ctc_loss", logits, targets, input_spatial_dim, targets_spatial_dim, blank_index)
        return Tensor("ctc_loss", ctc_batch_dims(logits, targets, input_spatial_dim, targets_spatial_dim), logits.dtype)

    @staticmethod
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
        """:return: template, [batch..., input_spatial_dim] -> classes"""
        _check("ctc_best_path", logits, targets, input_spatial_dim, targets_spatial_dim, blank_index)
        batch = ctc_batch_dims(logits, targets, input_spatial_dim, targets_spatial_dim)
        return Tensor("ctc_best_path", [*batch, input_spatial_dim], "int32", sparse_dim=logits.feature_dim)

    @staticmethod
    def have_edit_distance() -> bool:
        """:return: True"""
        return True

    @staticmethod
    def edit_distance(a: Tensor, a_spatial_dim: Dim, b: Tensor, b_spatial_dim: Dim) -> Tensor:
        """:return: template, {batch...}"""
        for name, x, dim in (("a", a, a_spatial_dim), ("b", b, b_spatial_dim)):
            require_dims(f"edit_distance: {name}_spatial_dim", x, [dim])
            if not x.dtype.startswith(("int", "uint")):
                raise DtypeError(f"edit_distance: {x} should be labels, as integers.")
        if a.dtype != b.dtype:
            raise DtypeError(f"edit_distance: the dtypes of {a} and {b} differ.\n  Use rf.cast on one of them.")
        return Tensor("edit_distance", _all_dims([(a, [a_spatial_dim]), (b, [b_spatial_dim])]), "int32")


def ctc_batch_dims(logits: Tensor, targets: Tensor, input_spatial_dim: Dim, targets_spatial_dim: Dim) -> list[Dim]:
    """:return: all dims but the frames, the classes, and the labels"""
    assert logits.feature_dim is not None
    return _all_dims([(logits, [input_spatial_dim, logits.feature_dim]), (targets, [targets_spatial_dim])])


def _all_dims(sources: Sequence[tuple[Tensor, Sequence[Dim]]]) -> list[Dim]:
    """
    :param sources: tensors, each with the dims to leave out
    :return: all their other dims, and those which the lengths differ over
    """
    dims: list[Dim] = []
    for x, excluded in sources:
        dims += [dim for dim in x.remaining_dims(excluded) if dim not in dims]
    for _, excluded in sources:
        for dim in excluded:
            lengths = dim.dyn_size_ext
            dims += [d for d in (() if lengths is None else lengths.dims) if d not in dims]
    return dims


def _check(
    name: str, logits: Tensor, targets: Tensor, input_spatial_dim: Dim, targets_spatial_dim: Dim, blank_index: int
) -> None:
    require_dims(f"{name}: input_spatial_dim", logits, [input_spatial_dim])
    require_dims(f"{name}: targets_spatial_dim", targets, [targets_spatial_dim])
    require_float(name, logits)
    classes, labels = logits.feature_dim, targets.sparse_dim
    if classes is None:
        raise fail(f"{name}: {logits} has no feature dim, which would be the classes.")
    if not targets.dtype.startswith(("int", "uint")):
        raise DtypeError(f"{name}: the targets {targets} should be labels, as integers.")
    if classes.size is not None and not 0 <= blank_index < classes.size:
        raise fail(f"{name}: blank_index {blank_index} is not one of the classes {classes} of {logits}.")
    if classes.size is not None and labels is not None and labels.size is not None and labels.size > classes.size:
        raise fail(f"{name}: the targets {targets} have more labels than there are classes in {logits}.")
