"""What array operations say about wrong use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.util.errors import DimError, DtypeError

time = Dim(Tensor("lengths", [batch_dim], "int32"), name="time")
feature = Dim(6, name="feature")
other = Dim(6, name="other")
four = Dim(4, name="four")
x = Tensor("x", [batch_dim, time, feature], "float32")
ints = Tensor("ints", [batch_dim, time], "int32")
mask = Tensor("mask", [batch_dim, time], "bool")

X = "'x' [B, time[B], feature(6)]"
INTS = "'ints' [B, time[B]] int32"
MASK = "'mask' [B, time[B]] bool"

_CASES: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    (
        "merge_dims", lambda: rf.merge_dims(x, dims=[feature, other]), DimError,
        f"merge_dims: {X} has no dim other(6).\n  It has just these dims.",
    ),
    (
        "split_dims size", lambda: rf.split_dims(x, axis=feature, dims=[Dim(None, name="rest"), four]), DimError,
        f"split_dims: {X}: feature(6) cannot be divided into rest[?], four(4).",
    ),
    (
        "split_dims product", lambda: rf.split_dims(x, axis=feature, dims=[four, four]), DimError,
        f"split_dims: {X}: feature(6) has 6 entries, but four(4), four(4) has 16.",
    ),
    (
        "split_dims unknown", lambda: rf.split_dims(x, axis=time, dims=[Dim(None, name="a"), Dim(None, name="b")]),
        DimError, f"split_dims: {X}: the sizes of a[?], b[?] are not known.",
    ),
    (
        "reshape", lambda: rf.reshape(x, [feature], [four, Dim(2, name="two")]), DimError,
        f"reshape: {X}: feature(6) has 6 entries, but four(4), two(2) has 8.",
    ),
    ("reshape nothing", lambda: rf.reshape(x, [], [four]), DimError,
     f"reshape: {X}: in_dims is empty.\n  To add a dim, use rf.expand_dim."),
    (
        "concat", lambda: rf.concat((x, feature), (rf.zeros([batch_dim, four]), four)), DimError,
        f"concat: 'full' [B, four(4)] along four(4) does not fit to {X} along feature(6).\n"
        "  The other dims have to be the same; or, with allow_broadcast=True, a part of them.",
    ),
    (
        "concat dtype", lambda: rf.concat((x, time), (rf.cast(x, "int32"), time)), DtypeError,
        f"concat: the dtypes of {X} and {X} int32 differ.\n  Use rf.cast on one of them.",
    ),
    ("concat nothing", lambda: rf.concat(), DimError, "concat: there are no sources."),
    ("concat_features", lambda: rf.concat_features(x), DimError,
     f"concat_features: {X} has no feature dim.\n  Use rf.concat with dims."),
    (
        "concat out_dim", lambda: rf.concat((x, feature), (x, feature), out_dim=four), DimError,
        "concat: the out dim four(4) should have the size 12.",
    ),
    ("split", lambda: rf.split(x, axis=feature, out_dims=[four, four]), DimError,
     f"split: {X}: the sizes of four(4), four(4) do not sum up to that of feature(6)."),
    ("stack", lambda: rf.stack([x, ints]), DimError,
     f"stack: the dims of {X} and {INTS} differ.\n  Use rf.expand_dim where one is missing."),
    ("unstack", lambda: rf.unstack(x, axis=time), DimError,
     f"unstack: {X}: time[B] has no fixed size, so the number of tensors is not known."),
    ("pad mode", lambda: rf.pad(x, axes=[time], padding=1, mode="mirror"), DimError,
     "pad: there is no mode 'mirror'.\n  Possible: constant, reflect, symmetric, replicate, circular."),
    ("pad number", lambda: rf.pad(x, axes=[time, feature], padding=[(1, 1)]), DimError,
     "pad: 2 axes, 1 pairs of padding, 2 out_dims: differ."),
    ("slice end and size", lambda: rf.slice(x, axis=time, end=3, size=2), DimError,
     f"slice: {X}: give either the end or the size."),
    ("slice step", lambda: rf.slice(x, axis=time, step=-1), DimError,
     f"slice: {X}: step -1, size None: cannot be negative. See rf.reverse_sequence."),
    ("gather axis", lambda: rf.gather(x, indices=ints), DimError,
     f"gather: {X}: the axis is missing.\n  Give it, or indices with a sparse dim."),
    ("gather index", lambda: rf.gather(x, indices=6, axis=feature), DimError,
     f"gather: {X}: there is no index 6 in feature(6)."),
    ("gather dtype", lambda: rf.gather(x, indices=rf.zeros([batch_dim]), axis=time), DtypeError,
     "gather: the indices 'full' [B] should be integers. Use rf.cast first."),
    ("scatter mode", lambda: rf.scatter(x, indices=ints, indices_dim=time, out_dim=four, mode="mean"), DimError,
     "scatter: there is no mode 'mean'.\n  Possible: sum, max, min."),
    ("scatter out_dim", lambda: rf.scatter(x, indices=ints, indices_dim=time), DimError,
     f"scatter: the out dim is missing: {INTS}.\n  Give it, or indices with a sparse dim."),
    ("masked_select dtype", lambda: rf.masked_select(x, mask=ints, dims=[batch_dim, time]), DtypeError,
     f"masked_select: the mask {INTS} should be bool. Compare with something first, such as `x > 0`."),
    ("masked_scatter dims", lambda: rf.masked_scatter(x, mask=mask, dims=[batch_dim, four], in_dim=feature), DimError,
     f"masked_scatter: {MASK} has no dim four(4).\n  It has just these dims."),
    ("search_sorted side", lambda: rf.search_sorted(ints, ints, axis=time, side="middle"), DimError,
     "search_sorted: there is no side 'middle'.\n  Possible: left, right."),
    ("top_k", lambda: rf.top_k(x, axis=feature, k=7), DimError, f"top_k: {X}: there are no 7 entries in feature(6)."),
    ("top_k nothing", lambda: rf.top_k(x, axis=feature), DimError, f"top_k: {X}: give k or k_dim."),
    ("window", lambda: rf.window(x, spatial_dim=time, window_dim=four, window_left=2, window_right=2), DimError,
     "window: 2 frames before and 2 behind do not fit into a window of 4."),
    ("one_hot", lambda: rf.one_hot(ints), DimError, f"one_hot: {INTS} has no sparse dim.\n  See rf.set_sparse_dim."),
    ("set_sparse_dim", lambda: rf.set_sparse_dim(x, four), DtypeError,
     f"set_sparse_dim: {X} should have integers, as indices into four(4)."),
    ("gating", lambda: rf.gating(x), DimError, f"gating: {X} has no feature dim.\n  Give the axis."),
    ("make_complex", lambda: rf.make_complex(x, ints), DtypeError,
     f"make_complex: {X} and {INTS} should both be float32, or both float64."),
    ("nested", lambda: rf.nested.where_nested({"a": x}, {"b": x}, condition=mask), DimError,
     "nested structures differ: the keys ['a'] and ['b']."),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), [case[1:] for case in _CASES], ids=[case[0] for case in _CASES])
def test_error_text(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with rf.backend_ctx("template"), pytest.raises(error) as info:
        call()
    assert str(info.value) == text
    assert text.count("\n") < 5


_WITH_AXIS: dict[str, Callable[[Any], Any]] = {
    "reduce_sum": lambda axis: rf.reduce_sum(x, axis=axis),
    "softmax": lambda axis: rf.softmax(x, axis=axis),
    "matmul": lambda axis: rf.matmul(x, x, reduce=axis),
    "gather": lambda axis: rf.gather(x, indices=ints, axis=axis),
    "pad": lambda axis: rf.shift_right(x, axis=axis, pad_value=0.0),
    "top_k": lambda axis: rf.top_k(x, axis=axis, k=2),
    "expand_dim": lambda axis: rf.expand_dim(x, axis),
    "dropout": lambda axis: rf.dropout(x, 0.5, axis=axis, on_forward=True),
    "concat": lambda axis: rf.concat((x, axis), (x, axis)),
}


@pytest.mark.parametrize(("axis", "found"), [("T", "time[B]"), (2, "feature(6)"), ("nothing", None), (object, None)])
@pytest.mark.parametrize("name", _WITH_AXIS)
def test_what_is_no_dim_is_said_with_the_dim_that_may_be_meant(name: str, axis: Any, found: str | None) -> None:
    with rf.backend_ctx("template"), pytest.raises(DimError) as info:
        _WITH_AXIS[name](axis)
    first, second = str(info.value).splitlines()[:2]
    assert first.startswith(name)
    assert first.endswith(f"expected a dim, got {axis!r}.")
    is_one = f"x.get_dim_tag_from_description({axis!r}) of {X} is {found}."
    assert second.strip() == (f"The dims of {X} are batch, time[B], feature(6)." if found is None else is_one)


def test_range_over_what_is_no_dim() -> None:
    with pytest.raises(DimError, match="range_over_dim: expected a dim, got 5"):
        rf.range_over_dim(5)
