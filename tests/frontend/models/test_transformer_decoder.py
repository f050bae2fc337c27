"""Decoders: step by step as over whole sequences, on all backends; padding and other sequences do not matter."""

from __future__ import annotations

import numpy
import pytest

import returnn.frontend as rf
from returnn.frontend.decoder.transformer import FeedForwardGated, TransformerDecoder, TransformerDecoderLayer
from returnn.tensor import Dim, single_step_dim
from returnn.util.errors import ConfigError, DimError
from tests.frontend.models.model_run import BACKENDS, other_padding, random_batch, run

MODEL, VOCAB, ENCODER = Dim(8, name="model"), Dim(11, name="vocab"), Dim(5, name="encoder")
LLAMA = {
    "pos_enc": None,
    "norm": rf.RMSNorm,
    "ff": FeedForwardGated,
    "layer_opts": {"self_att": rf.build_dict(rf.RotaryPosCausalSelfAttention, with_bias=False)},
}
MODELS = {
    "language model": lambda: TransformerDecoder(None, VOCAB, MODEL, num_layers=2, num_heads=2),
    "llama": lambda: TransformerDecoder(None, VOCAB, MODEL, num_layers=2, num_heads=2, share_embedding=True, **LLAMA),
    "with encoder": lambda: TransformerDecoder(ENCODER, VOCAB, MODEL, num_layers=2, num_heads=2, logits_with_bias=True),
    "relative positions": lambda: TransformerDecoder(
        ENCODER,
        VOCAB,
        MODEL,
        num_layers=1,
        num_heads=2,
        embed_dim=Dim(3, name="embed"),
        input_embedding_scale=1.0,
        decoder_layer_opts={"self_att": rf.RelPosCausalSelfAttention},
        ff_dim=7,
        ff_activation=rf.gelu,
    ),
}
STEPS = 5


def encoder_of(model, inputs):
    """:return: some frames for each sequence, by its own labels: there is no other input"""
    if model.encoder_dim is None:
        return None
    label = rf.cast(inputs.source.copy_with_roles(sparse_dim=None), "float64")
    feature = rf.cast(rf.range_over_dim(ENCODER).copy_with_roles(sparse_dim=None), "float64")
    angle = rf.combine_bc(label, "+", feature)
    frames = rf.sin(angle).copy_with_roles(feature_dim=ENCODER)
    lengths = inputs.time_dim.dyn_size_ext
    axis = Dim(lengths, name="encoder_time")  # of as many frames; it is not the dim of the labels
    frames, _ = rf.replace_dim(frames, in_dim=inputs.time_dim, out_dim=axis)
    return model.transform_encoder(frames, axis=axis)


def whole(model, inputs):
    state = model.default_initial_state(batch_dims=[inputs.batch_dim])
    out, _ = model(inputs.source, spatial_dim=inputs.time_dim, state=state, encoder=encoder_of(model, inputs))
    return out


def step_by_step(model, inputs):
    state = model.default_initial_state(batch_dims=[inputs.batch_dim])
    encoder = encoder_of(model, inputs)
    frames = []
    for i in range(STEPS):
        label = rf.gather(inputs.source, indices=i, axis=inputs.time_dim, clip_to_valid=True)
        out, state = model(label, spatial_dim=single_step_dim, state=state, encoder=encoder)
        frames.append(out)
    out, _ = rf.stack(frames, out_dim=Dim(STEPS, name="steps"))
    return out.copy_transpose([inputs.batch_dim, out.dims[0], VOCAB])


def last_frame(model, inputs):
    state = model.default_initial_state(batch_dims=[inputs.batch_dim])
    encoder = encoder_of(model, inputs)
    out, _ = model(
        inputs.source, spatial_dim=inputs.time_dim, state=state, encoder=encoder, output_only_last_frame=True
    )
    return out


@pytest.mark.parametrize("name", MODELS)
def test_backends_agree_and_steps_give_what_a_sequence_gives(name):
    batch = random_batch([STEPS, 2, 4], VOCAB, labels=True)
    expected, params = run("numpy", MODELS[name], whole, batch, VOCAB)
    assert numpy.abs(expected).max() > 0.1
    for backend in BACKENDS[1:]:
        got, _ = run(backend, MODELS[name], whole, batch, VOCAB, params=params)
        numpy.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9, err_msg=backend)
    for backend in BACKENDS:
        steps, _ = run(backend, MODELS[name], step_by_step, batch, VOCAB, params=params)
        last, _ = run(backend, MODELS[name], last_frame, batch, VOCAB, params=params)
        for b, length in enumerate(batch.lengths):
            numpy.testing.assert_allclose(steps[b, :length], expected[b, :length], rtol=1e-9, atol=1e-9)
            numpy.testing.assert_allclose(last[b], expected[b, length - 1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_padding_and_other_sequences_do_not_matter(name):
    batch = random_batch([STEPS, 2, 4], VOCAB, labels=True)
    out, params = run("torch", MODELS[name], whole, batch, VOCAB)
    with_other_padding, _ = run("torch", MODELS[name], whole, other_padding(batch), VOCAB, params=params)
    numpy.testing.assert_allclose(with_other_padding, out, rtol=1e-9, atol=1e-9)
    for number, length in enumerate(batch.lengths):
        alone, _ = run("torch", MODELS[name], whole, batch.only(number), VOCAB, params=params)
        numpy.testing.assert_allclose(alone[0], out[number, :length], rtol=1e-9, atol=1e-9)


def test_it_does_not_see_the_labels_behind():
    batch = random_batch([STEPS], VOCAB, labels=True)
    out, params = run("torch", MODELS["llama"], whole, batch, VOCAB)
    batch.values[0, 3:] = (batch.values[0, 3:] + 1) % VOCAB.dimension
    other, _ = run("torch", MODELS["llama"], whole, batch, VOCAB, params=params)
    numpy.testing.assert_array_equal(other[0, :3], out[0, :3])
    assert numpy.abs(other[0, 3:] - out[0, 3:]).max() > 0.01


def test_shared_embedding_is_one_parameter():
    names = [name for name, _ in MODELS["llama"]().named_parameters()]
    assert "input_embedding.weight" in names
    assert "logits.weight" not in names


def test_collected_outputs_of_layers():
    collected = {}

    def call(model, inputs):
        state = model.default_initial_state(batch_dims=[inputs.batch_dim])
        return model(inputs.source, spatial_dim=inputs.time_dim, state=state, collected_outputs=collected)[0]

    run("numpy", MODELS["language model"], call, random_batch([3], VOCAB, labels=True), VOCAB)
    assert list(collected) == ["0", "1"]


def no_encoder_given():
    model = MODELS["with encoder"]()
    state = model.default_initial_state(batch_dims=[])
    model(rf.convert_to_tensor(1, sparse_dim=VOCAB), spatial_dim=single_step_dim, state=state)


def encoder_over_the_labels():
    model = MODELS["with encoder"]()
    time_dim = Dim(3, name="time")
    encoder = model.transform_encoder(rf.zeros([time_dim, ENCODER], feature_dim=ENCODER), axis=time_dim)
    labels = rf.zeros([time_dim], dtype="int32", sparse_dim=VOCAB)
    model(labels, spatial_dim=time_dim, state=model.default_initial_state(batch_dims=[]), encoder=encoder)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (no_encoder_given, "it attends to an encoder, which is not given"),
        (encoder_over_the_labels, "queries have the dim .*time.* of the encoder, too"),
        (
            lambda: TransformerDecoder(
                None, VOCAB, MODEL, num_layers=1, embed_dim=Dim(3, name="embed"), share_embedding=True
            ),
            "share_embedding needs an input_embedding with the features of the output",
        ),
        (lambda: TransformerDecoder(None, VOCAB, MODEL, num_layers=1, layr_opts={}), "Did you mean 'layer_opts'"),
        (lambda: TransformerDecoderLayer(None, MODEL).transform_encoder(None, axis=VOCAB), "it attends to no encoder"),
    ],
)
def test_error_texts(make, text):
    with rf.backend_ctx("numpy"), pytest.raises((ConfigError, DimError), match=text):
        make()
