"""
What comes out of operations: dims, feature dim (`F|`), dtype and sparse dim (`->`), by table.

All backends take it from the same rules, so comparing backends does not prove it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor, batch_dim

time = Dim(Tensor("time", [batch_dim], "int32"), name="time", kind=Dim.Types.Spatial)
enc = Dim(Tensor("enc", [batch_dim], "int32"), name="enc", kind=Dim.Types.Spatial)
feature = Dim(6, name="feature", kind=Dim.Types.Feature)
out = Dim(7, name="out", kind=Dim.Types.Feature)
labels_dim = Dim(9, name="labels", kind=Dim.Types.Feature)
two, three, static = Dim(2, name="two"), Dim(3, name="three"), Dim(4, name="static")

x = Tensor("x", [batch_dim, time, feature], "float32", feature_dim=feature)
y = Tensor("y", [batch_dim, enc, feature], "float32", feature_dim=feature)
bias = Tensor("bias", [feature], "float32")
frames = Tensor("frames", [batch_dim, time], "float32")
weights = Tensor("weights", [feature, out], "float32", feature_dim=out)
labels = Tensor("labels", [batch_dim, time], "int32", sparse_dim=labels_dim)
logits = Tensor("logits", [batch_dim, time, labels_dim], "float32", feature_dim=labels_dim)
embedding = Tensor("embedding", [labels_dim, feature], "float32", feature_dim=feature)
mask = Tensor("mask", [batch_dim, time], "bool")

CASES: dict[str, tuple[Callable[[], Any], str]] = {
    # Elementwise: the feature dim stays, labels stay labels as long as they are numbered in the same way.
    "tanh": (lambda: rf.tanh(x), "[B, time[B], F|feature(6)]"),
    "x + bias": (lambda: x + bias, "[B, time[B], F|feature(6)]"),
    "bias + x": (lambda: bias + x, "[B, time[B], F|feature(6)]"),
    "frames * x": (lambda: frames * x, "[B, time[B], F|feature(6)]"),
    "x > 0": (lambda: x > 0.0, "[B, time[B], F|feature(6)] bool"),
    "labels + 1": (lambda: labels + 1, "[B, time[B]] int32 -> labels(9)"),
    "labels * 2": (lambda: labels * 2, "[B, time[B]] int32"),
    "labels / 2": (lambda: labels / 2, "[B, time[B]]"),
    "labels == 3": (lambda: labels == 3, "[B, time[B]] bool"),
    "labels as float": (lambda: rf.cast(labels, "float32"), "[B, time[B]]"),
    "labels as int64": (lambda: rf.cast(labels, "int64"), "[B, time[B]] int64 -> labels(9)"),
    "where of labels": (lambda: rf.where(mask, labels, 0), "[B, time[B]] int32 -> labels(9)"),
    "where": (lambda: rf.where(mask, x, 0.0), "[B, time[B], F|feature(6)]"),
    "outer sum": (lambda: rf.combine_bc(frames, "+", bias), "[B, time[B], feature(6)]"),
    "clip": (lambda: rf.clip_by_value(x, -1.0, 1.0), "[B, time[B], F|feature(6)]"),
    "abs of complex": (lambda: rf.abs(rf.cast(x, "complex64")), "[B, time[B], F|feature(6)]"),
    # Reductions: the rest stays; an index is into the reduced dim.
    "sum over time": (lambda: rf.reduce_sum(x, axis=time), "[B, F|feature(6)]"),
    "sum over features": (lambda: rf.reduce_sum(x, axis=feature), "[B, time[B]]"),
    "sum over all": (lambda: rf.reduce_sum(x, axis=x.dims), "[]"),
    "argmax over labels": (lambda: rf.reduce_argmax(logits, axis=labels_dim), "[B, time[B]] int32 -> labels(9)"),
    "argmax over time": (lambda: rf.reduce_argmax(x, axis=time), "[B, F|feature(6)] int32 -> time[B]"),
    "max of labels": (lambda: rf.reduce_max(labels, axis=time), "[B] int32 -> labels(9)"),
    "mean of labels": (lambda: rf.reduce_mean(labels, axis=time), "[B]"),
    "any": (lambda: rf.reduce_any(mask, axis=time), "[B] bool"),
    "sum where only the lengths know the batch": (
        lambda: rf.reduce_sum(Tensor("p", [time, feature], "float32", feature_dim=feature), axis=time),
        "[B, F|feature(6)]",
    ),
    "mean over the batch": (lambda: rf.reduce_mean(x, axis=batch_dim), "[time[B], F|feature(6)]"),
    "top_k": (lambda: rf.top_k(logits, axis=labels_dim, k_dim=two)[0], "[B, time[B], two(2)]"),
    "indices of top_k": (
        lambda: rf.top_k(logits, axis=labels_dim, k_dim=two)[1],
        "[B, time[B], two(2)] int32 -> labels(9)",
    ),
    # Products: common dims, those of a, those of b; the features of the weights are those of the result.
    "matmul with weights": (lambda: rf.matmul(x, weights, reduce=feature), "[B, time[B], F|out(7)]"),
    "weights first": (lambda: rf.matmul(weights, x, reduce=feature), "[F|out(7), B, time[B]]"),
    "energy": (lambda: rf.matmul(x, y, reduce=feature), "[B, time[B], enc[B]]"),
    "context": (lambda: rf.matmul(rf.matmul(x, y, reduce=feature), y, reduce=enc), "[B, time[B], F|feature(6)]"),
    "outer product": (lambda: rf.matmul(frames, bias, reduce=()), "[B, time[B], feature(6)]"),
    # Picking and placing: the dims of the indices take the place of the axis.
    "embedding": (lambda: rf.gather(embedding, indices=labels), "[B, time[B], F|feature(6)]"),
    "frame by number": (lambda: rf.gather(x, indices=0, axis=time), "[B, F|feature(6)]"),
    "labels by position": (
        lambda: rf.gather(labels, indices=Tensor("i", [batch_dim, static], "int32", sparse_dim=time)),
        "[B, static(4)] int32 -> labels(9)",
    ),
    "one_hot": (lambda: rf.one_hot(labels), "[B, time[B], F|labels(9)]"),
    "range": (lambda: rf.range_over_dim(time), "[time[B]] int32 -> time[B]"),
    "concat of features": (
        lambda: rf.concat((x, feature), (logits, labels_dim))[0],
        "[B, time[B], F|feature+labels(15)]",
    ),
    "split of features": (lambda: rf.split(x, axis=feature, out_dims=[two, static])[1], "[B, time[B], F|static(4)]"),
    "merge_dims": (lambda: rf.merge_dims(x, dims=[time, feature])[0], "[B, F|time*feature]"),
    "split_dims": (lambda: rf.split_dims(x, axis=feature, dims=[two, three]), "[B, time[B], two(2), F|three(3)]"),
    "expand_dim": (lambda: rf.expand_dim(frames, static), "[B, time[B], static(4)]"),
    "replace_dim": (lambda: rf.replace_dim(x, in_dim=feature, out_dim=Dim(6, name="f2"))[0], "[B, time[B], F|f2(6)]"),
    # Losses.
    "cross entropy": (
        lambda: rf.cross_entropy(estimated=logits, target=labels, axis=labels_dim, estimated_type="logits"),
        "[B, time[B]]",
    ),
    "softmax": (lambda: rf.softmax(logits, axis=labels_dim), "[B, time[B], F|labels(9)]"),
}


@pytest.mark.parametrize("name", CASES)
def test_result(name: str) -> None:
    make, expected = CASES[name]
    assert make().get_description(with_name=False) == expected
