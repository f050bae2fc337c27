"""
Llama of Hugging Face `transformers` (`LlamaForCausalLM`), into a `TransformerDecoder` as its module shows it.

Several query heads may share keys and values there (grouped queries); here they are repeated, which computes the same.
"""

from __future__ import annotations

from typing import Any

import numpy

import returnn.frontend as rf
from returnn.frontend.conversions._assign import as_array, assign, require
from returnn.frontend.conversions.torch_nn import import_params_torch_linear_to_rf
from returnn.frontend.decoder.transformer import FeedForwardGated, TransformerDecoder, TransformerDecoderLayer

ROPE_BASE = 1e4  # of `rf.sinusoidal_encoding`


def import_params_hf_llama_to_rf_transformer_decoder(model_hf: Any, model_rf: TransformerDecoder) -> None:
    """
    :param model_hf: `transformers.LlamaForCausalLM`
    :param model_rf: gets its parameters
    :raises UserError: if the models do not fit together
    """
    body = model_hf.model
    require(
        len(body.layers) == len(model_rf.layers),
        f"the Llama model has {len(body.layers)} layers, the decoder {len(model_rf.layers)}.",
    )
    require(
        model_rf.input_embedding_scale == 1 and model_rf.pos_enc is None,
        "Llama adds no positions to its vectors, nor scales them.\n"
        "  Make the decoder with pos_enc=None and input_embedding_scale=1.0.",
    )
    embedding = model_rf.input_embedding.weight
    assign(embedding, body.embed_tokens.weight, embedding.dims, what="the embedding")
    for layer_hf, layer_rf in zip(body.layers, model_rf.layers, strict=True):
        import_params_hf_llama_decoder_layer_to_rf(layer_hf, layer_rf)
    import_params_hf_llama_rms_norm_to_rf(body.norm, model_rf.final_layer_norm)
    if model_rf.logits.weight is not embedding:
        import_params_torch_linear_to_rf(model_hf.lm_head, model_rf.logits)
    else:
        require(model_hf.lm_head.weight is body.embed_tokens.weight, "the Llama model has an output of its own.")


def import_params_hf_llama_decoder_layer_to_rf(model_hf: Any, model_rf: TransformerDecoderLayer) -> None:
    """
    :param model_hf: `LlamaDecoderLayer`
    :param model_rf: gets its parameters
    """
    import_params_hf_llama_rms_norm_to_rf(model_hf.input_layernorm, model_rf.self_att_layer_norm)
    import_params_hf_llama_att_to_rf_rotary_att(model_hf.self_attn, model_rf.self_att)
    import_params_hf_llama_rms_norm_to_rf(model_hf.post_attention_layernorm, model_rf.ff_layer_norm)
    import_params_hf_llama_mlp_to_rf_feed_forward_gated(model_hf.mlp, model_rf.ff)


def import_params_hf_llama_rms_norm_to_rf(model_hf: Any, model_rf: rf.RMSNorm) -> None:
    """
    :param model_hf: `LlamaRMSNorm`
    :param model_rf: gets its parameters and its `eps`
    """
    assign(model_rf.scale, model_hf.weight, model_rf.scale.dims, what="the weight of LlamaRMSNorm")
    model_rf.eps = model_hf.variance_epsilon


def import_params_hf_llama_mlp_to_rf_feed_forward_gated(model_hf: Any, model_rf: FeedForwardGated) -> None:
    """
    :param model_hf: `LlamaMLP`: `down_proj(act(gate_proj(x)) * up_proj(x))`
    :param model_rf: gets its parameters
    """
    weight = model_rf.linear_ff.weight
    both = numpy.concatenate([as_array(model_hf.gate_proj.weight), as_array(model_hf.up_proj.weight)])
    assign(weight, both, [weight.dims[1], weight.dims[0]], what="the weights of gate_proj and up_proj")
    import_params_torch_linear_to_rf(model_hf.down_proj, model_rf.linear_out)


def import_params_hf_llama_att_to_rf_rotary_att(
    model_hf: Any, model_rf: rf.RotaryPosSelfAttention | rf.RotaryPosCausalSelfAttention
) -> None:
    """
    :param model_hf: `LlamaAttention`
    :param model_rf: gets its parameters
    """
    _check_rope(model_hf.config)
    heads, size = model_rf.num_heads.dimension, model_rf.key_dim_per_head.dimension

    def per_head(linear: Any, *, turned: bool) -> numpy.ndarray[Any, Any]:
        """:return: [heads, size, in]"""
        weight = as_array(linear.weight)
        require(
            weight.shape[0] % size == 0 and heads % (weight.shape[0] // size) == 0,
            f"the Llama attention has {weight.shape[0]} features, which are no heads of {size} features.",
        )
        weight = weight.reshape(-1, size, weight.shape[1])
        if turned:  # a pair that is turned is (i, i + size/2) there, and (2 i, 2 i + 1) here
            weight = weight.reshape(-1, 2, size // 2, weight.shape[-1]).swapaxes(1, 2).reshape(weight.shape)
        return weight.repeat(heads // weight.shape[0], axis=0)

    qkv = numpy.concatenate(
        [
            per_head(model_hf.q_proj, turned=True),
            per_head(model_hf.k_proj, turned=True),
            per_head(model_hf.v_proj, turned=False),
        ],
        axis=1,
    )
    weight = model_rf.qkv.weight
    require(model_rf.qkv.bias is None, "the attention of Llama has no bias.\n  Make the self_att with with_bias=False.")
    flat = qkv.reshape(-1, qkv.shape[-1])
    assign(weight, flat, [weight.dims[1], weight.dims[0]], what="the weights of q_proj, k_proj, v_proj")
    import_params_torch_linear_to_rf(model_hf.o_proj, model_rf.proj)


def _check_rope(config: Any) -> None:
    options = getattr(config, "rope_parameters", None) or {}
    base = options.get("rope_theta", getattr(config, "rope_theta", ROPE_BASE))
    kind = options.get("rope_type", "default")
    require(
        base == ROPE_BASE and kind == "default",
        f"the rotary positions of the Llama model are of type {kind!r} with base {base}; here, they have the type "
        f"'default' with base {ROPE_BASE:g}.",
    )


__all__ = [
    "import_params_hf_llama_att_to_rf_rotary_att",
    "import_params_hf_llama_decoder_layer_to_rf",
    "import_params_hf_llama_mlp_to_rf_feed_forward_gated",
    "import_params_hf_llama_rms_norm_to_rf",
    "import_params_hf_llama_to_rf_transformer_decoder",
]
