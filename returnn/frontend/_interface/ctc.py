"""Scores and alignments of label sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from returnn.tensor import Dim, Tensor


class CtcOps:
    """Scores and alignments of label sequences."""

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
        """See `returnn.frontend.ctc_loss`."""
        raise NotImplementedError

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
        """See `returnn.frontend.ctc_best_path`."""
        raise NotImplementedError

    @staticmethod
    def have_edit_distance() -> bool:
        """:return: whether there is `edit_distance`"""
        return False

    @staticmethod
    def edit_distance(a: Tensor, a_spatial_dim: Dim, b: Tensor, b_spatial_dim: Dim) -> Tensor:
        """:return: int32, see `returnn.frontend.edit_distance`"""
        raise NotImplementedError
