"""Parameters of other toolkits: the same outputs."""

from __future__ import annotations

import math

import numpy
import pytest
import torch
import transformers

import returnn.frontend as rf
from returnn.frontend.conversions.espnet_e_branchformer import (
    import_params_espnet_e_branchformer_layer_to_rf,
    import_params_espnet_multi_headed_attention_to_rf,
)
from returnn.frontend.conversions.hf_llama import import_params_hf_llama_to_rf_transformer_decoder
from returnn.frontend.conversions.torch_nn import (
    import_params_torch_conv1d_to_rf,
    import_params_torch_layer_norm_to_rf,
    import_params_torch_linear_to_rf,
)
from returnn.frontend.decoder.transformer import FeedForward as FeedForward_rf
from returnn.frontend.decoder.transformer import FeedForwardGated, TransformerDecoder
from returnn.frontend.encoder.e_branchformer import EBranchformerLayer
from returnn.tensor import Dim, Tensor
from returnn.util.errors import UserError

VOCAB, MODEL, OUT = Dim(13, name="vocab"), Dim(16, name="model"), Dim(6, name="out")
BATCH, TIME = Dim(2, name="batch", kind=Dim.Types.Batch), Dim(7, name="time")


@pytest.fixture(autouse=True)
def torch_backend():
    with rf.backend_ctx("torch"), rf.set_default_float_dtype_ctx("float64"):
        torch.manual_seed(1)
        rf.init_train_step_run_ctx(train_flag=False)
        yield


def randomize(model):
    model = model.double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return model


def assert_same(got, dims, expected, tolerance=1e-9):
    torch.testing.assert_close(got.copy_compatible_to_dims_raw(dims), expected, rtol=tolerance, atol=tolerance)


def features(dim=MODEL):
    raw = torch.randn(2, 7, dim.dimension, dtype=torch.float64)
    return Tensor("x", [BATCH, TIME, dim], "float64", raw_tensor=raw, feature_dim=dim)


def llama(*, key_value_heads, tied=False, **options):
    config = transformers.LlamaConfig(
        vocab_size=13,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=key_value_heads,
        tie_word_embeddings=tied,
        **options,
    )
    return randomize(transformers.LlamaForCausalLM(config))


def decoder(*, tied=False, **options):
    options = {"num_layers": 2, "input_embedding_scale": 1.0, "pos_enc": None, **options}
    return TransformerDecoder(
        None,
        VOCAB,
        MODEL,
        num_heads=4,
        norm=rf.RMSNorm,
        ff=rf.build_dict(FeedForwardGated, ff_dim=24),
        share_embedding=tied,
        layer_opts={"self_att": rf.build_dict(rf.RotaryPosCausalSelfAttention, with_bias=False)},
        **options,
    )


@pytest.mark.parametrize(("key_value_heads", "tied"), [(4, False), (2, False), (1, True)])
def test_llama(key_value_heads, tied):
    model_hf, model_rf = llama(key_value_heads=key_value_heads, tied=tied), decoder(tied=tied)
    import_params_hf_llama_to_rf_transformer_decoder(model_hf, model_rf)
    labels = torch.randint(0, 13, (2, 7))
    source = Tensor("labels", [BATCH, TIME], "int64", sparse_dim=VOCAB, raw_tensor=labels)
    out, _ = model_rf(source, spatial_dim=TIME, state=model_rf.default_initial_state(batch_dims=[BATCH]))
    with torch.no_grad():
        assert_same(out, [BATCH, TIME, VOCAB], model_hf(labels).logits, 1e-5)  # float32 inside


@pytest.mark.parametrize(
    ("model_hf", "model_rf", "text"),
    [
        ({"rope_theta": 5e5}, {}, "with base 500000"),
        ({}, {"num_layers": 1}, "has 2 layers, the decoder 1"),
        ({}, {"pos_enc": rf.sinusoidal_positional_encoding}, "pos_enc=None"),
    ],
)
def test_llama_that_does_not_fit(model_hf, model_rf, text):
    with pytest.raises(UserError, match=text):
        import_params_hf_llama_to_rf_transformer_decoder(llama(key_value_heads=4, **model_hf), decoder(**model_rf))


def test_linear_conv_and_layer_norm():
    x = features()
    linear_pt, linear_rf = randomize(torch.nn.Linear(16, 6)), rf.Linear(MODEL, OUT)
    import_params_torch_linear_to_rf(linear_pt, linear_rf)
    assert_same(linear_rf(x), [BATCH, TIME, OUT], linear_pt(x.raw_tensor))
    for groups in (1, 2):
        conv_pt = randomize(torch.nn.Conv1d(16, 6, 3, padding=1, groups=groups))
        conv_rf = rf.Conv1d(MODEL, OUT, 3, padding="same", groups=groups)
        import_params_torch_conv1d_to_rf(conv_pt, conv_rf)
        out, time = conv_rf(x, in_spatial_dim=TIME)
        assert_same(out, [BATCH, time, OUT], conv_pt(x.raw_tensor.mT).mT)
    norm_pt, norm_rf = randomize(torch.nn.LayerNorm(16, eps=1e-3)), rf.LayerNorm(MODEL)
    import_params_torch_layer_norm_to_rf(norm_pt, norm_rf)
    assert_same(norm_rf(x), [BATCH, TIME, MODEL], norm_pt(x.raw_tensor))


def test_square_linear_is_not_transposed():
    linear_pt, linear_rf = randomize(torch.nn.Linear(16, 16, bias=False)), rf.Linear(MODEL, MODEL, with_bias=False)
    import_params_torch_linear_to_rf(linear_pt, linear_rf)
    x = features()
    assert_same(linear_rf(x), [BATCH, TIME, MODEL], linear_pt(x.raw_tensor))


def test_wrong_sizes_and_biases():
    with pytest.raises(UserError, match=r"has the shape \(5, 16\), the parameter .* needs \(6, 16\)"):
        import_params_torch_linear_to_rf(torch.nn.Linear(16, 5), rf.Linear(MODEL, OUT))
    with pytest.raises(UserError, match=r"has no bias, the module .* has one"):
        import_params_torch_linear_to_rf(torch.nn.Linear(16, 6, bias=False), rf.Linear(MODEL, OUT))


class RelPositionAttention(torch.nn.Module):
    """Names and shapes as in ESPnet; computed by loops over all pairs of frames (Dai et al. 2019, section 3.3)."""

    def __init__(self):
        super().__init__()
        for name in ("linear_q", "linear_k", "linear_v", "linear_out"):
            setattr(self, name, torch.nn.Linear(16, 16))
        self.linear_pos = torch.nn.Linear(16, 16, bias=False)
        self.pos_bias_u = torch.nn.Parameter(torch.zeros(2, 8))
        self.pos_bias_v = torch.nn.Parameter(torch.zeros(2, 8))

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (2, 8)) for f in (self.linear_q, self.linear_k, self.linear_v))
        energy = torch.zeros(x.shape[0], 2, x.shape[1], x.shape[1], dtype=x.dtype)
        for i in range(x.shape[1]):
            for j in range(x.shape[1]):
                position = self.linear_pos(encoding(i - j)).unflatten(-1, (2, 8))
                by_content = ((q[:, i] + self.pos_bias_u) * k[:, j]).sum(-1)
                by_position = ((q[:, i] + self.pos_bias_v) * position).sum(-1)
                energy[:, :, i, j] = (by_content + by_position) / math.sqrt(8)
        out = torch.einsum("bhij,bjhd->bihd", torch.softmax(energy, -1), v)
        return self.linear_out(out.flatten(-2))


def encoding(distance):
    """:return: sines and cosines of a distance; the frontend counts distances from the query to the key"""
    frequency = torch.exp(torch.arange(8, dtype=torch.float64) * (-2 * math.log(1e4) / 16))
    return torch.cat([torch.sin(-distance * frequency), torch.cos(-distance * frequency)])


class FeedForward(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w_1, self.w_2 = torch.nn.Linear(16, 20), torch.nn.Linear(20, 16)

    def forward(self, x):
        return self.w_2(torch.nn.functional.silu(self.w_1(x)))


class SpatialGate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(9)
        self.conv = torch.nn.Conv1d(9, 9, 3, padding=1, groups=9)

    def forward(self, x):
        a, b = x.chunk(2, -1)
        return a * self.conv(self.norm(b).mT).mT


class GatingMLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.channel_proj1 = torch.nn.Sequential(torch.nn.Linear(16, 18), torch.nn.GELU())
        self.csgu = SpatialGate()
        self.channel_proj2 = torch.nn.Linear(9, 16)

    def forward(self, x):
        return self.channel_proj2(self.csgu(self.channel_proj1(x)))


class ESPnetLayer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attn, self.cgmlp = RelPositionAttention(), GatingMLP()
        self.feed_forward, self.feed_forward_macaron = FeedForward(), FeedForward()
        for name in ("norm_ff", "norm_ff_macaron", "norm_mha", "norm_mlp", "norm_final"):
            setattr(self, name, torch.nn.LayerNorm(16, eps=1e-12))
        self.depthwise_conv_fusion = torch.nn.Conv1d(32, 32, 3, padding=1, groups=32)
        self.merge_proj = torch.nn.Linear(32, 16)

    def forward(self, x):
        x = x + 0.5 * self.feed_forward_macaron(self.norm_ff_macaron(x))
        both = torch.cat([self.attn(self.norm_mha(x)), self.cgmlp(self.norm_mlp(x))], -1)
        x = x + self.merge_proj(both + self.depthwise_conv_fusion(both.mT).mT)
        return self.norm_final(x + 0.5 * self.feed_forward(self.norm_ff(x)))


def test_espnet_e_branchformer_layer():
    model_espnet = randomize(ESPnetLayer())
    model_rf = EBranchformerLayer(MODEL, ff_dim=20, num_heads=2, cgmlp_ff_dim=18, cgmlp_conv_kernel=3)
    import_params_espnet_e_branchformer_layer_to_rf(model_espnet, model_rf)
    x = features()
    with torch.no_grad():
        assert_same(model_rf(x, spatial_dim=TIME), [BATCH, TIME, MODEL], model_espnet(x.raw_tensor))


def test_attention_with_and_without_positions_do_not_fit():
    options = {"key_dim_total": MODEL, "value_dim_total": MODEL, "num_heads": 2}
    with pytest.raises(UserError, match="relative positions, which does not fit"):
        import_params_espnet_multi_headed_attention_to_rf(
            randomize(RelPositionAttention()), rf.SelfAttention(MODEL, MODEL, **options)
        )


def test_torch_transformer_encoder_layer_by_the_same_parts():
    """The layer of PyTorch, with normalization first, is the layer of the frontend."""
    from_torch = randomize(torch.nn.TransformerEncoderLayer(16, 2, 20, batch_first=True, norm_first=True))
    layer = rf.build_from_dict(
        {
            "class": "returnn.frontend.encoder.transformer.TransformerEncoderLayer",
            "ff": rf.build_dict(FeedForward_rf, ff_dim=20),
        },
        MODEL,
        num_heads=2,
    )
    import_params_torch_layer_norm_to_rf(from_torch.norm1, layer.self_att_layer_norm)
    import_params_torch_layer_norm_to_rf(from_torch.norm2, layer.ff_layer_norm)
    import_params_torch_linear_to_rf(from_torch.linear1, layer.ff.linear_ff)
    import_params_torch_linear_to_rf(from_torch.linear2, layer.ff.linear_out)
    import_params_torch_linear_to_rf(from_torch.self_attn.out_proj, layer.self_att.proj)
    # queries, keys, values of all heads there; of each head here
    weight = from_torch.self_attn.in_proj_weight.detach().reshape(3, 2, 8, 16).transpose(0, 1).reshape(48, 16)
    bias = from_torch.self_attn.in_proj_bias.detach().reshape(3, 2, 8).transpose(0, 1).reshape(48)
    layer.self_att.qkv.weight.assign(numpy.ascontiguousarray(weight.T.numpy()))
    layer.self_att.qkv.bias.assign(bias.numpy())
    x = features()
    with torch.no_grad():
        assert_same(layer(x, spatial_dim=TIME), [BATCH, TIME, MODEL], from_torch(x.raw_tensor))
