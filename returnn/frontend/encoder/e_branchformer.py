"""
E-Branchformer (Kim et al. 2022, E-Branchformer: Branchformer with Enhanced Merging for Speech Recognition): attention
and convolution side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import returnn.frontend as rf
from returnn.frontend._feature_dims import feature_dim
from returnn.frontend._transformer.feed_forward import FeedForward, make_feed_forward
from returnn.frontend._transformer.parts import (
    OptionalDim,
    Part,
    Residual,
    as_dim,
    attention_options,
    drop,
    make_norm,
    make_part,
)
from returnn.frontend.encoder.conformer import DEFAULT_DIM
from returnn.tensor import Dim, Tensor
from returnn.util.errors import ConfigError
from returnn.util.not_specified import NotSpecified


class EBranchformerLayer(Residual):
    """
    One block: half a feed-forward module, self-attention beside a convolution with gates, merged, the other half,
    normalization. Parameters: `ffn1`, `self_att`, `cgmlp`, `ffn2`, each with a `..._layer_norm`, `merge` and
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
        num_heads: int = 4,
        self_att: Part = NotSpecified,
        att_dropout: float = 0.1,
        cgmlp: Part = NotSpecified,
        cgmlp_ff_dim: OptionalDim = NotSpecified,
        cgmlp_conv_kernel: int = 31,
        merge_conv_kernel: int = 3,
        norm: Part = rf.LayerNorm,
    ) -> None:
        """
        :param out_dim: features, which come in and out
        :param ff: feed-forward modules. Default: `FeedForward`
        :param ff_dim: their option. Default: 4 * out_dim
        :param ff_activation: their option. Default: swish
        :param dropout: probability to drop a feature of each part, in training
        :param num_heads: of the self-attention
        :param self_att: default: `rf.RelPosSelfAttention`
        :param att_dropout: probability to drop an attention weight, in training
        :param cgmlp: convolution with gates. Default: `FeedForwardConvGated`
        :param cgmlp_ff_dim: its option `ff_dim`
        :param cgmlp_conv_kernel: frames that its convolution sees
        :param merge_conv_kernel: frames that the convolution of the merge sees
        :param norm: normalization before each part, and at the end
        """
        super().__init__(out_dim, dropout)
        out_dim = self.out_dim
        ff_options: dict[str, Any] = {
            "out_dim": out_dim,
            "ff": ff,
            "ff_dim": ff_dim,
            "ff_activation": rf.silu if ff is NotSpecified and ff_activation is NotSpecified else ff_activation,
            "dropout": dropout,
        }
        self.ffn1 = make_feed_forward(FeedForward, **ff_options)
        self.ffn1_layer_norm = make_norm(norm, out_dim)
        self.ffn2 = make_feed_forward(FeedForward, **ff_options)
        self.ffn2_layer_norm = make_norm(norm, out_dim)
        self.self_att = make_part(
            rf.RelPosSelfAttention if self_att is NotSpecified else self_att,
            option="self_att",
            in_dim=out_dim,
            **attention_options(out_dim, num_heads, att_dropout),
        )
        self.self_att_layer_norm = make_norm(norm, out_dim)
        cgmlp_options: dict[str, Any] = {} if cgmlp_ff_dim is NotSpecified else {"ff_dim": cgmlp_ff_dim}
        self.cgmlp = make_part(
            FeedForwardConvGated if cgmlp is NotSpecified else cgmlp,
            option="cgmlp",
            out_dim=out_dim,
            kernel_size=cgmlp_conv_kernel,
            dropout=dropout,
            **cgmlp_options,
        )
        self.cgmlp_layer_norm = make_norm(norm, out_dim)
        self.merge = Merge(in_dim1=out_dim, in_dim2=out_dim, out_dim=out_dim, merge_conv_kernel=merge_conv_kernel)
        self.final_layer_norm = make_norm(norm, out_dim)

    def __call__(self, inp: Tensor, *, spatial_dim: Dim) -> Tensor:
        """
        :param inp: {..., spatial_dim, out_dim}
        :param spatial_dim: of the frames
        :return: {..., spatial_dim, out_dim}
        """
        x = inp + 0.5 * self._dropped(self.ffn1(self.ffn1_layer_norm(inp)))
        global_branch = self._dropped(self.self_att(self.self_att_layer_norm(x), axis=spatial_dim))
        local_branch = self._dropped(self.cgmlp(self.cgmlp_layer_norm(x), spatial_dim=spatial_dim))
        x = x + self._dropped(self.merge(global_branch, local_branch, spatial_dim=spatial_dim))
        x = x + 0.5 * self._dropped(self.ffn2(self.ffn2_layer_norm(x)))
        return self.final_layer_norm(x)


class FeedForwardConvGated(rf.Module):
    """
    Feed-forward module whose gate sees the frames around (convolutional gating MLP, Sakuma et al. 2021):
    `linear_out(a * gate_activation(conv(norm(b))))`, with the halves a, b of `activation(linear_ff(x))`. Parameters:
    `linear_ff`, `norm`, `conv`, `linear_out`.
    """

    def __init__(
        self,
        out_dim: Dim | int,
        *,
        ff_dim: OptionalDim = NotSpecified,
        kernel_size: int = 31,
        dropout: float = 0.1,
        activation: Callable[[Tensor], Tensor] | dict[str, Any] = rf.gelu,
        gate_activation: Callable[[Tensor], Tensor] | dict[str, Any] = rf.identity,
        with_bias: bool = True,
        norm: Part = rf.LayerNorm,
    ) -> None:
        """
        :param out_dim: features, which come in and out
        :param ff_dim: features between the linear maps, of both halves together. Default: 6 * out_dim, as in the paper
        :param kernel_size: frames that the convolution sees
        :param dropout: probability to drop a feature behind the gate, in training
        :param activation: behind the first linear map
        :param gate_activation: of the gate
        :param with_bias: whether the linear maps and the convolution have one
        :param norm: normalization of the half that becomes the gate
        """
        super().__init__()
        self.out_dim = out_dim = feature_dim(out_dim, "out_dim")
        self.ff_dim = as_dim(ff_dim, default=6 * out_dim)
        if self.ff_dim.size is None or self.ff_dim.size % 2:
            raise ConfigError(f"FeedForwardConvGated: ff_dim {self.ff_dim} should be of a fixed even size.")
        self._half_dim = self.ff_dim.div_left(2)
        self.dropout = dropout
        self.dropout_broadcast = rf.dropout_broadcast_default()
        self.activation = rf.build_from_dict(activation) if isinstance(activation, dict) else activation
        self.gate_activation = (
            rf.build_from_dict(gate_activation) if isinstance(gate_activation, dict) else gate_activation
        )
        self.linear_ff = rf.Linear(out_dim, self.ff_dim, with_bias=with_bias)
        self.norm = make_norm(norm, self._half_dim)
        self.conv = rf.Conv1d(
            self._half_dim,
            self._half_dim,
            filter_size=kernel_size,
            groups=self._half_dim.dimension,
            padding="same",
            with_bias=with_bias,
        )
        self.linear_out = rf.Linear(self._half_dim, out_dim, with_bias=with_bias)

    def __call__(self, x: Tensor, *, spatial_dim: Dim) -> Tensor:
        """
        :param x: {..., spatial_dim, out_dim}
        :param spatial_dim: of the frames
        :return: {..., spatial_dim, out_dim}
        """
        x = self.activation(self.linear_ff(x))
        value, gate = rf.split(x, axis=self.ff_dim, out_dims=[self._half_dim, self._half_dim])
        gate, _ = self.conv(self.norm(gate), in_spatial_dim=spatial_dim, out_spatial_dim=spatial_dim)
        x = value * self.gate_activation(gate)
        return self.linear_out(drop(x, self.dropout, self.dropout_broadcast, self._half_dim))


class Merge(rf.Module):
    """
    Two branches become one: `merge_proj(x + depthwise_conv_fusion(x))` of both side by side. Parameters:
    `depthwise_conv_fusion`, `merge_proj`.
    """

    def __init__(
        self, *, in_dim1: Dim | int, in_dim2: Dim | int, out_dim: Dim | int, merge_conv_kernel: int = 3
    ) -> None:
        """
        :param in_dim1: features of the first branch
        :param in_dim2: features of the second branch
        :param out_dim: features that come out
        :param merge_conv_kernel: frames that the convolution sees
        """
        super().__init__()
        self.in_dim1 = in_dim1 = feature_dim(in_dim1, "in_dim1")
        self.in_dim2 = in_dim2 = feature_dim(in_dim2, "in_dim2")
        self.out_dim = out_dim = feature_dim(out_dim, "out_dim")
        self.concat_in_dim = in_dim1 + in_dim2
        self.depthwise_conv_fusion = rf.Conv1d(
            self.concat_in_dim,
            self.concat_in_dim,
            filter_size=merge_conv_kernel,
            groups=self.concat_in_dim.dimension,
            padding="same",
        )
        self.merge_proj = rf.Linear(self.concat_in_dim, out_dim)

    def __call__(self, x1: Tensor, x2: Tensor, *, spatial_dim: Dim) -> Tensor:
        """
        :param x1: {..., spatial_dim, in_dim1}
        :param x2: {..., spatial_dim, in_dim2}
        :param spatial_dim: of the frames
        :return: {..., spatial_dim, out_dim}
        """
        x, _ = rf.concat((x1, self.in_dim1), (x2, self.in_dim2), out_dim=self.concat_in_dim)
        x = x.copy_with_roles(feature_dim=self.concat_in_dim)
        near, _ = self.depthwise_conv_fusion(x, in_spatial_dim=spatial_dim, out_spatial_dim=spatial_dim)
        return self.merge_proj(x + near)


__all__ = ["EBranchformerLayer", "FeedForwardConvGated", "Merge"]
