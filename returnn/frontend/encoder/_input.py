"""What is before the blocks of an encoder: fewer frames, a linear map, positions, dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import returnn.frontend as rf
from returnn.frontend._feature_dims import feature_dim
from returnn.frontend._transformer.parts import drop
from returnn.frontend.encoder.base import ISeqDownsamplingEncoder
from returnn.tensor import Dim, Tensor
from returnn.util.errors import ConfigError


class InputEncoder(ISeqDownsamplingEncoder):
    """
    `dropout(input_projection(input_layer(x)) * scale + positions)`. Parameters: `input_layer`, and `input_projection`
    where the features are others.
    """

    def __init__(
        self,
        in_dim: Dim | int,
        out_dim: Dim | int,
        *,
        input_layer: ISeqDownsamplingEncoder | rf.Module | dict[str, Any] | None,
        input_embedding_scale: float,
        input_dropout: float,
        pos_enc: Callable[..., Tensor] | dict[str, Any] | None = None,
    ) -> None:
        """
        :param in_dim: features that come in
        :param out_dim: features that come out
        :param input_layer: module with `out_dim`, called with `in_spatial_dim`; a dict gets `in_dim`; or None
        :param input_embedding_scale: factor of the features
        :param input_dropout: probability to drop a feature at the end, in training
        :param pos_enc: such as `rf.sinusoidal_positional_encoding`, added
        """
        super().__init__()
        self.in_dim = in_dim = feature_dim(in_dim, "in_dim")
        self.out_dim = out_dim = feature_dim(out_dim, "out_dim")
        self.dropout_broadcast = rf.dropout_broadcast_default()
        self.input_layer: Any = (
            rf.build_from_dict(input_layer, in_dim) if isinstance(input_layer, dict) else input_layer
        )
        if self.input_layer is not None and not isinstance(self.input_layer, rf.Module):
            raise ConfigError(
                f"{type(self).__name__}: input_layer should be a module, a dict or None, not {input_layer!r}."
            )
        self.downsample_factor = getattr(self.input_layer, "downsample_factor", 1)
        features: Dim = getattr(self.input_layer, "out_dim", in_dim)
        self.input_projection = None if features == out_dim else rf.Linear(features, out_dim, with_bias=False)
        self.input_embedding_scale = input_embedding_scale
        self.pos_enc = rf.build_from_dict(pos_enc, feat_dim=out_dim) if isinstance(pos_enc, dict) else pos_enc
        self.input_dropout = input_dropout

    def _embed(self, source: Tensor, in_spatial_dim: Dim) -> tuple[Tensor, Dim]:
        x, spatial_dim = source, in_spatial_dim
        if self.input_layer is not None:
            x, spatial_dim = self.input_layer(source, in_spatial_dim=in_spatial_dim)
        if self.input_projection is not None:
            x = self.input_projection(x)
        if self.input_embedding_scale != 1:
            x = x * self.input_embedding_scale
        if self.pos_enc is not None:
            x = x + self.pos_enc(spatial_dim=spatial_dim, feat_dim=self.out_dim)
        x = x.copy_with_roles(feature_dim=self.out_dim)
        return drop(x, self.input_dropout, self.dropout_broadcast, self.out_dim), spatial_dim
