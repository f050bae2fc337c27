"""The texts of errors about wrong use of neural network operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.util.errors import ConfigError, DimError, DtypeError

time = Dim(None, name="time", kind=Dim.Types.Spatial)
labels_time = Dim(None, name="labels-time", kind=Dim.Types.Spatial)
feature = Dim(4, name="feature", kind=Dim.Types.Feature)
out = Dim(6, name="out", kind=Dim.Types.Feature)
size = Dim(3, name="size")
x = Tensor("x", [batch_dim, time, feature], "float32", feature_dim=feature)
plain = Tensor("plain", [batch_dim, time], "float32")
weights = Tensor("weights", [size, feature, out], "float32")
double = Tensor("double", [size, feature, out], "float64")
labels = Tensor("labels", [batch_dim, labels_time], "int32", sparse_dim=Dim(3, name="labels"))

CONV: dict[str, Any] = {
    "in_dim": feature, "out_dim": out, "in_spatial_dims": [time], "filter": weights, "filter_size": [size],
    "padding": "same",
}  # fmt: skip
CTC: dict[str, Any] = {
    "logits": x, "targets": labels, "input_spatial_dim": time, "targets_spatial_dim": labels_time, "blank_index": 3,
}  # fmt: skip
X, WEIGHTS = "'x' [B, time[?], F|feature(4)]", "'weights' [size(3), feature(4), out(6)]"
LABELS = "'labels' [B, labels-time[?]] int32 -> labels(3)"


def conv(**options: Any) -> Callable[[], Any]:
    return lambda: rf.conv(x, **{**CONV, **options})


def ctc(**options: Any) -> Callable[[], Any]:
    return lambda: rf.ctc_loss(**{**CTC, **options})


CASES: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    (
        "unknown padding",
        conv(padding="sane"),
        ConfigError,
        "conv: there is no padding 'sane'.\n  Did you mean 'same'?",
    ),
    (
        "convolution over a dim which is not there",
        conv(in_spatial_dims=[labels_time]),
        DimError,
        f"conv: in_spatial_dims: {X} has no dim labels-time[?].\n  It has just these dims.",
    ),
    (
        "convolution of a dim which is not there",
        conv(in_dim=out),
        DimError,
        f"conv: in_dim: {X} has no dim out(6).\n  It has just these dims.",
    ),
    (
        "filter without its size",
        conv(filter_size=[Dim(3, name="other")]),
        DimError,
        f"conv: the filter {WEIGHTS} has no dim other(3), which filter_size says.",
    ),
    (
        "filter without out dim",
        conv(out_dim=Dim(6, name="other")),
        DimError,
        f"conv: the filter {WEIGHTS} should have the dims size(3), one for the input, and other(6).",
    ),
    (
        "filter of another dtype",
        conv(filter=double),
        DtypeError,
        f"conv: the dtypes of {X} and 'double' [size(3), feature(4), out(6)] float64 differ.\n"
        "  Use rf.cast on one of them.",
    ),
    (
        "groups which do not divide the features",
        conv(groups=3),
        DimError,
        "conv: feature(4) and out(6) cannot both be divided into 3 groups.",
    ),
    (
        "filter for other groups",
        conv(groups=2),
        DimError,
        f"conv: the filter {WEIGHTS} takes 4 features, but feature(4) in 2 groups are 2 each.",
    ),
    (
        "stride of zero",
        conv(strides=0),
        DimError,
        "conv: strides 0 should be a number from 1 on, or one for each of 1 axes.",
    ),
    (
        "bias with another dim",
        conv(bias=Tensor("bias", [feature], "float32")),
        DimError,
        "conv: the bias 'bias' [feature(4)] should have the dim out(6).",
    ),
    (
        "wrong number of out dims",
        conv(out_spatial_dims=[]),
        DimError,
        "conv: 1 spatial dims come in, but 0 should come out.",
    ),
    (
        "output padding for another number of axes",
        lambda: rf.transposed_conv(x, **CONV, output_padding=[1, 1]),
        DimError,
        "transposed_conv: output_padding [1, 1] should be one number, or one for each of 1 axes.",
    ),
    (
        "unknown mode of pooling",
        lambda: rf.pool(x, mode="mean", pool_size=2, in_spatial_dims=[time]),
        ConfigError,
        "pool: there is no mode 'mean'.\n  Possible: avg, max.",
    ),
    (
        "pooling over another number of dims",
        lambda: rf.pool2d(x, mode="max", pool_size=2, in_spatial_dims=[time]),
        DimError,
        "pool: 2 spatial dims are wanted, but in_spatial_dims are 1.",
    ),
    (
        "cross entropy between all pairs of frames and labels",
        lambda: rf.cross_entropy(
            estimated=x, target=labels.copy_with_roles(sparse_dim=feature), axis=feature, estimated_type="logits"
        ),
        DimError,
        f"cross_entropy: {X} has time[?], 'labels' [B, labels-time[?]] int32 -> feature(4) has labels-time[?].\n"
        "  If they are as long as each other, they have to be the same dim, by rf.replace_dim, or in data by "
        "'same_dim_tags_as'. For all pairs of both, there is rf.expand_dims.",
    ),
    (
        "logits without classes",
        ctc(logits=plain),
        DimError,
        "ctc_loss: 'plain' [B, time[?]] has no feature dim, which would be the classes.",
    ),
    (
        "blank which is no class",
        ctc(blank_index=4),
        DimError,
        f"ctc_loss: blank_index 4 is not one of the classes feature(4) of {X}.",
    ),
    (
        "targets which are no labels",
        ctc(targets=plain, targets_spatial_dim=time),
        DtypeError,
        "ctc_loss: the targets 'plain' [B, time[?]] should be labels, as integers.",
    ),
    (
        "edit distance of floats",
        lambda: rf.edit_distance(plain, time, labels, labels_time),
        DtypeError,
        "edit_distance: 'plain' [B, time[?]] should be labels, as integers.",
    ),
    (
        "transform which is shorter than the frame",
        lambda: rf.stft(plain, in_spatial_dim=time, frame_step=1, frame_length=5, fft_length=4),
        DimError,
        "stft: fft_length 4 should be at least frame_length 5.",
    ),
    (
        "spectrum of labels",
        lambda: rf.stft(labels, in_spatial_dim=labels_time, frame_step=1, frame_length=5, use_mask=False),
        DtypeError,
        f"stft: {LABELS} should be float32 or float64. Use rf.cast first.",
    ),
    (
        "mel filters over another number of frequencies",
        lambda: rf.audio.mel_filterbank(x, in_dim=feature, out_dim=size, sampling_rate=8000, fft_length=8),
        DimError,
        "mel_filterbank: with fft_length 8, feature(4) should have the size 5.",
    ),
]


@pytest.mark.parametrize(("name", "call", "error", "text"), CASES, ids=[case[0] for case in CASES])
def test_text(name: str, call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with rf.backend_ctx("template"), pytest.raises(error) as info:
        call()
    assert str(info.value) == text
    assert len(text.splitlines()) <= 5
