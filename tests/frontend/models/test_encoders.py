"""Encoders: the same on all backends, padding and other sequences do not matter; some against plain PyTorch."""

from __future__ import annotations

import numpy
import pytest

import returnn.frontend as rf
from returnn.config import Config, global_config_ctx
from returnn.frontend.decoder.transformer import FeedForwardGated, TransformerDecoder, TransformerDecoderLayer
from returnn.frontend.encoder.conformer import (
    ConformerConvSubsample,
    ConformerEncoder,
    ConformerEncoderLayer,
    ConformerPositionwiseFeedForward,
    conv_norm_use_mask_default,
)
from returnn.frontend.encoder.conformer_v2 import ConformerEncoderV2, ConformerFrontend
from returnn.frontend.encoder.e_branchformer import EBranchformerLayer
from returnn.frontend.encoder.transformer import TransformerEncoder, TransformerEncoderLayer
from returnn.tensor import Dim
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import ConfigError
from tests.frontend.models.model_run import BACKENDS, other_padding, random_batch, run


@pytest.fixture(autouse=True)
def newest_defaults():
    BehaviorVersion.set(30)


FEATURES, MODEL, VOCAB = Dim(10, name="features"), Dim(8, name="model"), Dim(11, name="vocab")


def conv_subsample(**options):
    options = {
        "out_dims": [Dim(3, name="conv1"), Dim(4, name="conv2")],
        "filter_sizes": [(3, 3), (3, 3)],
        "strides": [(1, 1), (2, 1)],
        "pool_sizes": [(1, 2)],  # behind the first one alone
        **options,
    }
    return ConformerConvSubsample(FEATURES, **options)


class InTwoParts(rf.Module):
    def __init__(self):
        super().__init__()
        self.frontend = ConformerFrontend(FEATURES, MODEL, input_layer=conv_subsample())
        self.blocks = ConformerEncoderV2(MODEL, num_layers=1, num_heads=2, conv_kernel_size=3)


LABEL_MODELS = {
    "transformer": lambda: TransformerEncoder(VOCAB, MODEL, num_layers=2, num_heads=2),
    "transformer with small embedding": lambda: TransformerEncoder(
        VOCAB, MODEL, num_layers=1, num_heads=2, embed_dim=Dim(3, name="embed"), norm=rf.RMSNorm, ff=FeedForwardGated
    ),
    "transformer with rotary positions": lambda: TransformerEncoder(
        VOCAB,
        MODEL,
        num_layers=1,
        num_heads=2,
        pos_enc=None,
        layer_opts={"self_att": rf.build_dict(rf.RotaryPosSelfAttention, with_bias=False)},
    ),
}
FEATURE_MODELS = {
    "conformer": lambda: ConformerEncoder(
        FEATURES, MODEL, num_layers=2, num_heads=2, input_layer=conv_subsample(), conv_kernel_size=3
    ),
    "conformer with options": lambda: ConformerEncoder(
        FEATURES,
        MODEL,
        num_layers=1,
        num_heads=2,
        input_layer=rf.build_dict(
            ConformerConvSubsample,
            out_dims=[Dim(2, name="conv1")],
            filter_sizes=[3],
            strides=[3],
            activation="silu",
            padding="valid",
        ),
        ff_dim=5,
        ff_activation=rf.build_dict(rf.relu_square),
        conv_kernel_size=4,
        pos_enc=rf.sinusoidal_positional_encoding,
        encoder_layer_opts={
            "conv_norm": rf.LayerNorm,
            "self_att": rf.SelfAttention,
            "self_att_opts": {"with_bias": False},
            "norm": rf.RMSNorm,
        },
    ),
    "conformer with group norm": lambda: ConformerEncoder(
        FEATURES,
        MODEL,
        num_layers=1,
        num_heads=2,
        input_layer=None,
        encoder_layer_opts={"conv_norm": rf.GroupNormSpatial, "conv_norm_opts": {"num_groups": 2}},
    ),
    "e-branchformer": lambda: ConformerEncoder(
        FEATURES, MODEL, num_layers=1, num_heads=2, input_layer=None, encoder_layer=EBranchformerLayer
    ),
    "in two parts": InTwoParts,
}
MODELS = {**LABEL_MODELS, **FEATURE_MODELS}


def call(model, inputs):
    if isinstance(model, TransformerEncoder):
        return model(inputs.source, spatial_dim=inputs.time_dim)
    if isinstance(model, InTwoParts):
        x, time_dim = model.frontend(inputs.source, in_spatial_dim=inputs.time_dim)
        return model.blocks(x, spatial_dim=time_dim)
    out, _ = model(inputs.source, in_spatial_dim=inputs.time_dim)
    return out


def batch_for(name, lengths=(9, 4, 7)):
    return random_batch(lengths, VOCAB if name in LABEL_MODELS else FEATURES, labels=name in LABEL_MODELS)


def last_of(name):
    return VOCAB if name in LABEL_MODELS else FEATURES


@pytest.mark.parametrize("name", MODELS)
def test_backends_agree(name):
    batch = batch_for(name)
    expected, params = run("numpy", MODELS[name], call, batch, last_of(name))
    assert numpy.isfinite(expected).all()
    assert numpy.abs(expected).max() > 0.1
    for backend in BACKENDS[1:]:
        got, _ = run(backend, MODELS[name], call, batch, last_of(name), params=params)
        numpy.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9, err_msg=backend)


@pytest.mark.parametrize("name", MODELS)
def test_padding_and_other_sequences_do_not_matter(name):
    batch = batch_for(name)
    out, params = run("torch", MODELS[name], call, batch, last_of(name))
    with_other_padding, _ = run("torch", MODELS[name], call, other_padding(batch), last_of(name), params=params)
    numpy.testing.assert_allclose(with_other_padding, out, rtol=1e-9, atol=1e-9)
    for number in range(len(batch.lengths)):
        alone, _ = run("torch", MODELS[name], call, batch.only(number), last_of(name), params=params)
        frames = alone.shape[1]
        numpy.testing.assert_allclose(alone[0], out[number, :frames], rtol=1e-9, atol=1e-9)
        assert not out[number, frames:].any()


@pytest.mark.parametrize("name", ["conformer", "transformer", "e-branchformer"])
def test_training_drops(name):
    batch = batch_for(name)
    out, params = run("torch", MODELS[name], call, batch, last_of(name))
    trained, _ = run("torch", MODELS[name], call, batch, last_of(name), params=params, train=True)
    assert numpy.abs(trained - out).max() > 0.1


def test_frames_and_features_of_convolutions():
    layer = conv_subsample()
    assert layer.downsample_factor == 2
    assert layer.out_dim.dimension == 5 * 4
    time_dim = Dim(7, name="time")
    assert layer.get_out_spatial_dim(time_dim).dimension == 4
    assert conv_subsample(pool_sizes=[(1, 2), (3, 1)]).get_out_spatial_dim(time_dim).dimension == 2
    with pytest.raises(ConfigError, match="there are 2 out_dims, but 3 pool_sizes"):
        conv_subsample(pool_sizes=[1, 1, 1])
    encoder = MODELS["conformer"]()
    assert encoder.downsample_factor == 2
    names = {name for name, _ in encoder.named_parameters()}
    assert {"input_layer.conv_layers.0.filter", "input_projection.weight", "layers.1.ffn1.linear_ff.weight"} <= names
    assert "layers.0.conv_block.depthwise_conv.filter" in names
    assert "layers.0.self_att.pos_bias_u" in names


def _shapes(model):
    return [(name, [dim.dimension for dim in param.dims]) for name, param in model.named_parameters()]


@pytest.mark.parametrize(
    "make",
    [
        lambda dim: ConformerEncoder(
            dim(10), dim(8), num_layers=1, num_heads=2, input_layer=conv_subsample(out_dims=[dim(3), dim(4)])
        ),
        lambda dim: ConformerFrontend(dim(10), dim(8), input_layer=None),
        lambda dim: ConformerEncoderV2(dim(8), num_layers=1, num_heads=2, ff_dim=dim(5)),
        lambda dim: ConformerEncoder(
            dim(10), dim(8), num_layers=1, num_heads=2, input_layer=None, encoder_layer=EBranchformerLayer
        ),
        lambda dim: EBranchformerLayer(dim(8), num_heads=2, cgmlp_ff_dim=dim(6)),
        lambda dim: ConformerEncoderLayer(dim(8), num_heads=2, conv_norm=rf.LayerNorm),
        lambda dim: TransformerEncoder(dim(11), dim(8), num_layers=1, num_heads=2, embed_dim=dim(3)),
        lambda dim: TransformerEncoderLayer(dim(8), num_heads=2, ff=FeedForwardGated),
        lambda dim: TransformerDecoder(dim(5), dim(11), dim(8), num_layers=1, num_heads=2, ff_dim=dim(7)),
        lambda dim: TransformerDecoderLayer(dim(5), dim(8), num_heads=2),
        lambda dim: TransformerDecoder(None, dim(11), dim(8), num_layers=1, num_heads=2, share_embedding=True),
    ],
)
def test_a_number_is_the_size_of_a_new_dim(make):
    assert _shapes(make(int)) == _shapes(make(lambda size: Dim(size, name="given")))


def test_dims_from_numbers_are_attributes():
    config = {
        "class": "rf.encoder.conformer.ConformerEncoder",
        "input_layer": {
            "class": "rf.encoder.conformer.ConformerConvSubsample",
            "out_dims": [2],
            "filter_sizes": [3],
            "strides": [3],
        },
        "out_dim": 8,
        "num_layers": 1,
        "num_heads": 2,
    }
    batch = batch_for("conformer")
    out, _ = run("torch", lambda: rf.build_from_dict(config, FEATURES), call, batch, FEATURES)
    assert out.shape == (3, 3, 8)
    assert rf.build_from_dict(config, FEATURES).out_dim.name == "out_dim"


def test_layers_do_not_share_parameters_of_a_given_module():
    layer = TransformerEncoderLayer(MODEL, num_heads=2)
    model = TransformerEncoder(VOCAB, MODEL, num_layers=2, layer=layer)
    first, second = (layer.ff.linear_ff.weight for layer in model.layers)
    assert first is not second


def test_collected_outputs():
    model = TransformerEncoder(VOCAB, MODEL, num_layers=2, num_heads=2)
    collected = {}

    def collect(model, inputs):
        return model(inputs.source, spatial_dim=inputs.time_dim, collected_outputs=collected)

    run("numpy", lambda: model, collect, batch_for("transformer"), VOCAB)
    assert list(collected) == ["0", "1"]


def test_config_decides_about_the_mask_of_batch_norm():
    assert conv_norm_use_mask_default()
    BehaviorVersion.reset()
    assert not conv_norm_use_mask_default()
    BehaviorVersion.set(23)
    assert conv_norm_use_mask_default()
    with global_config_ctx(Config({"rf_conformer_conv_norm_use_mask": False})):
        assert not conv_norm_use_mask_default()
        assert not ConformerEncoderLayer(MODEL, num_heads=2).conv_block.norm.use_mask


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: conv_subsample(strides=[1]), "there are 2 out_dims, but 1 strides"),
        (lambda: ConformerEncoderLayer(MODEL, num_heads=3), "cannot be divided among 3 heads"),
        (lambda: ConformerEncoderLayer(MODEL, num_heads=2, norm="layer"), "norm should be a class, a dict"),
        (
            lambda: ConformerEncoderLayer(
                MODEL, num_heads=2, ff=ConformerPositionwiseFeedForward(MODEL), ff_dim=Dim(3, name="ff")
            ),
            "so it has these options already: ff_dim",
        ),
        (
            lambda: ConformerEncoder(
                FEATURES,
                MODEL,
                num_layers=1,
                input_layer=None,
                encoder_layer=ConformerEncoderLayer(MODEL, num_heads=2),
                encoder_layer_opts={"num_heads": 1},
            ),
            r"encoder_layer_opts={'num_heads': 1}: encoder_layer is a module, which has its options already",
        ),
        (
            lambda: ConformerEncoder(FEATURES, "8", num_layers=1, input_layer=None),
            "out_dim: expected a Dim, or a number",
        ),
        (lambda: ConformerEncoder(FEATURES, MODEL, num_layers=-1, input_layer=None), "num_layers should be a number"),
        (lambda: ConformerEncoder(FEATURES, MODEL, num_layers=1, input_layer="conv"), "input_layer should be a module"),
        (lambda: TransformerEncoder(VOCAB, MODEL, num_layers=1, encoder_layr=1), "there is no option 'encoder_layr'"),
        (lambda: TransformerEncoder(VOCAB, MODEL, num_layers=1, heads=1), "Did you mean 'num_heads'"),
    ],
)
def test_error_texts(make, text):
    with pytest.raises(Exception, match=text) as caught:
        make()
    assert len(str(caught.value).splitlines()) <= 5
    assert isinstance(caught.value, ConfigError) or type(caught.value).__name__.endswith("Error")
