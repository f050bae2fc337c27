"""Attention modules: against PyTorch's own, step by step against whole sequences, and a plain formula."""

from __future__ import annotations

import math

import numpy
import pytest
import torch

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor, single_step_dim
from returnn.util.errors import DimError

IN, OUT = Dim(6, name="in"), Dim(5, name="out")
KEY, VALUE = Dim(8, name="key"), Dim(12, name="value")
BATCH = Dim(3, name="batch", kind=Dim.Types.Batch)
OPTIONS = {"key_dim_total": KEY, "value_dim_total": VALUE, "num_heads": 2, "att_dropout": 0.0}
CAUSAL = [rf.CausalSelfAttention, rf.RotaryPosCausalSelfAttention, rf.RelPosCausalSelfAttention]


@pytest.fixture(autouse=True)
def torch_backend():
    with rf.backend_ctx("torch"):
        rf.set_random_seed(1)
        yield


def time_dim(*lengths: int) -> Dim:
    raw = torch.tensor(lengths, dtype=torch.int32)
    return Dim(Tensor("lengths", [BATCH], "int32", raw_tensor=raw), name="time")


def floats(dims, seed: int = 1) -> Tensor:
    sizes = [int(d.get_dim_value()) for d in dims]
    raw = torch.tensor(numpy.random.RandomState(seed).normal(size=sizes).astype("float32"))
    return Tensor("x", dims, "float32", raw_tensor=raw, feature_dim=dims[-1])


def raw(x: Tensor, dims) -> torch.Tensor:
    return x.copy_compatible_to_dims_raw(dims)


def test_self_attention_by_the_formula():
    module = rf.SelfAttention(IN, IN, key_dim_total=KEY, value_dim_total=KEY, num_heads=2, att_dropout=0.0)
    weight = module.qkv.weight.raw_tensor.detach().reshape(6, 2, 3, 4)
    bias = module.qkv.bias.raw_tensor.detach().reshape(2, 3, 4)
    time = time_dim(4, 2, 3)
    source = floats([BATCH, time, IN])
    q, k, v = (
        torch.einsum("btf,fhd->bhtd", source.raw_tensor, weight[:, :, i]) + bias[:, i][:, None] for i in range(3)
    )
    mask = time.get_mask().raw_tensor[:, None, None]
    weights = torch.softmax((q @ k.mT / 2).masked_fill(~mask, -math.inf), -1)
    merged = (weights @ v).permute(0, 2, 1, 3).reshape(3, 4, 8)
    expected = merged @ module.proj.weight.raw_tensor + module.proj.bias.raw_tensor
    out = module(source, axis=time)
    valid = time.get_mask().raw_tensor
    torch.testing.assert_close(raw(out, [BATCH, time, IN])[valid], expected[valid])


@pytest.mark.parametrize("kind", CAUSAL)
def test_steps_give_what_a_sequence_gives(kind):
    module = kind(IN, OUT, **OPTIONS)
    time = Dim(5, name="time")
    source = floats([BATCH, time, IN])
    whole, _ = module(source, axis=time)
    state = module.default_initial_state(batch_dims=[BATCH])
    for i in range(5):
        frame = rf.gather(source, indices=i, axis=time)
        out, state = module(frame, axis=single_step_dim, state=state)
        torch.testing.assert_close(raw(out, [BATCH, OUT]), raw(whole, [BATCH, time, OUT])[:, i])


@pytest.mark.parametrize("kind", CAUSAL)
def test_a_sequence_behind_a_state_goes_on(kind):
    module = kind(IN, OUT, **OPTIONS)
    time, begin, end = Dim(5, name="time"), Dim(2, name="begin"), Dim(3, name="end")
    source = floats([BATCH, time, IN])
    whole, _ = module(source, axis=time)
    first, second = rf.split(source, axis=time, out_dims=[begin, end])
    out_first, state = module(first, axis=begin)
    out_second, _ = module(second, axis=end, state=state)
    got = torch.cat([raw(out_first, [BATCH, begin, OUT]), raw(out_second, [BATCH, end, OUT])], 1)
    torch.testing.assert_close(got, raw(whole, [BATCH, time, OUT]))


@pytest.mark.parametrize("kind", CAUSAL)
def test_a_step_behind_sequences_of_different_lengths(kind):
    module = kind(IN, OUT, **OPTIONS)
    time, lengths = time_dim(4, 1, 3), [4, 1, 3]
    source, frame = floats([BATCH, time, IN]), floats([BATCH, IN], seed=2)
    _, state = module(source, axis=time)
    out, _ = module(frame, axis=single_step_dim, state=state)
    for b, length in enumerate(lengths):
        longer = Dim(length + 1, name="longer")
        joined = torch.cat([source.raw_tensor[b, :length], frame.raw_tensor[b][None]])
        alone, _ = module(Tensor("x", [longer, IN], "float32", raw_tensor=joined), axis=longer)
        torch.testing.assert_close(raw(out, [BATCH, OUT])[b], raw(alone, [longer, OUT])[-1])


@pytest.mark.parametrize("kind", [rf.SelfAttention, rf.RotaryPosSelfAttention, rf.RelPosSelfAttention])
def test_a_sequence_gets_what_it_would_get_alone(kind):
    module = kind(IN, None, **OPTIONS)
    time = time_dim(4, 2, 3)
    source = floats([BATCH, time, IN])
    out = raw(module(source, axis=time), [BATCH, time, VALUE])
    short = Dim(2, name="short")
    alone = Tensor("x", [short, IN], "float32", raw_tensor=source.raw_tensor[1, :2])
    torch.testing.assert_close(out[1, :2], raw(module(alone, axis=short), [short, VALUE]))


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("options", [{}, {"separate_pos_emb_per_head": False}, {"with_pos_bias": False}])
def test_relative_attention_by_the_formula(learned, options):
    module = rf.RelPosSelfAttention(
        IN, OUT, learnable_pos_emb=learned, learnable_pos_emb_clipping=2, **OPTIONS, **options
    )
    time = Dim(5, name="time")
    source = floats([time, IN])
    q, k, v = (raw(x, [time, module.num_heads, x.feature_dim]) for x in module.forward_qkv(source))
    table = {}
    for distance in range(-4, 5):
        if learned:
            encoding = module.learned_pos_emb.pos_emb.raw_tensor[min(max(distance, -2), 2) + 2]
        else:
            frequency = [1e4 ** (-2 * i / 6) for i in range(3)]
            encoding = torch.tensor([f(distance * w) for f in (math.sin, math.cos) for w in frequency])
        encoding = encoding @ module.linear_pos.weight.raw_tensor
        table[distance] = encoding.reshape(2, 4) if module.separate_pos_emb_per_head else encoding.expand(2, 4)
    u, w = (0 if x is None else x.raw_tensor for x in (module.pos_bias_u, module.pos_bias_v))
    energy = torch.stack([
        torch.stack([((q[i] + u) * k[j] + (q[i] + w) * table[j - i]).sum(-1) / 2 for j in range(5)]) for i in range(5)
    ])  # fmt: skip
    expected = torch.einsum("ijh,jhv->ihv", torch.softmax(energy, 1), v).reshape(5, 12)
    expected = expected @ module.proj.weight.raw_tensor + module.proj.bias.raw_tensor
    torch.testing.assert_close(raw(module(source, axis=time), [time, OUT]), expected)


def test_learned_encoding_as_matrix():
    module = rf.LearnedRelativePositionalEncoding(OUT, clipping=2, causal=True)
    queries, keys = Dim(2, name="queries"), Dim(4, name="keys")
    matrix = module.full_matrix(query_spatial_dim=queries, key_value_spatial_dim=keys, query_offset=2)
    matrix = raw(matrix, [queries, keys, OUT])
    table = module.pos_emb.raw_tensor
    torch.testing.assert_close(matrix[0], table[[0, 1, 2, 2]])
    torch.testing.assert_close(matrix[1], table[[0, 0, 1, 2]])


def test_cross_attention_of_sequence_and_step():
    module = rf.CrossAttention(IN, OUT, OUT, **OPTIONS)
    axis, time = time_dim(4, 2, 3), Dim(3, name="decoder")
    encoder = module.transform_encoder(floats([BATCH, axis, IN]), axis=axis)
    source = floats([BATCH, time, OUT], seed=2)
    whole = raw(module(source, encoder), [BATCH, time, OUT])
    for i in range(3):
        step = module(rf.gather(source, indices=i, axis=time), encoder)
        torch.testing.assert_close(raw(step, [BATCH, OUT]), whole[:, i])


def test_rotary_attention_depends_on_distances_only():
    feature = Dim(4, name="feature")
    backend = rf.get_backend_by_raw_tensor_type(torch.Tensor)
    x, y = floats([feature]), floats([feature], seed=2)

    def product(first: int, second: int) -> float:
        turned = [
            backend.apply_rope(v, rf.sinusoidal_encoding(rf.constant(float(p), dims=()), feat_dim=feature), feature)
            for v, p in ((x, first), (y, second))
        ]
        return float(rf.matmul(*turned, reduce=feature).raw_tensor)

    assert product(3, 5) == pytest.approx(product(10, 12), rel=1e-4)
    assert product(3, 5) != pytest.approx(product(3, 6), rel=1e-2)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: rf.SelfAttention(IN, OUT, **{**OPTIONS, "num_heads": 3}),
            "attention: the features key(8) cannot be divided among 3 heads.",
        ),
        (
            lambda: rf.CausalSelfAttention(IN, OUT, **OPTIONS)(floats([BATCH, IN]), axis=single_step_dim),
            "causal self-attention: a single step needs a state.\n  See default_initial_state.",
        ),
        (
            lambda: rf.sinusoidal_positional_encoding(spatial_dim=Dim(3, name="time"), feat_dim=OUT),
            "sinusoidal_encoding: the features out(5) should be of a fixed even size.",
        ),
        (
            lambda: rf.sinusoidal_positional_encoding(spatial_dim=single_step_dim, feat_dim=IN),
            "positional encoding: a single step has no position of its own.\n  Give its offset.",
        ),
    ],
)
def test_error_texts(make, text):
    with pytest.raises(DimError) as info:
        make()
    assert str(info.value) == text
