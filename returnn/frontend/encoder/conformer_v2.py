"""The Conformer in two modules: what makes fewer frames, and the blocks, which keep the frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import returnn.frontend as rf
from returnn.frontend._feature_dims import feature_dim
from returnn.frontend._transformer.parts import OptionalDim, Part, make_layers
from returnn.frontend.encoder._input import InputEncoder
from returnn.frontend.encoder.base import ISeqDownsamplingEncoder, ISeqFramewiseEncoder
from returnn.frontend.encoder.conformer import DEFAULT_DIM, ConformerEncoderLayer
from returnn.tensor import Dim, Tensor
from returnn.util.not_specified import NotSpecified


class ConformerFrontend(InputEncoder):
    """Fewer frames, a linear map, dropout. Parameters: `input_layer`, `input_projection`."""

    def __init__(
        self,
        in_dim: Dim | int,
        out_dim: Dim | int = DEFAULT_DIM,
        *,
        input_layer: ISeqDownsamplingEncoder | rf.Module | dict[str, Any] | None,
        input_embedding_scale: float = 1.0,
        input_dropout: float = 0.1,
    ) -> None:
        """
        :param in_dim: features that come in
        :param out_dim: features that come out
        :param input_layer: such as `ConformerConvSubsample`; a dict gets `in_dim`
        :param input_embedding_scale: factor of what comes out
        :param input_dropout: probability to drop a feature of what comes out, in training
        """
        super().__init__(
            in_dim,
            out_dim,
            input_layer=input_layer,
            input_embedding_scale=input_embedding_scale,
            input_dropout=input_dropout,
        )

    def __call__(self, source: Tensor, *, in_spatial_dim: Dim) -> tuple[Tensor, Dim]:
        """
        :param source: {..., in_spatial_dim, in_dim}
        :param in_spatial_dim: of the frames that come in
        :return: {..., out_spatial_dim, out_dim}; out_spatial_dim
        """
        return self._embed(source, in_spatial_dim)


class ConformerEncoderV2(ISeqFramewiseEncoder):
    """A row of Conformer blocks. Parameters: `layers`."""

    def __init__(
        self,
        out_dim: Dim | int = DEFAULT_DIM,
        *,
        num_layers: int,
        ff_dim: OptionalDim = NotSpecified,
        ff_activation: Any = NotSpecified,
        dropout: float = 0.1,
        conv_kernel_size: int | type[NotSpecified] = NotSpecified,
        conv_norm: Part = NotSpecified,
        num_heads: int = 4,
        att_dropout: float = 0.1,
        encoder_layer: Part | None = None,
        encoder_layer_opts: dict[str, Any] | None = None,
        sequential: Callable[..., Any] = rf.Sequential,
    ) -> None:
        """
        :param out_dim: features, which come in and out
        :param num_layers: number of blocks
        :param ff_dim: see `ConformerEncoderLayer`; likewise the others
        :param ff_activation: of the feed-forward modules
        :param dropout: of each part of a block
        :param conv_kernel_size: frames that the convolution of a block sees
        :param conv_norm: normalization in the convolution block
        :param num_heads: of the self-attention
        :param att_dropout: of the self-attention
        :param encoder_layer: class, dict or module of a block. Default: `ConformerEncoderLayer`
        :param encoder_layer_opts: further options of it
        :param sequential: what puts the blocks in a row
        """
        super().__init__()
        self.out_dim = out_dim = feature_dim(out_dim, "out_dim")
        self.dropout = dropout
        self.dropout_broadcast = rf.dropout_broadcast_default()
        self.layers = make_layers(
            encoder_layer,
            encoder_layer_opts,
            num_layers,
            default=ConformerEncoderLayer,
            sequential=sequential,
            option="encoder_layer",
            out_dim=out_dim,
            dropout=dropout,
            num_heads=num_heads,
            att_dropout=att_dropout,
            ff_dim=ff_dim,
            ff_activation=ff_activation,
            conv_kernel_size=conv_kernel_size,
            conv_norm=conv_norm,
        )

    def __call__(self, x: Tensor, *, spatial_dim: Dim, collected_outputs: dict[str, Tensor] | None = None) -> Tensor:
        """
        :param x: {..., spatial_dim, out_dim}
        :param spatial_dim: of the frames
        :param collected_outputs: gets the outputs of all blocks, by their names
        :return: {..., spatial_dim, out_dim}
        """
        return self.layers(x, spatial_dim=spatial_dim, collected_outputs=collected_outputs)


__all__ = ["ConformerEncoderV2", "ConformerFrontend"]
