"""Operations which change dims and keep values."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tensor.dim_rules import at_least, at_most
from tests.frontend.op_case import Inputs, OpCase, op_case

_PAD_MODES = ("constant", "reflect", "symmetric", "replicate", "circular")


@op_case("merge_dims")
def merge_dims(inputs: Inputs) -> Any:
    time, feature = inputs.dynamic("time"), inputs.static("feature")
    axis, time2 = inputs.static("axis"), inputs.dynamic("time2")
    x = inputs.floats([inputs.batch, axis, time, feature])
    y = inputs.floats([inputs.batch, time, time2])
    return [
        rf.merge_dims(x, dims=[time, feature]),
        rf.merge_dims(x, dims=[feature, axis], out_dim=inputs.new_dim()),
        rf.merge_dims(x, dims=[axis, time]),  # the second has padded frames in between
        rf.merge_dims(x, dims=[time]),
        rf.merge_dims(y, dims=[time2, time]),
    ]


@op_case("merge_dims", "split_dims", same_order=True)
def merge_batch_and_time_and_back(inputs: Inputs) -> Tensor:
    time, feature = inputs.dynamic("time"), inputs.static("feature")
    x = inputs.floats([inputs.batch, time, feature])
    flat, flat_dim = rf.merge_dims(x, dims=[inputs.batch, time])
    return rf.split_dims(rf.tanh(flat), axis=flat_dim, dims=[inputs.batch, time])


@op_case("split_dims")
def split_dims(inputs: Inputs) -> list[Tensor]:
    outer, inner = inputs.static("outer"), inputs.static("inner")
    feature = outer * inner
    time = inputs.dynamic("time", high=7)
    x = inputs.floats([inputs.batch, time, feature])
    chunk = inputs.static("chunk", low=2, high=3)
    return [
        rf.split_dims(x, axis=feature, dims=[outer, inner]),
        rf.split_dims(x, axis=feature, dims=[inputs.new_dim("rest"), inner]),
        rf.split_dims(x, axis=time, dims=[inputs.new_dim("chunks"), chunk]),
        rf.split_dims(x, axis=time, dims=[chunk, inputs.new_dim("parts")], pad_value=2.0),
    ]


@op_case("merge_dims", "split_dims")
def merge_and_split_with_gaps(inputs: Inputs) -> Tensor:
    time, axis = inputs.dynamic("time"), inputs.static("axis")
    x = inputs.floats([inputs.batch, axis, time])
    flat, flat_dim = rf.merge_dims(x, dims=[axis, time])
    return rf.split_dims(flat, axis=flat_dim, dims=[axis, time])


@op_case("reshape")
def reshape(inputs: Inputs) -> list[Tensor]:
    a, b, c = inputs.static("a"), inputs.static("b"), inputs.static("c")
    time = inputs.dynamic("time")
    x = inputs.floats([inputs.batch, a, time, b * c])
    return [
        rf.reshape(x, [a, b * c], [b, c, a]),
        rf.reshape(x, [b * c, a], [a * b, c]),
        rf.reshape(x, [time, a], [time * a]),
    ]


@op_case("replace_dim", "set_sparse_dim")
def replace_dim(inputs: Inputs) -> list[Tensor]:
    time, feature = inputs.dynamic("time"), inputs.static("feature")
    labels = inputs.static("labels", 5)
    x = inputs.floats([inputs.batch, time, feature], feature_dim=feature)
    indices = inputs.sparse([inputs.batch, time], labels)
    return [
        rf.replace_dim(x, in_dim=feature, out_dim=inputs.new_dim())[0],
        rf.replace_dim(x, in_dim=time, out_dim=inputs.new_dim())[0],
        rf.replace_dim(indices, in_dim=labels, out_dim=inputs.new_dim("labels2", 5))[0],
        rf.set_sparse_dim(indices, None),
    ]


@op_case("slice", "pad")
def replace_dim_v2(inputs: Inputs) -> list[Tensor]:
    time, feature = inputs.dynamic("time"), inputs.static("feature", 3)
    x = inputs.floats([inputs.batch, time, feature])
    return [
        rf.replace_dim_v2(x, in_dim=feature, out_dim=inputs.new_dim("longer", 5)),
        rf.replace_dim_v2(x, in_dim=feature, out_dim=inputs.new_dim("shorter", 2)),
        rf.replace_dim_v2(x, in_dim=time, out_dim=at_most(time, 2)),
        rf.replace_dim_v2(rf.where(time.get_mask(), x, 0.0), in_dim=time, out_dim=at_least(time, 4)),
    ]


@op_case("concat")
def concat(inputs: Inputs) -> Any:
    time, time2, axis = inputs.dynamic("time"), inputs.dynamic("time2"), inputs.static("axis")
    feature = inputs.static("feature")
    dims = [inputs.batch, feature]
    x, y = inputs.floats([*dims, time]), inputs.floats([*dims, time2])
    z = inputs.floats([*dims, axis])
    return [
        rf.concat((x, time), (y, time2)),
        rf.concat((z, axis), (x, time), (y, time2), (z, axis), out_dim=inputs.new_dim()),
        rf.concat((z, axis), (inputs.floats([axis]), axis), allow_broadcast=True),
    ]


@op_case("concat")
def concat_features(inputs: Inputs) -> Tensor:
    features = [inputs.static("feature") for _ in range(3)]
    dims = [inputs.batch, inputs.dynamic("time")]
    return rf.concat_features(*(inputs.floats([*dims, f], feature_dim=f) for f in features))


@op_case("concat", per_sequence=False)
def concat_in_memory(inputs: Inputs) -> Dim:
    time, time2 = inputs.dynamic("time"), inputs.dynamic("time2")
    x, y = inputs.floats([inputs.batch, time]), inputs.floats([inputs.batch, time2])
    return rf.concat((x, time), (y, time2), handle_dynamic_dims=False)[1]


@op_case("concat")
def cum_concat_step(inputs: Inputs) -> Any:
    time, feature = inputs.dynamic("time"), inputs.static("feature")
    before = inputs.floats([inputs.batch, time, feature])
    frame = inputs.floats([inputs.batch, feature])
    return rf.cum_concat_step(frame, prev_accum=before, axis=time)


@op_case("split")
def split(inputs: Inputs) -> Any:
    a, b, c = inputs.static("a"), inputs.static("b"), inputs.static("c")
    x = inputs.floats([inputs.batch, inputs.dynamic("time"), a + b + c])
    return [
        rf.split(x, axis=a + b + c, out_dims=[a, b, c]),
        rf.split(x, axis=a + b + c, out_dims=[a, inputs.new_dim("rest"), c]),
    ]


@op_case("concat", "split")
def concat_and_split_sequences(inputs: Inputs) -> Any:
    time, time2, feature = inputs.dynamic("time"), inputs.dynamic("time2"), inputs.static("feature")
    x, y = inputs.floats([inputs.batch, time, feature]), inputs.floats([inputs.batch, time2, feature])
    both, both_dim = rf.concat((x, time), (y, time2))
    return rf.split(both, axis=both_dim, out_dims=[time, time2])


@op_case("stack", "unstack")
def stack(inputs: Inputs) -> Any:
    dims = inputs.dims(low=1)
    tensors = [inputs.floats(dims) for _ in range(inputs.number(1, 3))]
    stacked, stack_dim = rf.stack(tensors, out_dim=inputs.new_dim())
    return [stacked, rf.stack(tensors)[0], rf.unstack(rf.tanh(stacked), axis=stack_dim)]


def _pad_case(mode: str) -> OpCase:
    def run(inputs: Inputs) -> Any:
        time, feature = inputs.dynamic("time"), inputs.static("feature", low=3)
        x = inputs.floats([inputs.batch, time, feature])
        amounts = [(inputs.number(0, 2), inputs.number(0, 2)) for _ in range(3)]
        return [
            rf.pad(x, axes=[feature], padding=amounts[:1], mode=mode),
            rf.pad(x, axes=[time, feature], padding=amounts[1:], mode=mode, out_dims=[inputs.new_dim("t"), Dim(None)]),
        ]

    return OpCase(f"pad_{mode}", ("pad", "gather"), run)


pad_cases = [_pad_case(mode) for mode in _PAD_MODES]


@op_case("pad")
def pad_with_value(inputs: Inputs) -> Any:
    time, feature = inputs.dynamic("time"), inputs.static("feature")
    x = inputs.floats([inputs.batch, time, feature])
    one = inputs.static("one", 1)
    return [
        rf.pad(x, axes=[time], padding=[(inputs.number(0, 2), inputs.number(0, 2))], value=3.0),
        rf.pad(x, axes=[time], padding=[(one, 2)], value=inputs.floats([inputs.batch, feature])),
        rf.pad(x, axes=[feature], padding=1, value=inputs.floats([])),
    ]


@op_case("pad", "slice", "concat")
def shift(inputs: Inputs) -> list[Tensor]:
    time, feature = inputs.dynamic("time"), inputs.static("feature")
    x = inputs.floats([inputs.batch, time, feature])
    return [
        shift(x, axis=axis, pad_value=2.0, amount=inputs.number(1, 2))
        for shift in (rf.shift_left, rf.shift_right)
        for axis in (time, feature)
    ]


@op_case("pad", "pool", "sort")
def frames_where_the_lengths_differ_along_another_dim(inputs: Inputs) -> list[Any]:
    time, feature = inputs.dynamic(), inputs.static("feature")
    x = inputs.floats([time, feature], feature_dim=feature)
    return [
        rf.pad(x, axes=[time], padding=[(1, 2)], value=0.5),
        rf.pad(x, axes=[time], padding=[(1, 1)], mode="reflect"),
        rf.shift_right(x, axis=time, pad_value=0.0),
        rf.window(x, spatial_dim=time, window_dim=inputs.static("window", 3)),
        rf.pool1d(x, mode="avg", pool_size=2, padding="same", strides=1, in_spatial_dim=time),
        rf.sort(x, axis=time),
    ]


@op_case("pad", "slice")
def expand_make_non_empty(inputs: Inputs) -> Any:
    time = inputs.dynamic("time", low=0, high=inputs.number(0, 2))
    return rf.expand_make_non_empty(inputs.floats([inputs.batch, time]), axis=time)


_SLICES: list[dict[str, int]] = [
    {"start": 1}, {"end": -1}, {"end": 2}, {"start": 1, "end": -1}, {"start": 1, "end": 3}, {"step": 2},
    {"start": 1, "step": 2}, {"start": -2}, {"start": -2, "end": -1}, {"size": 2}, {"start": 1, "size": 2, "step": 2},
    {"start": -1, "size": 1},
]  # fmt: skip


@op_case("slice", "gather")
def slice(inputs: Inputs) -> Any:
    time, feature = inputs.dynamic("time", low=0), inputs.static("feature")
    x = inputs.floats([inputs.batch, time, feature])
    return [rf.slice(x, axis=axis, **options) for options in _SLICES for axis in (time, feature)]


@op_case("slice", "gather")
def slice_per_sequence(inputs: Inputs) -> Any:
    time, feature = inputs.dynamic("time"), inputs.static("feature")
    x = inputs.floats([inputs.batch, time, feature])
    start, size = inputs.ints([inputs.batch], low=-1, high=3), inputs.ints([inputs.batch], low=0, high=3)
    per_frame = inputs.ints([inputs.batch, time], low=-1, high=3)
    return [
        rf.slice(x, axis=time, start=start),
        rf.slice(x, axis=time, start=start, size=inputs.static("window")),
        rf.slice(x, axis=time, start=start, size=size),
        rf.slice(x, axis=time, end=size),
        rf.slice(x, axis=time, start=start, end=size, step=2),
        rf.slice(inputs.floats([feature]), axis=feature, start=per_frame, size=inputs.static("window")),
    ]


@op_case("flip_no_mask", "gather")
def reverse_sequence(inputs: Inputs) -> list[Tensor]:
    time, feature = inputs.dynamic("time"), inputs.static("feature")
    x = inputs.floats([inputs.batch, time, feature])
    return [rf.reverse_sequence(x, axis=axis) for axis in (time, feature)]
