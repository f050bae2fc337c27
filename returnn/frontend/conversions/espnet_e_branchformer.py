"""E-Branchformer of ESPnet (`espnet2.asr.encoder.e_branchformer_encoder.EBranchformerEncoderLayer`)."""

from __future__ import annotations

from typing import Any

import numpy

import returnn.frontend as rf
from returnn.frontend.conversions._assign import as_array, assign, require
from returnn.frontend.conversions.torch_nn import (
    import_params_torch_conv1d_to_rf,
    import_params_torch_layer_norm_to_rf,
    import_params_torch_linear_to_rf,
)
from returnn.frontend.decoder.transformer import FeedForward
from returnn.frontend.encoder.e_branchformer import EBranchformerLayer, FeedForwardConvGated


def import_params_espnet_e_branchformer_layer_to_rf(model_espnet: Any, model_rf: EBranchformerLayer) -> None:
    """
    :param model_espnet: `EBranchformerEncoderLayer`
    :param model_rf: gets its parameters
    """
    for norm_espnet, norm_rf in (
        (model_espnet.norm_ff_macaron, model_rf.ffn1_layer_norm),
        (model_espnet.norm_mha, model_rf.self_att_layer_norm),
        (model_espnet.norm_mlp, model_rf.cgmlp_layer_norm),
        (model_espnet.norm_ff, model_rf.ffn2_layer_norm),
        (model_espnet.norm_final, model_rf.final_layer_norm),
    ):
        import_params_torch_layer_norm_to_rf(norm_espnet, norm_rf)
    import_params_espnet_positionwise_feed_forward_to_rf(model_espnet.feed_forward_macaron, model_rf.ffn1)
    import_params_espnet_multi_headed_attention_to_rf(model_espnet.attn, model_rf.self_att)
    import_params_espnet_convolutional_gating_mlp_to_rf(model_espnet.cgmlp, model_rf.cgmlp)
    import_params_torch_conv1d_to_rf(model_espnet.depthwise_conv_fusion, model_rf.merge.depthwise_conv_fusion)
    import_params_torch_linear_to_rf(model_espnet.merge_proj, model_rf.merge.merge_proj)
    import_params_espnet_positionwise_feed_forward_to_rf(model_espnet.feed_forward, model_rf.ffn2)


def import_params_espnet_positionwise_feed_forward_to_rf(model_espnet: Any, model_rf: FeedForward) -> None:
    """
    :param model_espnet: `PositionwiseFeedForward`: `w_2(dropout(activation(w_1(x))))`
    :param model_rf: gets its parameters
    """
    import_params_torch_linear_to_rf(model_espnet.w_1, model_rf.linear_ff)
    import_params_torch_linear_to_rf(model_espnet.w_2, model_rf.linear_out)


def import_params_espnet_convolutional_gating_mlp_to_rf(model_espnet: Any, model_rf: FeedForwardConvGated) -> None:
    """
    :param model_espnet: `ConvolutionalGatingMLP`
    :param model_rf: gets its parameters
    """
    gate = model_espnet.csgu
    require(
        getattr(gate, "linear", None) is None,
        "the gate of the ESPnet module has a linear map behind its convolution (use_linear_after_conv), here it has "
        "none.",
    )
    import_params_torch_linear_to_rf(model_espnet.channel_proj1[0], model_rf.linear_ff)
    import_params_torch_layer_norm_to_rf(gate.norm, model_rf.norm)
    import_params_torch_conv1d_to_rf(gate.conv, model_rf.conv)
    import_params_torch_linear_to_rf(model_espnet.channel_proj2, model_rf.linear_out)


def import_params_espnet_multi_headed_attention_to_rf(
    model_espnet: Any, model_rf: rf.SelfAttention | rf.RelPosSelfAttention
) -> None:
    """
    :param model_espnet: `MultiHeadedAttention` or `RelPositionMultiHeadedAttention`
    :param model_rf: gets its parameters; with relative positions `rf.RelPosSelfAttention`
    """
    heads = model_rf.num_heads.dimension
    linears = [model_espnet.linear_q, model_espnet.linear_k, model_espnet.linear_v]
    weights = [as_array(linear.weight).reshape(heads, -1, linear.weight.shape[1]) for linear in linears]
    in_dim, qkv_dim = model_rf.qkv.weight.dims
    weight = numpy.concatenate(weights, axis=1).reshape(-1, weights[0].shape[-1])
    assign(model_rf.qkv.weight, weight, [qkv_dim, in_dim], what="the weights of linear_q, linear_k, linear_v")
    require(model_rf.qkv.bias is not None, "the attention of ESPnet has a bias.\n  Make it with with_bias=True.")
    bias = numpy.concatenate([as_array(linear.bias).reshape(heads, -1) for linear in linears], axis=1)
    assert model_rf.qkv.bias is not None
    assign(model_rf.qkv.bias, bias.reshape(-1), [qkv_dim], what="the biases of linear_q, linear_k, linear_v")
    import_params_torch_linear_to_rf(model_espnet.linear_out, model_rf.proj)
    is_relative = hasattr(model_espnet, "linear_pos")
    require(
        is_relative == isinstance(model_rf, rf.RelPosSelfAttention),
        f"the attention of ESPnet has {'relative' if is_relative else 'no relative'} positions, which does not fit to "
        f"{model_rf}.",
    )
    if isinstance(model_rf, rf.RelPosSelfAttention):
        import_params_torch_linear_to_rf(model_espnet.linear_pos, model_rf.linear_pos)
        for name in ("pos_bias_u", "pos_bias_v"):
            parameter = getattr(model_rf, name)
            assign(parameter, getattr(model_espnet, name), parameter.dims, what=name)


__all__ = [
    "import_params_espnet_convolutional_gating_mlp_to_rf",
    "import_params_espnet_e_branchformer_layer_to_rf",
    "import_params_espnet_multi_headed_attention_to_rf",
    "import_params_espnet_positionwise_feed_forward_to_rf",
]
