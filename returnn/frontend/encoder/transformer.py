"""Encoder of a Transformer (Vaswani et al. 2017): labels, or features, in their whole context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import returnn.frontend as rf
from returnn.frontend._transformer.embedded import DEFAULT_DIM, Embedded, take_renamed
from returnn.frontend._transformer.feed_forward import FeedForward, make_feed_forward
from returnn.frontend._transformer.parts import (
    Part,
    Residual,
    attention_options,
    make_layers,
    make_norm,
    make_part,
)
from returnn.tensor import Dim, Tensor
from returnn.util.not_specified import NotSpecified


class TransformerEncoder(Embedded):
    """Parameters: `input_embedding`, `input_embedding_proj`, `layers`, `final_layer_norm`."""

    def __init__(
        self,
        vocab_dim: Dim | int,
        model_dim: Dim | int = DEFAULT_DIM,
        *,
        num_layers: int,
        ff: Part = NotSpecified,
        pos_enc: Callable[..., Tensor] | rf.Module | dict[str, Any] | None = rf.sinusoidal_positional_encoding,
        dropout: float = 0.1,
        num_heads: int = 8,
        att_dropout: float = 0.1,
        norm: Part = rf.LayerNorm,
        layer: Part | None = None,
        layer_opts: dict[str, Any] | None = None,
        embed_dim: Dim | int | None = None,
        input_embedding: Part | bool | None = rf.Embedding,
        input_embedding_scale: float | None = None,
        input_dropout: float | None = None,
        sequential: Callable[..., Any] = rf.Sequential,
        **compat_kwargs: Any,
    ) -> None:
        """
        :param vocab_dim: labels
        :param model_dim: features of the layers, which come out
        :param num_layers: number of layers
        :param ff: feed-forward modules, see `TransformerEncoderLayer`
        :param pos_enc: positions, added to the vectors of the labels; called with `spatial_dim`, `feat_dim` and
            `offset`. None: none, where the self-attention has them
        :param dropout: probability to drop a feature of a part, in training
        :param num_heads: of the self-attention
        :param att_dropout: of the self-attention
        :param norm: normalization before each part, and at the end
        :param layer: class, dict or module. Default: `TransformerEncoderLayer`
        :param layer_opts: further options of it
        :param embed_dim: features of a label, if they are not `model_dim`
        :param input_embedding: class, dict or module; None: features come in
        :param input_embedding_scale: factor of the vectors. Default: sqrt(model_dim)
        :param input_dropout: probability to drop a feature of the vectors. Default: `dropout`
        :param sequential: what puts the layers in a row
        :param compat_kwargs: `encoder_layer`, `encoder_layer_opts`: earlier names of `layer` and `layer_opts`
        """
        renamed = take_renamed(
            TransformerEncoder, compat_kwargs, {"encoder_layer": "layer", "encoder_layer_opts": "layer_opts"}
        )
        layer = renamed.get("layer", layer)
        layer_opts = renamed.get("layer_opts", layer_opts)
        super().__init__(
            vocab_dim,
            model_dim,
            pos_enc=pos_enc,
            embed_dim=embed_dim,
            input_embedding=input_embedding,
            input_embedding_scale=input_embedding_scale,
            input_dropout=dropout if input_dropout is None else input_dropout,
        )
        self.out_dim = model_dim = self.model_dim
        self.layers = make_layers(
            layer,
            layer_opts,
            num_layers,
            default=TransformerEncoderLayer,
            sequential=sequential,
            out_dim=model_dim,
            dropout=dropout,
            num_heads=num_heads,
            att_dropout=att_dropout,
            norm=norm,
            ff=ff,
        )
        self.final_layer_norm = make_norm(norm, model_dim)

    def __call__(
        self, source: Tensor, *, spatial_dim: Dim, collected_outputs: dict[str, Tensor] | None = None
    ) -> Tensor:
        """
        :param source: {..., spatial_dim}, labels of `vocab_dim`
        :param spatial_dim: of the labels
        :param collected_outputs: gets the outputs of all layers, by their names
        :return: {..., spatial_dim, model_dim}
        """
        x = self._embed(source, spatial_dim)
        return self.final_layer_norm(self.layers(x, spatial_dim=spatial_dim, collected_outputs=collected_outputs))

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> rf.State:
        """
        :param batch_dims: of the sequences
        :return: nothing: it sees whole sequences
        """
        return rf.State({key: layer.default_initial_state(batch_dims=batch_dims) for key, layer in self.layers.items()})

    def transform_encoder(self, encoder: Tensor, *, axis: Dim) -> rf.State:
        """
        :param encoder: {..., axis, ...}
        :param axis: frames of the encoder
        :return: nothing for each layer: it attends to no other sequence. So it can stand where a decoder can
        """
        return rf.State({key: rf.State() for key, _ in self.layers.items()})


class TransformerEncoderLayer(Residual):
    """
    Self-attention and feed-forward module, each as `x + dropout(part(norm(x)))`. Parameters: `self_att`, `ff`, each
    with a `..._layer_norm`.
    """

    def __init__(
        self,
        out_dim: Dim | int = DEFAULT_DIM,
        *,
        ff: Part = NotSpecified,
        dropout: float = 0.1,
        num_heads: int = 8,
        self_att: Part | None = None,
        att_dropout: float = 0.1,
        norm: Part = rf.LayerNorm,
    ) -> None:
        """
        :param out_dim: features, which come in and out
        :param ff: feed-forward module. Default: `FeedForward`
        :param dropout: probability to drop a feature of each part, in training
        :param num_heads: of the self-attention
        :param self_att: default: `rf.SelfAttention`
        :param att_dropout: probability to drop an attention weight, in training
        :param norm: normalization before each part
        """
        super().__init__(out_dim, dropout)
        out_dim = self.out_dim
        self.self_att = make_part(
            rf.SelfAttention if self_att is None else self_att,
            option="self_att",
            in_dim=out_dim,
            **attention_options(out_dim, num_heads, att_dropout),
        )
        self.self_att_layer_norm = make_norm(norm, out_dim)
        self.ff = make_feed_forward(
            FeedForward, out_dim=out_dim, ff=ff, ff_dim=NotSpecified, ff_activation=NotSpecified, dropout=dropout
        )
        self.ff_layer_norm = make_norm(norm, out_dim)

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> rf.State:
        """
        :param batch_dims: of the sequences
        :return: nothing: it sees whole sequences
        """
        return rf.State()

    def __call__(self, x: Tensor, *, spatial_dim: Dim) -> Tensor:
        """
        :param x: {..., spatial_dim, out_dim}
        :param spatial_dim: of the frames
        :return: {..., spatial_dim, out_dim}
        """
        x = x + self._dropped(self.self_att(self.self_att_layer_norm(x), axis=spatial_dim))
        return x + self._dropped(self.ff(self.ff_layer_norm(x)))


__all__ = ["TransformerEncoder", "TransformerEncoderLayer"]
