"""Convolution and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from returnn.tensor import Dim, Tensor


class ConvOps:
    """
    Convolution and pooling. All frames in memory count; those beyond the end of sequences are masked before.

    Kinds of padding are those of `returnn.frontend._ops.nn.conv_windows.Window`.
    """

    @staticmethod
    def conv(
        source: Tensor,
        *,
        in_dim: Dim,
        out_dim: Dim,
        in_spatial_dims: Sequence[Dim],
        out_spatial_dims: Sequence[Dim] | None = None,
        filter: Tensor,
        filter_size: Sequence[Dim],
        padding: Any,
        strides: int | Sequence[int] | None = None,
        dilation_rate: int | Sequence[int] | None = None,
        groups: int | None = None,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, Sequence[Dim]]:
        """See `returnn.frontend.conv`."""
        raise NotImplementedError

    @staticmethod
    def transposed_conv(
        source: Tensor,
        *,
        in_dim: Dim,
        out_dim: Dim,
        in_spatial_dims: Sequence[Dim],
        out_spatial_dims: Sequence[Dim] | None = None,
        filter: Tensor,
        filter_size: Sequence[Dim],
        padding: Any,
        remove_padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int | None] | None = None,
        strides: int | Sequence[int] | None = None,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, Sequence[Dim]]:
        """See `returnn.frontend.transposed_conv`."""
        raise NotImplementedError

    @staticmethod
    def pool(
        source: Tensor,
        *,
        mode: str,
        pool_size: int | Sequence[int],
        padding: Any = "valid",
        dilation_rate: int | Sequence[int] = 1,
        strides: int | Sequence[int],
        in_spatial_dims: Sequence[Dim],
        out_spatial_dims: Sequence[Dim] | None = None,
    ) -> tuple[Tensor, Sequence[Dim]]:
        """See `returnn.frontend.pool`. Frames of padding do not count, also not in an average."""
        raise NotImplementedError
