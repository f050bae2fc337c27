"""Operations which pick values, by index, by mask, by order."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.tensor import Tensor
from tests.frontend.op_case import Inputs, OpCase, op_case


@op_case("gather")
def gather(inputs: Inputs) -> list[Tensor]:
    time = inputs.dynamic("time", low=1)  # there is no index into an empty sequence
    time2, feature = inputs.dynamic("time2"), inputs.static("feature")
    axis = inputs.static("axis")
    x = inputs.floats([inputs.batch, time, axis, feature], feature_dim=feature)
    weight = inputs.floats([feature, axis], feature_dim=axis)
    return [
        rf.gather(x, indices=inputs.sparse([inputs.batch, time2], time)),
        rf.gather(x, indices=inputs.sparse([inputs.batch], time)),
        rf.gather(x, indices=inputs.sparse([time2, inputs.batch, axis], time)),
        rf.gather(x, indices=inputs.sparse([inputs.batch, time], time)),
        rf.gather(x, indices=inputs.sparse([], feature)),
        rf.gather(x, indices=inputs.number(0, feature.size - 1), axis=feature),
        rf.gather(rf.range_over_dim(feature), indices=inputs.sparse([], feature)),  # nothing is left of the dims
        rf.gather(weight, indices=inputs.sparse([inputs.batch, time], feature)),
        rf.gather(weight, indices=inputs.sparse([inputs.batch, time], feature, dtype="int64")),
    ]


@op_case("gather")
def gather_from_sequences_of_the_same_lengths(inputs: Inputs) -> list[Tensor]:
    time, feature = inputs.dynamic("time"), inputs.static("feature")
    indices = inputs.sparse([inputs.batch, time], time)
    return [
        rf.gather(inputs.floats([inputs.batch, time, feature]), indices=indices),
        rf.gather(inputs.floats([time, inputs.batch]), indices=indices),
    ]


@op_case("gather")
def gather_clip_to_valid(inputs: Inputs) -> list[Tensor]:
    time, feature = inputs.dynamic("time"), inputs.static("feature")
    x = inputs.floats([inputs.batch, time, feature])
    indices = inputs.ints([inputs.batch, inputs.dynamic("time2")], low=-2, high=6)
    return [
        rf.gather(x, indices=indices, axis=time, clip_to_valid=True),
        rf.gather(x, indices=indices, axis=feature, clip_to_valid=True),
        rf.gather(x, indices=inputs.ints([inputs.static("other")], low=-2, high=6), axis=time, clip_to_valid=True),
        rf.gather(x, indices=rf.last_frame_position_of_dim(time), clip_to_valid=True),
    ]


def _scatter_case(mode: str) -> OpCase:
    def run(inputs: Inputs) -> list[Tensor]:
        time, feature, out = inputs.dynamic("time"), inputs.static("feature"), inputs.static("out")
        x = inputs.floats([inputs.batch, time, feature])
        indices = inputs.sparse([inputs.batch, time], out)
        return [
            rf.scatter(x, indices=indices, indices_dim=time, mode=mode, fill_value=inputs.choice([None, 2.0])),
            rf.scatter(x, indices=inputs.sparse([feature], out), indices_dim=feature, mode=mode, fill_value=1.0),
            rf.scatter(x, indices=rf.set_sparse_dim(indices, None), indices_dim=[time], mode=mode, out_dim=out),
        ]

    return OpCase(f"scatter_{mode}", ("scatter",), run)


scatter_cases = [_scatter_case(mode) for mode in ("sum", "max", "min")]


@op_case("scatter", per_sequence=False)
def scatter_over_batch(inputs: Inputs) -> list[Tensor]:
    time, feature = inputs.dynamic("time"), inputs.static("feature")
    a, b = inputs.static("a"), inputs.static("b")
    x = inputs.floats([inputs.batch, time, feature])
    indices = inputs.ints([inputs.batch, time], low=0, high=a.size * b.size - 1)
    ints = inputs.ints([inputs.batch, time], low=-9, high=9)
    dims = [inputs.batch, time]
    return [
        rf.scatter(x, indices=indices, indices_dim=dims, out_dim=[a, b]),
        rf.scatter(ints, indices=indices, indices_dim=dims, out_dim=a * b, mode="max"),
        rf.scatter_count(indices=indices, indices_dim=dims, out_dim=[a, b]),
    ]


@op_case("scatter")
def scatter_to_sequence(inputs: Inputs) -> list[Tensor]:
    time, time2 = inputs.dynamic("time"), inputs.dynamic("time2", low=1)  # there is no index into an empty sequence
    x = inputs.floats([inputs.batch, time])
    return [
        rf.scatter(x, indices=inputs.sparse([inputs.batch, time], time2), indices_dim=time),
        rf.scatter(x, indices=inputs.sparse([inputs.batch, time], time), indices_dim=time),
    ]


@op_case("scatter", "gather")
def scatter_statistics(inputs: Inputs) -> list[Tensor]:
    time, feature, out = inputs.dynamic("time"), inputs.static("feature"), inputs.static("out")
    x = inputs.floats([inputs.batch, time, feature])
    options: dict[str, Any] = {"indices": inputs.sparse([inputs.batch, time], out), "indices_dim": time}
    fill_value = inputs.choice([None, 2.0])
    return [
        rf.scatter_mean(x, fill_value=fill_value, **options),
        rf.scatter_logsumexp(x, fill_value=fill_value, **options),
        rf.scatter_logmeanexp(x, fill_value=fill_value, **options),
        rf.scatter_argmax(x, **options),
        rf.scatter_count(**options),
    ]


@op_case("masked_select", "masked_scatter", per_sequence=False, same_order=True)
def masked_select_over_batch(inputs: Inputs) -> Any:
    time, feature = inputs.dynamic("time"), inputs.static("feature")
    dims = [inputs.batch, time]
    x, mask = inputs.floats([*dims, feature]), inputs.bools(dims)
    selected, out_dim = rf.masked_select(x, mask=mask, dims=dims, out_dim=inputs.new_dim())
    backup = inputs.floats([time, inputs.batch])
    return [
        rf.reduce_sum(selected, axis=out_dim),
        rf.masked_scatter(rf.tanh(selected), mask=mask, dims=dims, in_dim=out_dim),
        rf.masked_scatter(rf.tanh(selected), backup, mask=mask, dims=dims, in_dim=out_dim),
    ]


@op_case("masked_select", "masked_scatter", "scatter")
def masked_select_in_sequences(inputs: Inputs) -> Any:
    time, feature = inputs.dynamic("time"), inputs.static("feature")
    x, mask = inputs.floats([inputs.batch, time, feature]), inputs.bools([inputs.batch, time])
    selected, out_dim = rf.masked_select(x, mask=mask, dims=[time])
    backup = inputs.floats([inputs.batch, time])
    return [
        selected,
        rf.masked_scatter(rf.tanh(selected), mask=mask, dims=[time], in_dim=out_dim),
        rf.masked_scatter(rf.tanh(selected), backup, mask=mask, dims=[time], in_dim=out_dim),
    ]


@op_case("masked_select", "masked_scatter", per_sequence=False)
def pack_and_pad(inputs: Inputs) -> list[Tensor]:
    time, feature = inputs.dynamic("time"), inputs.static("feature")
    x = inputs.floats([inputs.batch, time, feature])
    packed, packed_dim = rf.pack_padded(x, dims=[inputs.batch, time])
    sorted_, sorted_dim = rf.pack_padded(x, dims=[inputs.batch, time], enforce_sorted=True)
    return [
        rf.reduce_max(packed, axis=packed_dim),
        rf.reduce_max(sorted_, axis=sorted_dim),
        rf.pad_packed(packed, in_dim=packed_dim, dims=[inputs.batch, time]),
    ]


@op_case("sort", "gather")
def sort(inputs: Inputs) -> Any:
    time, feature = inputs.dynamic("time"), inputs.static("feature")
    x, y = inputs.floats([inputs.batch, time, feature]), inputs.ints([inputs.batch, time])
    return [
        rf.sort(z, axis=axis, descending=descending)
        for z, axes in ((x, (time, feature)), (y, (time,)))
        for axis in axes
        for descending in (False, True)
    ]


@op_case("search_sorted", "sort")
def search_sorted(inputs: Inputs) -> list[Tensor]:
    time, time2, axis = inputs.dynamic("time"), inputs.dynamic("time2"), inputs.static("axis")
    rows, _ = rf.sort(inputs.ints([inputs.batch, time, axis], low=-9, high=9), axis=time)
    values = inputs.ints([inputs.batch, time2], low=-9, high=9)
    floats, _ = rf.sort(inputs.floats([axis]), axis=axis)
    return [
        rf.search_sorted(rows, values, axis=time),
        rf.search_sorted(rows, values, axis=time, side="right", out_dtype="int64"),
        rf.search_sorted(floats, inputs.floats([inputs.batch, time2]), axis=axis),
    ]


@op_case("top_k")
def top_k(inputs: Inputs) -> Any:
    time, feature = inputs.dynamic("time"), inputs.static("feature", low=2)
    x = inputs.floats([inputs.batch, time, feature], feature_dim=feature)
    k = inputs.number(1, 2)

    def with_known_indices(axis: Any) -> list[Tensor]:
        """Where there are not enough frames, an index can be anything."""
        values, indices, _ = rf.top_k(x, axis=axis, k=k, k_dim=inputs.new_dim("k"))
        indices = [indices] if isinstance(indices, Tensor) else indices
        return [values, *(rf.where(rf.is_finite(values), index, 0) for index in indices)]

    return [
        rf.top_k(x, axis=feature, k=k),
        *with_known_indices(time),
        *with_known_indices([time, feature]),
        *with_known_indices([feature, time]),
        rf.top_k(x, axis=feature, k_dim=inputs.new_dim("k", k)),
    ]


@op_case("sort", "gather", "cumsum")
def top_masks(inputs: Inputs) -> list[Tensor]:
    time, feature = inputs.dynamic("time"), inputs.static("feature")
    x = inputs.floats([inputs.batch, time, feature])
    weights = rf.exp(x)
    probs = weights / rf.reduce_sum(weights, axis=feature)
    over_time = rf.combine_bc(weights, "/", rf.reduce_sum(weights, axis=time))
    return [
        rf.top_k_mask(x, axis=feature, k=2),
        rf.top_k_mask(x, axis=time, k=2),
        rf.top_p_mask(probs, axis=feature, p=0.7),
        rf.top_p_mask(probs, axis=feature, p=0.4, one_more=False, min_tokens_to_keep=0),
        rf.top_p_mask(over_time, axis=time, p=0.5),
    ]


@op_case("gather", "cumsum", "search_sorted")
def repeat(inputs: Inputs) -> Any:
    time, feature = inputs.dynamic("time"), inputs.static("feature")
    x = inputs.floats([inputs.batch, time, feature])
    repeats = [
        inputs.number(1, 3), inputs.ints([inputs.batch], high=3), inputs.ints([inputs.batch, time], high=3),
        inputs.ints([time], high=3),
    ]  # fmt: skip
    return [rf.repeat(x, in_spatial_dim=time, repeats=number) for number in repeats]


@op_case("pad", "gather")
def window(inputs: Inputs) -> Any:
    time, feature = inputs.dynamic("time", low=0, high=6), inputs.static("feature")
    x = inputs.floats([inputs.batch, time, feature])
    size = inputs.static("window", low=1, high=4)
    stride = inputs.number(1, 3)
    return [
        rf.window(x, spatial_dim=time, window_dim=size, stride=stride),
        rf.window(x, spatial_dim=time, window_dim=size, window_right=0, pad_value=1.0),
        rf.window(x, spatial_dim=time, window_dim=size, window_left=0),
        rf.window(x, spatial_dim=time, window_dim=size, padding="valid", stride=stride),
    ]


@op_case("compare", "where")
def labels_as_distributions(inputs: Inputs) -> list[Tensor]:
    labels = inputs.sparse([inputs.batch, inputs.dynamic("time")], inputs.static("labels"))
    other = inputs.floats([inputs.batch])
    return [
        rf.one_hot(labels),
        rf.sparse_to_dense(labels, label_value=1.0, other_value=-1.0),
        rf.sparse_to_dense(labels, label_value=other, other_value=0.0),
        rf.sparse_to_dense(0, label_value=other, other_value=-1.0e30, axis=labels.sparse_dim),  # the end
    ]
