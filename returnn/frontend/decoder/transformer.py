"""
Decoder of a Transformer (Vaswani et al. 2017), for sequences or step by step; without an encoder, a language model.

A Llama-style decoder:

    TransformerDecoder(
        encoder_dim=None, vocab_dim=vocab_dim, model_dim=512, num_layers=6, pos_enc=None, norm=rf.RMSNorm,
        ff=FeedForwardGated,
        layer_opts=dict(self_att=rf.build_dict(rf.RotaryPosCausalSelfAttention, with_bias=False)),
    )
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import returnn.frontend as rf
from returnn.frontend._feature_dims import feature_dim
from returnn.frontend._transformer.embedded import DEFAULT_DIM, Embedded, take_renamed
from returnn.frontend._transformer.feed_forward import FeedForward, FeedForwardGated, make_feed_forward
from returnn.frontend._transformer.parts import (
    OptionalDim,
    Part,
    Residual,
    attention_options,
    make_layers,
    make_norm,
    make_part,
)
from returnn.tensor import Dim, Tensor, single_step_dim
from returnn.util.errors import ConfigError
from returnn.util.not_specified import NotSpecified


class TransformerDecoder(Embedded):
    """
    Labels in, scores of the next labels out. Parameters: `input_embedding`, `input_embedding_proj`, `layers`,
    `final_layer_norm`, `logits`.
    """

    def __init__(
        self,
        encoder_dim: Dim | int | None,
        vocab_dim: Dim | int,
        model_dim: Dim | int = DEFAULT_DIM,
        *,
        num_layers: int,
        ff: Part = NotSpecified,
        ff_dim: OptionalDim = NotSpecified,
        ff_activation: Any = NotSpecified,
        pos_enc: Callable[..., Tensor] | rf.Module | dict[str, Any] | None = rf.sinusoidal_positional_encoding,
        dropout: float = 0.1,
        num_heads: int = 8,
        att_dropout: float = 0.1,
        norm: Part = rf.LayerNorm,
        layer: Part | None = None,
        layer_opts: dict[str, Any] | None = None,
        embed_dim: Dim | int | None = None,
        share_embedding: bool | None = None,
        input_embedding: Part | bool | None = True,
        input_embedding_scale: float | None = None,
        input_dropout: float | None = None,
        logits_with_bias: bool = False,
        sequential: Callable[..., Any] = rf.Sequential,
        **compat_kwargs: Any,
    ) -> None:
        """
        :param encoder_dim: features of the encoder; None: there is no encoder, and no attention to it
        :param vocab_dim: labels
        :param model_dim: features of the layers
        :param num_layers: number of layers
        :param ff: see `TransformerDecoderLayer`; likewise `ff_dim`, `ff_activation`, `num_heads`, `att_dropout`
        :param ff_dim: of the feed-forward modules
        :param ff_activation: of the feed-forward modules
        :param pos_enc: positions, added to the vectors of the labels; called with `spatial_dim`, `feat_dim` and
            `offset`. None: none, where the self-attention has them
        :param dropout: probability to drop a feature of a part, in training
        :param num_heads: of attentions
        :param att_dropout: of attentions
        :param norm: normalization before each part, and at the end
        :param layer: class, dict or module. Default: `TransformerDecoderLayer`
        :param layer_opts: further options of it
        :param embed_dim: features of a label, if they are not `model_dim`
        :param share_embedding: whether the labels have the same vectors for the input and the output (Press and Wolf
            2017). Default: no
        :param input_embedding: class, dict or module; False: features come in
        :param input_embedding_scale: factor of the vectors. Default: sqrt(model_dim)
        :param input_dropout: probability to drop a feature of the vectors. Default: `dropout`
        :param logits_with_bias: whether the output has one
        :param sequential: what puts the layers in a row
        :param compat_kwargs: `decoder_layer`, `decoder_layer_opts`: earlier names of `layer` and `layer_opts`
        """
        renamed = take_renamed(
            TransformerDecoder, compat_kwargs, {"decoder_layer": "layer", "decoder_layer_opts": "layer_opts"}
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
        vocab_dim, model_dim, embed_dim = self.vocab_dim, self.model_dim, self.embed_dim
        self.encoder_dim = encoder_dim = None if encoder_dim is None else feature_dim(encoder_dim, "encoder_dim")
        self.layers = make_layers(
            layer,
            layer_opts,
            num_layers,
            default=TransformerDecoderLayer,
            sequential=sequential,
            encoder_dim=encoder_dim,
            out_dim=model_dim,
            dropout=dropout,
            num_heads=num_heads,
            att_dropout=att_dropout,
            norm=norm,
            ff=ff,
            ff_dim=ff_dim,
            ff_activation=ff_activation,
        )
        self.final_layer_norm = make_norm(norm, model_dim)
        self.logits = rf.Linear(model_dim, vocab_dim, with_bias=logits_with_bias)
        if share_embedding:
            if self.input_embedding is None or embed_dim not in (None, model_dim):
                raise ConfigError(
                    "TransformerDecoder: share_embedding needs an input_embedding with the features of the output, "
                    f"{model_dim}; embed_dim is {embed_dim}."
                )
            self.logits.weight = self.input_embedding.weight

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> rf.State:
        """
        :param batch_dims: of the sequences
        :return: state before the first label: `pos`, and one of each layer by its name
        """
        layers = {key: layer.default_initial_state(batch_dims=batch_dims) for key, layer in self.layers.items()}
        return rf.State(layers, pos=rf.zeros((), dtype="int32", device="cpu"))

    def transform_encoder(self, encoder: Tensor, *, axis: Dim) -> rf.State:
        """
        :param encoder: {..., axis, encoder_dim}
        :param axis: frames of the encoder
        :return: what the layers need of it, by their names; computed once for all steps
        """
        return rf.State({key: layer.transform_encoder(encoder, axis=axis) for key, layer in self.layers.items()})

    def __call__(
        self,
        source: Tensor,
        *,
        spatial_dim: Dim,
        state: rf.State,
        encoder: rf.State | None = None,
        collected_outputs: dict[str, Tensor] | None = None,
        output_only_last_frame: bool = False,
    ) -> tuple[Tensor, rf.State]:
        """
        :param source: {..., spatial_dim}, labels of `vocab_dim`
        :param spatial_dim: of the labels; or `single_step_dim`
        :param state: before these labels, see `default_initial_state`
        :param encoder: what `transform_encoder` returned
        :param collected_outputs: gets the outputs of all layers, by their names
        :param output_only_last_frame: scores only of the label behind all of these, {..., vocab_dim}
        :return: {..., spatial_dim, vocab_dim}, scores before softmax of the label behind each one; state
        """
        if self.encoder_dim is not None and encoder is None:
            raise ConfigError(
                "TransformerDecoder: it attends to an encoder, which is not given.\n"
                "  Call it with encoder=decoder.transform_encoder(...), or make it with encoder_dim=None."
            )
        x = self._embed(source, spatial_dim, offset=state.pos)
        new_state = rf.State()
        for name, layer in self.layers.items():
            x, new_state[name] = layer(
                x, spatial_dim=spatial_dim, state=state[name], encoder=None if encoder is None else encoder[name]
            )
            if collected_outputs is not None:
                collected_outputs[name] = x
        number = 1 if spatial_dim == single_step_dim else spatial_dim.get_size_tensor_or_int()
        new_state.pos = rf.combine_bc(state.pos, "+", number)
        if output_only_last_frame and spatial_dim != single_step_dim:
            x = rf.gather(x, indices=rf.last_frame_position_of_dim(spatial_dim), axis=spatial_dim)
        return self.logits(self.final_layer_norm(x)), new_state


class TransformerDecoderLayer(Residual):
    """
    Self-attention to the labels so far, attention to the encoder, feed-forward module, each as
    `x + dropout(part(norm(x)))` (normalization first, see Xiong et al. 2020). Parameters: `self_att`, `cross_att`,
    `ff`, each with a `..._layer_norm`.
    """

    def __init__(
        self,
        encoder_dim: Dim | int | None,
        out_dim: Dim | int = DEFAULT_DIM,
        *,
        ff: Part = NotSpecified,
        ff_dim: OptionalDim = NotSpecified,
        ff_activation: Any = NotSpecified,
        dropout: float = 0.1,
        num_heads: int = 8,
        self_att: Part | None = None,
        self_att_opts: dict[str, Any] | None = None,
        att_dropout: float = 0.1,
        cross_att: Part | None = None,
        norm: Part = rf.LayerNorm,
    ) -> None:
        """
        :param encoder_dim: features of the encoder; None: no attention to one
        :param out_dim: features, which come in and out
        :param ff: feed-forward module. Default: `FeedForward`
        :param ff_dim: its option. Default: 4 * out_dim
        :param ff_activation: its option. Default: relu
        :param dropout: probability to drop a feature of each part, in training
        :param num_heads: of both attentions
        :param self_att: default: `rf.CausalSelfAttention`
        :param self_att_opts: its options
        :param att_dropout: probability to drop an attention weight, in training
        :param cross_att: attention to the encoder. Default: `rf.CrossAttention`
        :param norm: normalization before each part
        """
        super().__init__(out_dim, dropout)
        out_dim = self.out_dim
        self.encoder_dim = encoder_dim = None if encoder_dim is None else feature_dim(encoder_dim, "encoder_dim")
        options = attention_options(out_dim, num_heads, att_dropout)
        self.self_att = make_part(
            rf.CausalSelfAttention if self_att is None else self_att,
            option="self_att",
            in_dim=out_dim,
            **{**options, **(self_att_opts or {})},
        )
        self.self_att_layer_norm = make_norm(norm, out_dim)
        self.ff = make_feed_forward(
            FeedForward, out_dim=out_dim, ff=ff, ff_dim=ff_dim, ff_activation=ff_activation, dropout=dropout
        )
        self.ff_layer_norm = make_norm(norm, out_dim)
        self.cross_att = None
        self.cross_att_layer_norm = None
        if encoder_dim is not None:
            self.cross_att = make_part(
                rf.CrossAttention if cross_att is None else cross_att,
                option="cross_att",
                encoder_dim=encoder_dim,
                query_in_dim=out_dim,
                **options,
            )
            self.cross_att_layer_norm = make_norm(norm, out_dim)

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> rf.State:
        """
        :param batch_dims: of the sequences
        :return: `self_att`: no label yet
        """
        return rf.State(self_att=self.self_att.default_initial_state(batch_dims=batch_dims))

    def transform_encoder(self, encoder: Tensor, *, axis: Dim) -> rf.State:
        """
        :param encoder: {..., axis, encoder_dim}
        :param axis: frames of the encoder
        :return: `cross_att`: keys and values
        """
        if self.cross_att is None:
            raise ConfigError("TransformerDecoderLayer: without encoder_dim, it attends to no encoder.")
        return rf.State(cross_att=self.cross_att.transform_encoder(encoder, axis=axis))

    def __call__(
        self, x: Tensor, *, spatial_dim: Dim, state: rf.State, encoder: rf.State | None = None
    ) -> tuple[Tensor, rf.State]:
        """
        :param x: {..., spatial_dim, out_dim}
        :param spatial_dim: of the labels; or `single_step_dim`
        :param state: before these labels
        :param encoder: what `transform_encoder` returned
        :return: {..., spatial_dim, out_dim}; state
        """
        seen, self_att_state = self.self_att(self.self_att_layer_norm(x), axis=spatial_dim, state=state.self_att)
        x = x + self._dropped(seen)
        if self.cross_att is not None:
            assert encoder is not None
            x = x + self._dropped(self.cross_att(self.cross_att_layer_norm(x), encoder.cross_att))
        x = x + self._dropped(self.ff(self.ff_layer_norm(x)))
        return x, rf.State(self_att=self_att_state)


__all__ = [
    "FeedForward",
    "FeedForwardGated",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "make_norm",
]
