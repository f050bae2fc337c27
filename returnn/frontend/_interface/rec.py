"""Recurrence."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from returnn.tensor import Dim, Tensor


class RecOps:
    """Recurrence."""

    @staticmethod
    def lstm(
        source: Tensor,
        *,
        state_h: Tensor,
        state_c: Tensor,
        ff_weight: Tensor,
        rec_weight: Tensor,
        bias: Tensor | None,
        spatial_dim: Dim,
        in_dim: Dim,
        out_dim: Dim,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """
        LSTM (Hochreiter and Schmidhuber 1997), with forget gate. The parts of the weights are the input gate, the
        forget gate, the new cell value, the output gate.

        :param source: {..., spatial_dim, in_dim}; without `spatial_dim`, this is one step
        :param state_h: {..., out_dim}, output before the first frame
        :param state_c: {..., out_dim}, cell before the first frame
        :param ff_weight: [4 * out_dim, in_dim]
        :param rec_weight: [4 * out_dim, out_dim]
        :param bias: [4 * out_dim]
        :param spatial_dim: the frames
        :param in_dim: features that come in
        :param out_dim: features that come out
        :return: {..., spatial_dim, out_dim}: output in each frame; output and cell {..., out_dim} after the last frame
            of each sequence
        """
        raise NotImplementedError
