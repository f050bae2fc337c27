"""
Conformer (Gulati et al. 2020, Conformer: Convolution-augmented Transformer for Speech Recognition): self-attention for
the whole of a sequence, convolution for what is near.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import returnn.frontend as rf
from returnn.config.current import current_config
from returnn.frontend._feature_dims import feature_dim
from returnn.frontend._transformer.feed_forward import ConformerPositionwiseFeedForward, make_feed_forward
from returnn.frontend._transformer.parts import (
    OptionalDim,
    Part,
    Residual,
    attention_options,
    make_layers,
    make_norm,
    make_part,
)
from returnn.frontend._use_mask import masks_frames
from returnn.frontend.encoder._input import InputEncoder
from returnn.frontend.encoder.base import ISeqDownsamplingEncoder
from returnn.tensor import Dim, Tensor
from returnn.util.errors import ConfigError
from returnn.util.not_specified import NotSpecified

DEFAULT_DIM = Dim(512, name="conformer-enc-default-out-dim")


class ConformerConvBlock(rf.Module):
    """
    A convolution over frames between two linear maps (section 2.2 of the paper), without its first normalization,
    dropout and residual. Parameters: `positionwise_conv1`, `depthwise_conv`, `norm`, `positionwise_conv2`.
    """

    def __init__(self, out_dim: Dim | int, *, kernel_size: int, norm: Callable[..., Tensor]) -> None:
        """
        :param out_dim: features, which come in and out
        :param kernel_size: frames that the convolution sees
        :param norm: behind the convolution, such as batch norm in the paper
        """
        super().__init__()
        self.out_dim = out_dim = feature_dim(out_dim, "out_dim")
        self.positionwise_conv1 = rf.Linear(out_dim, 2 * out_dim)
        self.depthwise_conv = rf.Conv1d(
            out_dim, out_dim, filter_size=kernel_size, groups=out_dim.dimension, padding="same"
        )
        self.positionwise_conv2 = rf.Linear(out_dim, out_dim)
        self.norm = norm

    def __call__(self, inp: Tensor, *, spatial_dim: Dim) -> Tensor:
        """
        :param inp: {..., spatial_dim, out_dim}
        :param spatial_dim: of the frames
        :return: {..., spatial_dim, out_dim}
        """
        x, _ = rf.gating(self.positionwise_conv1(inp), out_dim=self.out_dim)
        x, _ = self.depthwise_conv(x, in_spatial_dim=spatial_dim, out_spatial_dim=spatial_dim)
        over_frames = {"spatial_dim": spatial_dim} if isinstance(self.norm, rf.GroupNormSpatial) else {}
        return self.positionwise_conv2(rf.swish(self.norm(x, **over_frames)))


class ConformerConvSubsample(ISeqDownsamplingEncoder):
    """
    Convolutions over frames and features, each with an activation and pooling, so that there are fewer frames.
    Parameters: `conv_layers`.
    """

    def __init__(
        self,
        in_dim: Dim | int,
        *,
        out_dims: Sequence[Dim | int],
        filter_sizes: Sequence[int | tuple[int, int]],
        strides: Sequence[int | tuple[int, int]] | None = None,
        pool_sizes: Sequence[tuple[int, int]] | None = None,
        activation: Callable[[Tensor], Tensor] | str | dict[str, Any] = rf.relu,
        padding: str = "same",
    ) -> None:
        """
        :param in_dim: features that come in, of fixed size
        :param out_dims: channels of each convolution
        :param filter_sizes: of each one, over (frames, features)
        :param strides: of each one, over (frames, features), or the same over both. Default: 1
        :param pool_sizes: behind each one, over (frames, features); behind the last ones, if there are fewer, is no
            pooling. Default: none at all
        :param activation: a function, its name in `rf`, or a dict for `rf.build_from_dict`
        :param padding: of convolutions and pooling: "same" or "valid"
        :raises ConfigError: if the lists are not of the same length
        """
        super().__init__()
        number = len(out_dims)
        pools = list(pool_sizes or ())
        pools += [(1, 1)] * (number - len(pools))
        for name, values in {"filter_sizes": filter_sizes, "strides": strides, "pool_sizes": pools}.items():
            if values is not None and len(values) != number:
                raise ConfigError(
                    f"ConformerConvSubsample: there are {number} out_dims, but {len(values)} {name}.\n"
                    "  Give one for each convolution."
                )
        self.in_dim = in_dim = feature_dim(in_dim, "in_dim")
        self.pool_sizes = pool_sizes
        self.activation = _activation(activation)
        self.padding = padding
        self._channel_dim = Dim(1, name="dummy-input-feature-dim")
        self._strides = [_over_both(stride) for stride in (strides or [1] * number)]
        self._pools = [_over_both(pool) for pool in pools]
        channels = [self._channel_dim, *(feature_dim(dim, f"out_dims[{i}]") for i, dim in enumerate(out_dims))]
        self.conv_layers: rf.ModuleList[rf.Conv2d] = rf.ModuleList(
            rf.Conv2d(channels[i], channels[i + 1], filter_size=filter_sizes[i], strides=stride, padding=padding)
            for i, stride in enumerate(self._strides)
        )
        self.downsample_factor = 1
        for stride, pool in zip(self._strides, self._pools, strict=True):
            self.downsample_factor *= stride[0] * pool[0]
        self._freq_dim = self._out_spatial_dim(in_dim, axis=1)
        self.out_dim = self._freq_dim * channels[-1] if number else in_dim

    def _out_spatial_dim(self, dim: Dim, *, axis: int) -> Dim:
        for conv, stride, pool in zip(self.conv_layers, self._strides, self._pools, strict=True):
            (dim,) = rf.make_conv_out_spatial_dims(
                [dim], filter_size=conv.filter_size[axis], strides=stride[axis], padding=self.padding
            )
            if pool != (1, 1):
                (dim,) = rf.make_conv_out_spatial_dims(
                    [dim], filter_size=pool[axis], strides=pool[axis], padding=self.padding
                )
        return dim

    def get_out_spatial_dim(self, in_spatial_dim: Dim) -> Dim:
        """
        :param in_spatial_dim: of the frames that come in
        :return: of those that come out
        """
        return self._out_spatial_dim(in_spatial_dim, axis=0)

    def __call__(self, source: Tensor, *, in_spatial_dim: Dim) -> tuple[Tensor, Dim]:
        """
        :param source: {..., in_spatial_dim, in_dim}
        :param in_spatial_dim: of the frames that come in
        :return: {..., out_spatial_dim, out_dim}; out_spatial_dim
        """
        if not len(self.conv_layers):
            return source, in_spatial_dim
        x = rf.expand_dim(source, dim=self._channel_dim).copy_with_roles(feature_dim=self._channel_dim)
        dims: Sequence[Dim] = [in_spatial_dim, self.in_dim]
        for conv, pool in zip(self.conv_layers, self._pools, strict=True):
            x, dims = conv(x, in_spatial_dims=dims)
            x = self.activation(x)
            if pool != (1, 1):
                x, dims = rf.pool2d(x, in_spatial_dims=dims, pool_size=pool, padding=self.padding, mode="max")
        out_spatial_dim, freq_dim = dims
        channel_dim = self.conv_layers[-1].out_dim
        out, _ = rf.merge_dims(x, dims=[freq_dim, channel_dim], out_dim=self.out_dim)
        return out.copy_with_roles(feature_dim=self.out_dim), out_spatial_dim


class ConformerEncoderLayer(Residual):
    """
    One block: half a feed-forward module, self-attention, convolution, the other half, normalization (section 2.4 of
    the paper). Parameters: `ffn1`, `self_att`, `conv_block`, `ffn2`, each with a `..._layer_norm`, and
    `final_layer_norm`.
    """

    def __init__(
        self,
        out_dim: Dim | int = DEFAULT_DIM,
        *,
        ff: Part = NotSpecified,
        ff_dim: OptionalDim = NotSpecified,
        ff_activation: Any = NotSpecified,
        dropout: float = 0.1,
        conv_kernel_size: int = 32,
        conv_norm: Part = NotSpecified,
        conv_norm_opts: dict[str, Any] | None = None,
        num_heads: int = 4,
        self_att: Part | None = None,
        self_att_opts: dict[str, Any] | None = None,
        att_dropout: float = 0.1,
        norm: Part = rf.LayerNorm,
    ) -> None:
        """
        :param out_dim: features, which come in and out
        :param ff: feed-forward modules. Default: `ConformerPositionwiseFeedForward`
        :param ff_dim: their option. Default: 4 * out_dim
        :param ff_activation: their option. Default: swish
        :param dropout: probability to drop a feature of each part, in training
        :param conv_kernel_size: frames that the convolution sees
        :param conv_norm: normalization in the convolution block. Default: `rf.BatchNorm`
        :param conv_norm_opts: its options
        :param num_heads: of the self-attention
        :param self_att: default: `rf.RelPosSelfAttention`
        :param self_att_opts: its options
        :param att_dropout: probability to drop an attention weight, in training
        :param norm: normalization before each part, and at the end
        """
        super().__init__(out_dim, dropout)
        out_dim = self.out_dim
        ff_options = {"out_dim": out_dim, "ff": ff, "ff_dim": ff_dim, "ff_activation": ff_activation}
        self.ffn1 = make_ff(**ff_options, dropout=dropout)
        self.ffn1_layer_norm = make_norm(norm, out_dim)
        self.ffn2 = make_ff(**ff_options, dropout=dropout)
        self.ffn2_layer_norm = make_norm(norm, out_dim)
        self.conv_block = ConformerConvBlock(
            out_dim, kernel_size=conv_kernel_size, norm=_conv_norm(conv_norm, conv_norm_opts or {}, out_dim)
        )
        self.conv_layer_norm = make_norm(norm, out_dim)
        self.self_att = make_part(
            rf.RelPosSelfAttention if self_att is None else self_att,
            option="self_att",
            in_dim=out_dim,
            **{**attention_options(out_dim, num_heads, att_dropout), **(self_att_opts or {})},
        )
        self.self_att_layer_norm = make_norm(norm, out_dim)
        self.final_layer_norm = make_norm(norm, out_dim)

    def __call__(self, inp: Tensor, *, spatial_dim: Dim) -> Tensor:
        """
        :param inp: {..., spatial_dim, out_dim}
        :param spatial_dim: of the frames
        :return: {..., spatial_dim, out_dim}
        """
        x = inp + 0.5 * self._dropped(self.ffn1(self.ffn1_layer_norm(inp)))
        x = x + self._dropped(self.self_att(self.self_att_layer_norm(x), axis=spatial_dim))
        x = x + self._dropped(self.conv_block(self.conv_layer_norm(x), spatial_dim=spatial_dim))
        x = x + 0.5 * self._dropped(self.ffn2(self.ffn2_layer_norm(x)))
        return self.final_layer_norm(x)


class ConformerEncoder(InputEncoder):
    """
    Convolutions which make fewer frames, a linear map, and a row of blocks. Parameters: `input_layer`,
    `input_projection`, `layers`.
    """

    def __init__(
        self,
        in_dim: Dim | int,
        out_dim: Dim | int = DEFAULT_DIM,
        *,
        num_layers: int,
        input_layer: ISeqDownsamplingEncoder | rf.Module | dict[str, Any] | None,
        input_embedding_scale: float | None = None,
        pos_enc: Callable[..., Tensor] | dict[str, Any] | None = None,
        input_dropout: float = 0.1,
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
        :param in_dim: features that come in
        :param out_dim: features of the blocks, which come out
        :param num_layers: number of blocks
        :param input_layer: gets the input first, such as `ConformerConvSubsample`; a dict gets `in_dim`
        :param input_embedding_scale: factor of what the blocks get. Default: 1, or sqrt(out_dim) with `pos_enc`
        :param pos_enc: absolute positions, such as `rf.sinusoidal_positional_encoding`, which are added. Default: none,
            as the self-attention has relative ones
        :param input_dropout: probability to drop a feature of what the blocks get, in training
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
        out_dim = feature_dim(out_dim, "out_dim")
        default_scale = 1.0 if pos_enc is None else out_dim.dimension**0.5
        super().__init__(
            in_dim,
            out_dim,
            input_layer=input_layer,
            input_embedding_scale=default_scale if input_embedding_scale is None else input_embedding_scale,
            input_dropout=input_dropout,
            pos_enc=pos_enc,
        )
        self.dropout = dropout
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

    def __call__(
        self, source: Tensor, *, in_spatial_dim: Dim, collected_outputs: dict[str, Tensor] | None = None
    ) -> tuple[Tensor, Dim]:
        """
        :param source: {..., in_spatial_dim, in_dim}
        :param in_spatial_dim: of the frames that come in
        :param collected_outputs: gets the outputs of all blocks, by their names
        :return: {..., out_spatial_dim, out_dim}; out_spatial_dim
        """
        x, out_spatial_dim = self._embed(source, in_spatial_dim)
        return self.layers(x, spatial_dim=out_spatial_dim, collected_outputs=collected_outputs), out_spatial_dim


def make_ff(
    *, out_dim: Dim, ff: Part, ff_dim: OptionalDim, ff_activation: Any, dropout: float
) -> Callable[[Tensor], Tensor]:
    """
    :param out_dim: features, which come in and out
    :param ff: class, dict or module. Default: `ConformerPositionwiseFeedForward`
    :param ff_dim: its option, if specified
    :param ff_activation: its option `activation`, if specified
    :param dropout: its option
    :return: feed-forward module of a Conformer
    """
    return make_feed_forward(
        ConformerPositionwiseFeedForward,
        out_dim=out_dim,
        ff=ff,
        ff_dim=ff_dim,
        ff_activation=ff_activation,
        dropout=dropout,
    )


def conv_norm_use_mask_default() -> bool:
    """
    :return: whether the batch norm of a convolution block leaves out frames beyond the end of their sequence, if
        nothing else is said: the option `rf_conformer_conv_norm_use_mask` of the config, or else as other operations
    """
    config = current_config()
    value = None if config is None else config.options.rf_conformer_conv_norm_use_mask
    return masks_frames("BatchNorm") if value is None else value


def _conv_norm(conv_norm: Part, options: dict[str, Any], out_dim: Dim) -> Any:
    if conv_norm is NotSpecified or conv_norm is rf.BatchNorm:
        return rf.BatchNorm(out_dim, **{"use_mask": conv_norm_use_mask_default(), **options})
    if isinstance(conv_norm, type) or (callable(conv_norm) and options):
        return make_part(conv_norm, out_dim, option="conv_norm", **options)
    if isinstance(conv_norm, dict):
        return make_part(conv_norm, out_dim, option="conv_norm", **options)
    return make_norm(conv_norm, out_dim)


def _over_both(size: int | Sequence[int]) -> tuple[int, int]:
    """:return: over frames and features"""
    frames, features = (size, size) if isinstance(size, int) else size
    return frames, features


def _activation(activation: Any) -> Callable[[Tensor], Tensor]:
    if isinstance(activation, str):
        activation = {"class": activation if "." in activation else f"rf.{activation}"}
    return rf.build_from_dict(activation) if isinstance(activation, dict) else activation


__all__ = [
    "ConformerConvBlock",
    "ConformerConvSubsample",
    "ConformerEncoder",
    "ConformerEncoderLayer",
    "ConformerPositionwiseFeedForward",
    "conv_norm_use_mask_default",
    "make_ff",
]
