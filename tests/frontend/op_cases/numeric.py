"""Sums along an axis, complex numbers, tests for special values, what is known about dims."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.tensor import Tensor
from tests.frontend.op_case import Inputs, op_case


@op_case("cumsum")
def cumsum(inputs: Inputs) -> list[Tensor]:
    time, feature = inputs.dynamic("time"), inputs.static("feature")
    x = inputs.floats([inputs.batch, time, feature])
    return [
        rf.cumsum(x, spatial_dim=time),
        rf.cumsum(x, spatial_dim=feature),
        rf.cumsum(inputs.ints([inputs.batch, time]), spatial_dim=time),
    ]


@op_case("is_finite", "is_infinite", "is_neg_infinite")
def special_values(inputs: Inputs) -> list[Tensor]:
    x = inputs.floats(inputs.dims())
    with_special = rf.where(x > 0.5, float("inf"), rf.where(x < -0.5, -float("inf"), x))
    return [test(with_special) for test in (rf.is_finite, rf.is_infinite, rf.is_neg_infinite)]


@op_case("lerp", "clip_by_value")
def between(inputs: Inputs) -> list[Tensor]:
    dims = inputs.dims(low=1)
    x, y = inputs.floats(dims), inputs.floats(inputs.subset(dims, low=0))
    return [
        rf.lerp(x, y, 0.3),
        rf.lerp(y, x, inputs.floats(inputs.subset(dims, low=0))),
        rf.clip_by_value(x, -0.5, 0.7),
        rf.clip_by_value(x, y, None),
        rf.clip_by_value(x, None, 0.5),
    ]


@op_case("make_complex", "complex_as_real", "real_as_complex")
def complex_numbers(inputs: Inputs) -> Any:
    dims = inputs.dims(low=1)
    x = rf.make_complex(inputs.floats(dims), inputs.floats(dims))
    pair = inputs.static("pair", 2)
    parts, parts_dim = rf.complex_as_real(x * x)
    return [
        rf.abs(x),
        parts,
        rf.abs(rf.real_as_complex(parts, pair_dim=parts_dim)),
        rf.abs(rf.real_as_complex(inputs.floats([*dims, pair]), pair_dim=pair)),
    ]


@op_case("split")
def gating(inputs: Inputs) -> Any:
    half = inputs.static("feature")
    x = inputs.floats([inputs.batch, inputs.dynamic("time"), half * 2], feature_dim=half * 2)
    return [rf.gating(x), rf.gating(x, axis=half * 2, gate_func=rf.relu, act_func=rf.tanh, out_dim=inputs.new_dim())]


@op_case("reduce", "split_dims")
def reduce_out(inputs: Inputs) -> list[Tensor]:
    feature = inputs.static("feature") * 2
    x = inputs.floats([inputs.batch, inputs.dynamic("time"), feature], feature_dim=feature)
    return [rf.reduce_out(x, mode=mode, num_pieces=2) for mode in ("max", "sum", "mean")]


@op_case("reduce", nan_gradients=False)
def reduce_logmeanexp(inputs: Inputs) -> list[Tensor]:
    time, feature = inputs.dynamic("time"), inputs.static("feature")
    x = inputs.floats([inputs.batch, time, feature])
    return [rf.reduce_logmeanexp(x, axis=axis) for axis in (time, feature, [time, feature])]


@op_case("reduce", per_sequence=False)
def shapes(inputs: Inputs) -> list[Any]:
    time, time2, feature = inputs.dynamic("time"), inputs.dynamic("time2"), inputs.static("feature")
    inner = inputs.dynamic("inner", over=[inputs.batch, feature])
    batch = inputs.batch
    x = inputs.floats([batch, time])
    return [
        x,
        rf.num_elements_of_shape([batch, time, feature]),
        rf.num_elements_of_shape([time]),
        rf.num_elements_of_shape([batch, time, time2]),
        rf.num_elements_of_shape([feature, inner, batch]),
        rf.num_elements_of_shape([inner, feature]),
        rf.num_elements_of_shape([batch, time], use_mask=False),
        rf.num_elements_of_shape(feature),
        rf.masked_fraction_of_shape([batch, time]),
        rf.masked_fraction_of_shape([batch, time], inverse=True),
        rf.masked_fraction_of_shape([feature]),
        rf.sequence_mask([batch, time, time2]),
        rf.sequence_mask(feature),
    ]


@op_case("range_over_dim")
def ranges(inputs: Inputs) -> list[Any]:
    time, feature = inputs.dynamic("time"), inputs.static("feature")
    x = inputs.floats([inputs.batch, time])
    return [
        x,
        rf.range_over_dim_strided(time, stride=inputs.number(1, 3)),
        rf.range_over_merged_dims([feature, time]) * 0,
        rf.linspace_over_dim(time, 1.0, 3.0),
        rf.linspace_over_dim(feature),
        rf.last_frame_position_of_dim(time),
        rf.last_frame_position_of_dim(feature),
    ]


@op_case("full")
def constants(inputs: Inputs) -> list[Tensor]:
    dims = inputs.dims(low=1)
    x, y = inputs.floats(dims), inputs.sparse(dims, inputs.static("labels"))
    return [
        rf.zeros(dims), rf.ones(dims, dtype="int32"), rf.zeros_like(x), rf.ones_like(y),
        rf.constant(3, dims=dims[:1]), rf.fill(dims=dims, fill_value=2.0),
    ]  # fmt: skip


@op_case("reduce_distributed", per_sequence=False)
def reduce_distributed(inputs: Inputs) -> Tensor:
    """There is one process only; several are in `test_distributed.py`."""
    time = inputs.dynamic("time")
    return rf.reduce_sum(inputs.floats([inputs.batch, time]), axis=[inputs.batch, time], distributed=True)


@op_case("get_tensor_dependencies", "get_tensor_consumers")
def graph(inputs: Inputs) -> Tensor:
    x = inputs.floats(inputs.dims(low=1))
    y = rf.exp(rf.tanh(x))
    hidden = rf.get_tensor_dependencies(y)
    if hidden:  # the backend has a graph
        assert rf.get_tensor_dependencies(hidden[0])[0].raw_tensor is x.raw_tensor
        assert [z.raw_tensor for z in rf.get_tensor_consumers(hidden[0])] == [y.raw_tensor]
        assert [z.raw_tensor for z in rf.walk_tensor_consumers(x)] == [hidden[0].raw_tensor, y.raw_tensor]
        ended = rf.walk_tensor_consumers(x, ending_condition=lambda z: z.raw_tensor is hidden[0].raw_tensor)
        assert [z.raw_tensor for z in ended] == [hidden[0].raw_tensor]
        filtered = rf.walk_tensor_consumers(x, filter_outputs=lambda z: z.raw_tensor is y.raw_tensor)
        assert [z.raw_tensor for z in filtered] == [y.raw_tensor]
    return y


@op_case("copy", "expand_dim")
def copies(inputs: Inputs) -> list[Tensor]:
    dims = inputs.dims(low=0, high=2)
    x = inputs.floats(dims)
    return [rf.copy(x), rf.expand_dims(x, [inputs.static("new"), inputs.static("new2")])]
