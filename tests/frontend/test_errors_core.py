"""The texts of errors about wrong dims and dtypes, in the core operations."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import tensorflow as tf
import torch

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.util.errors import ConfigError, DimError, DtypeError, UserError

time = Dim(None, name="time", kind=Dim.Types.Spatial)
enc = Dim(None, name="encoder", kind=Dim.Types.Spatial)
feature = Dim(5, name="feature", kind=Dim.Types.Feature)
other_feature = Dim(5, name="feature")
out = Dim(7, name="out", kind=Dim.Types.Feature)
x = Tensor("x", [batch_dim, time, feature], "float32", feature_dim=feature)
y = Tensor("y", [batch_dim, enc, feature], "float32")
z = Tensor("z", [batch_dim, time, other_feature], "float32")
weights = Tensor("weights", [Dim(5, name="features"), out], "float32")
labels = Tensor("labels", [batch_dim, time], "int32", sparse_dim=out)
mask = Tensor("mask", [batch_dim, time], "bool")

MEANT_ADD = 'If this is meant: rf.combine_bc(a, "add", b), or in a layer "allow_broadcast_all_sources": True.'
X, Y, LABELS = (
    "'x' [B, time[?], F|feature(5)]",
    "'y' [B, encoder[?], feature(5)]",
    "'labels' [B, time[?]] int32 -> out(7)",
)

CASES: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    (
        "matmul with a dim that one operand lacks",
        lambda: rf.matmul(x, weights, reduce=feature),
        DimError,
        f"matmul: reduce: 'weights' [features(5), out(7)] has no dim feature(5).\n"
        f"  Did you mean features(5)?\n"
        f"  The operands are {X} and 'weights' [features(5), out(7)].",
    ),
    (
        "matmul of two dtypes",
        lambda: rf.matmul(x, labels, reduce=time),
        DtypeError,
        f"matmul: the dtypes float32 and int32 differ.\n  {X} and {LABELS}.\n  Use rf.cast on one of them.",
    ),
    (
        "addition where each operand has a dim of its own",
        lambda: x + y,
        DimError,
        f"add: the dims do not match.\n  {X} has no encoder[?].\n  {Y} has no time[?].\n  {MEANT_ADD}",
    ),
    (
        "disjunction where each operand has a dim of its own",
        lambda: rf.logical_or(mask, y > 0.0),
        DimError,
        f"logical_or: the dims do not match.\n  'mask' [B, time[?]] bool has no encoder[?], feature(5).\n"
        "  'greater' [B, encoder[?], feature(5)] bool has no time[?].\n"
        f"  {MEANT_ADD.replace('add', 'logical_or')}",
    ),
    (
        "comparison where each operand has a dim of its own",
        lambda: x <= y,
        DimError,
        f"less_equal: the dims do not match.\n  {X} has no encoder[?].\n  {Y} has no time[?].\n"
        f"  {MEANT_ADD.replace('combine', 'compare').replace('add', 'less_equal')}",
    ),
    (
        "clipping where each operand has a dim of its own",
        lambda: rf.clip_by_value(x, y, 1.0),
        DimError,
        f"clip_by_value: the dims do not match.\n  {X} has no encoder[?].\n  {Y} has no time[?].\n"
        "  If this is meant: allow_broadcast_all_sources=True.",
    ),
    (
        "complex numbers where each operand has a dim of its own",
        lambda: rf.make_complex(x, y),
        DimError,
        f"make_complex: the dims do not match.\n  {X} has no encoder[?].\n  {Y} has no time[?].\n"
        "  If this is meant: use rf.expand_dim first.",
    ),
    (
        "addition with different dims of the same name",
        lambda: x + z,
        DimError,
        f"add: the dims do not match.\n  {X} has no feature(5).\n  'z' [B, time[?], feature(5)] has no feature(5).\n"
        "  The dims named 'feature' are different ones. "
        f"{MEANT_ADD}",
    ),
    (
        "where with three operands",
        lambda: rf.where(mask, x, y),
        DimError,
        f"where: the dims do not match.\n  {X} has no encoder[?].\n  {Y} has no time[?].\n"
        "  'mask' [B, time[?]] bool has no feature(5), encoder[?].\n"
        "  If this is meant: allow_broadcast_all_sources=True.",
    ),
    (
        "addition of two dtypes",
        lambda: x + labels,
        DtypeError,
        f"add: the dtypes float32 and int32 differ.\n  {X} and {LABELS}.\n  Use rf.cast on one of them.",
    ),
    (
        "comparison of two dtypes",
        lambda: x < labels,
        DtypeError,
        f"less: the dtypes float32 and int32 differ.\n  {X} and {LABELS}.\n  Use rf.cast on one of them.",
    ),
    (
        "arithmetic on bool",
        lambda: mask + mask,
        DtypeError,
        "add: 'mask' [B, time[?]] bool and 'mask' [B, time[?]] bool are bool.\n"
        "  Use rf.cast first, or logical_and / logical_or.",
    ),
    (
        "maximum of bool",
        lambda: rf.maximum(mask, mask),
        DtypeError,
        "maximum: 'mask' [B, time[?]] bool and 'mask' [B, time[?]] bool are bool.\n"
        "  Use rf.cast first, or logical_and / logical_or.",
    ),
    (
        "order of bool",
        lambda: mask < mask,
        DtypeError,
        "less: 'mask' [B, time[?]] bool should not be bool.\n  Use rf.cast first.",
    ),
    (
        "function of numbers on bool",
        lambda: -mask,
        DtypeError,
        "neg: 'mask' [B, time[?]] bool should not be bool.\n  Use rf.cast first, or rf.logical_not.",
    ),
    (
        "sum of bool",
        lambda: rf.reduce_sum(mask, axis=time),
        DtypeError,
        "reduce_sum: 'mask' [B, time[?]] bool should not be bool.\n"
        "  Use rf.cast first, or rf.reduce_any or rf.reduce_all.",
    ),
    (
        "logsumexp of integers",
        lambda: rf.reduce_logsumexp(labels, axis=time),
        DtypeError,
        f"reduce_logsumexp: {LABELS} is int32, but should be a float. Use rf.cast first.",
    ),
    (
        "matmul of bool",
        lambda: rf.matmul(mask, mask, reduce=time),
        DtypeError,
        "matmul: 'mask' [B, time[?]] bool and 'mask' [B, time[?]] bool are bool.\n  Use rf.cast on both first.",
    ),
    *(
        (
            f"{name} of bool",
            make,
            DtypeError,
            f"{name}: 'mask' [B, time[?]] bool should not be bool.\n  Use rf.cast first.",
        )
        for name, make in (
            ("cumsum", lambda: rf.cumsum(mask, spatial_dim=time)),
            ("sort", lambda: rf.sort(mask, axis=time)),
            ("top_k", lambda: rf.top_k(mask, axis=time, k=1)),
            ("clip_by_value", lambda: rf.clip_by_value(mask, False, True)),
        )
    ),
    (
        "padding with a value of another dtype",
        lambda: rf.pad(mask, axes=[time], padding=1, value=0),
        DtypeError,
        "pad: the dtypes of 'mask' [B, time[?]] bool and the value 0 differ.\n  Use rf.cast on one of them.",
    ),
    (
        "logical operation on floats",
        lambda: rf.logical_and(x, x),
        DtypeError,
        f"logical_and: {X} and {X} should be bool. Compare with something first, such as `x > 0`.",
    ),
    (
        "function of floats on integers",
        lambda: rf.sqrt(labels),
        DtypeError,
        f"sqrt: {LABELS} should be a float. Use rf.cast first.",
    ),
    (
        "not of a float",
        lambda: rf.logical_not(x),
        DtypeError,
        f"logical_not: {X} should be bool. Compare with something first, such as `x > 0`.",
    ),
    (
        "reduction over a dim that is not there",
        lambda: rf.reduce_sum(x, axis=enc),
        DimError,
        f"reduce_sum: axis: {X} has no dim encoder[?].\n  It has just these dims.",
    ),
    (
        "reduction over a dim that has only the name of one that is there",
        lambda: rf.reduce_max(x, axis=other_feature),
        DimError,
        f"reduce_max: axis: {X} has no dim feature(5).\n"
        "  A dim of the tensor is named 'feature' too, but it is another one.",
    ),
    (
        "reduction by a mode that does not exist",
        lambda: rf.reduce(x, mode="median", axis=time),
        DimError,
        "reduce: there is no mode 'median'.\n  Possible: sum, max, min, mean, logsumexp, any, all, argmin, argmax.",
    ),
    (
        "any of floats",
        lambda: rf.reduce_any(x, axis=time),
        DtypeError,
        f"reduce_any: {X} should be bool. Compare with something first, such as `x > 0`.",
    ),
    (
        "index into two dims",
        lambda: rf.reduce_argmax(x, axis=[time, feature]),  # type: ignore[arg-type]
        DimError,
        "reduce_argmax: an index is into one dim, got time[?], feature(5).\n  Use rf.merge_dims first.",
    ),
    (
        "condition that is no bool",
        lambda: rf.where(x, x, 0),
        DtypeError,
        f"where: the condition {X} should be bool.",
    ),
    (
        "adding a dim that is there",
        lambda: rf.expand_dim(x, feature),
        DimError,
        f"expand_dim: {X} has the dim feature(5) already.",
    ),
    (
        "removing a dim that is not of size 1",
        lambda: rf.squeeze(x, feature),
        DimError,
        f"squeeze: {X}: only a dim of size 1 can be removed, not feature(5).",
    ),
    (
        "an array as operand",
        lambda: x + numpy.zeros(3),
        DimError,
        "an operand is a tensor or a number, not an array of shape (3,).\n  Use rf.constant.",
    ),
    (
        "a dim without lengths",
        lambda: rf.range_over_dim(time),
        DimError,
        "dim time[?]: its lengths are not known.\n"
        "  Give them (dim.dyn_size_ext = lengths), or use the dim of a tensor that has them.",
    ),
    (
        "combination that does not exist",
        lambda: rf.combine(x, "logical_xor", x),
        UserError,
        "combine: there is no kind 'logical_xor'.\n  Did you mean 'logical_or' or 'logical_and'?",
    ),
    (
        "a dim of a sum whose lengths are not known",
        lambda: (time + 1).get_dim_value(),
        DimError,
        "dim time+1: its lengths are not known.\n"
        "  Give them (dim.dyn_size_ext = lengths), or use the dim of a tensor that has them.",
    ),
]


SIZES = {batch_dim: 2, time: 3, enc: 4}
for_all_errors = pytest.mark.parametrize(
    ("make", "error", "text"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)


@pytest.fixture(params=["template", "numpy", "torch", "tf"])
def values(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The tensors have values of the backend."""
    make = {"template": lambda _: None, "numpy": lambda value: value, "torch": torch.tensor, "tf": tf.constant}
    ctx = contextlib.nullcontext() if request.param == "template" else rf.backend_ctx(request.param)
    with ctx, tf.Graph().as_default():
        for tensor in (x, y, z, weights, labels, mask):
            value = numpy.zeros([SIZES.get(dim, dim.size) for dim in tensor.dims], tensor.dtype)
            monkeypatch.setattr(tensor, "_raw_tensor", make[request.param](value))
        yield


@for_all_errors
@pytest.mark.usefixtures("values")
def test_text_of_error(make: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == text
    assert len(text.splitlines()) <= 5


def test_backends_that_are_not_there() -> None:
    with pytest.raises(ConfigError, match=r"^select_backend_jax: there is no backend for JAX\.\n  Possible: select_"):
        rf.select_backend_jax()
    with pytest.raises(ConfigError, match=r"there is no backend 'pytorch'\.\n  Did you mean 'torch'\?"):
        rf.select_backend("pytorch")
