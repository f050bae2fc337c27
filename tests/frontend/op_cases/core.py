"""The core operations: elementwise, constants, reductions, matrix products."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from tests.frontend.op_case import Inputs, OpCase, op_case

_NUMBERS = ("add", "sub", "mul", "maximum", "minimum", "squared_difference")
_FLOATS = ("truediv", "floordiv", "mod", "pow", "logaddexp")
_INTS = ("add", "sub", "mul", "maximum", "minimum", "floordiv", "mod", "truediv")
_COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
_ANY_FLOAT = (
    "abs", "ceil", "cos", "elu", "exp", "expm1", "floor", "gelu", "identity", "log_sigmoid", "neg", "relu",
    "relu_square", "round", "selu", "sigmoid", "silu", "sin", "square", "swish", "tanh",
)  # fmt: skip
_POSITIVE_FLOAT = ("log", "log1p", "reciprocal", "rsqrt", "sqrt")
_NOT_SMOOTH = ("floordiv", "mod")
_REDUCE_FLOAT = ("sum", "max", "min", "mean", "logsumexp", "argmin", "argmax")
_REDUCE_BOOL = ("any", "all")


def _broadcast_pair(inputs: Inputs, **options: Any) -> tuple[Tensor, Tensor]:
    """:return: two tensors, of which one has all dims"""
    dims = inputs.dims(low=1, high=3)
    part = inputs.subset(dims, low=0)
    shapes = [dims, part] if inputs.number(0, 1) else [part, dims]
    return inputs.floats(shapes[0], **options), inputs.floats(shapes[1], **options)


def _combine_case(kind: str) -> OpCase:
    def run(inputs: Inputs) -> Tensor:
        is_positive = kind in _FLOATS
        high = 1.5 if kind == "pow" else 3.0  # in padded frames it is ten times as much, and still finite
        a, b = _broadcast_pair(inputs, **({"low": 0.3, "high": high} if is_positive else {}))
        return rf.combine(a, kind, b)

    return OpCase(f"combine_{kind}", ("combine",), run, differentiable=kind not in _NOT_SMOOTH)


def _combine_ints_case(kind: str) -> OpCase:
    def run(inputs: Inputs) -> Tensor:
        dims = inputs.dims(low=1)
        dtype = inputs.choice(["int32", "int64"])
        a = inputs.ints(dims, low=-7, high=7, dtype=dtype)
        return rf.combine(a, kind, inputs.ints(inputs.subset(dims), low=1, high=4, dtype=dtype))

    return OpCase(f"combine_ints_{kind}", ("combine",), run)


def _compare_case(kind: str) -> OpCase:
    def run(inputs: Inputs) -> list[Tensor]:
        dims = inputs.dims(low=1)
        a, b = inputs.ints(dims, high=3), inputs.ints(inputs.subset(dims), high=3)
        return [rf.compare(a, kind, b), rf.compare(inputs.floats(dims), kind, 0.1)]

    return OpCase(f"compare_{kind}", ("compare",), run)


def _activation_case(func: str) -> OpCase:
    def run(inputs: Inputs) -> Tensor:
        options = {"low": 0.3, "high": 3.0} if func in _POSITIVE_FLOAT else {}
        return getattr(rf, func)(inputs.floats(inputs.dims(), **options))

    return OpCase(f"activation_{func}", ("activation",), run)


def _reduce_case(mode: str) -> OpCase:
    def run(inputs: Inputs) -> Tensor:
        dims = inputs.dims(low=1)
        x = inputs.bools(dims) if mode in _REDUCE_BOOL else inputs.floats(dims)
        axis = dims[0] if mode.startswith("arg") else inputs.subset(dims)
        return rf.reduce(x, mode=mode, axis=axis)

    return OpCase(f"reduce_{mode}", ("reduce",), run, per_sequence=False, nan_gradients=False)


def _reduce_frames_case(mode: str) -> OpCase:
    def run(inputs: Inputs) -> Tensor:
        time = inputs.dynamic()
        dims = [inputs.batch, time, inputs.static()]
        x = inputs.bools(dims) if mode in _REDUCE_BOOL else inputs.floats(dims)
        return rf.reduce(x, mode=mode, axis=time)

    return OpCase(f"reduce_{mode}_over_frames", ("reduce",), run)


def _reduce_ints_case(mode: str) -> OpCase:
    def run(inputs: Inputs) -> Tensor:
        dims = inputs.dims(low=1)
        return rf.reduce(inputs.ints(dims, low=-9, high=9), mode=mode, axis=dims[0])

    return OpCase(f"reduce_ints_{mode}", ("reduce",), run, per_sequence=False)


CASES = [
    *(_combine_case(kind) for kind in (*_NUMBERS, *_FLOATS)),
    *(_combine_ints_case(kind) for kind in _INTS),
    *(_compare_case(kind) for kind in _COMPARISONS),
    *(_activation_case(func) for func in (*_ANY_FLOAT, *_POSITIVE_FLOAT)),
    *(_reduce_case(mode) for mode in (*_REDUCE_FLOAT, *_REDUCE_BOOL)),
    *(_reduce_frames_case(mode) for mode in (*_REDUCE_FLOAT, *_REDUCE_BOOL)),
    *(_reduce_ints_case(mode) for mode in ("sum", "max", "min", "argmin", "argmax")),
]


@op_case("combine")
def combine_bools(inputs: Inputs) -> Tensor:
    dims = inputs.dims(low=1)
    a, b = inputs.bools(dims), inputs.bools(inputs.subset(dims))
    return rf.combine(rf.combine(a, "logical_and", b), "logical_or", rf.logical_not(b))


@op_case("combine", nan_gradients=False)
def combine_where_no_operand_has_all_dims(inputs: Inputs) -> list[Tensor]:
    time, other = inputs.dynamic(), inputs.dynamic("other")
    a, b = inputs.floats([inputs.batch, time]), inputs.floats([other, inputs.batch])
    ordered = rf.combine(a, "add", b, dim_order=[other, inputs.batch, time])
    assert ordered.dims == (other, inputs.batch, time)
    return [rf.combine_bc(a, "mul", b), rf.compare_bc(a, "<", b), ordered]


@op_case("combine")
def combine_with_numbers(inputs: Inputs) -> list[Tensor]:
    dims = inputs.dims()
    x, n = inputs.floats(dims), inputs.ints(dims)
    return [x + 1, 2.5 - x, x * 2, n * 3, 7 - n, n // 2, -x, 1.0 / (x * x + 1), abs(n)]


@op_case("combine", "range_over_dim")
def combine_of_sparse_tensors_keeps_the_sparse_dim(inputs: Inputs) -> list[Tensor]:
    time = inputs.spatial()
    position = rf.range_over_dim(time)
    x = inputs.sparse([inputs.batch, time], time) if time.size is not None else position
    return [position + 1, rf.minimum(x, 2), position * 2, x == position]


@op_case("cast")
def cast(inputs: Inputs) -> list[Tensor]:
    dims = inputs.dims()
    labels = inputs.static("labels")
    return [
        rf.cast(inputs.ints(dims), "float32"),
        rf.cast(inputs.bools(dims), "int32"),
        rf.cast(inputs.sparse(dims, labels), "int64"),
        rf.cast(inputs.floats(dims), "float64"),
    ]


@op_case("copy")
def copy(inputs: Inputs) -> Tensor:
    return rf.copy(inputs.floats(inputs.dims()))


@op_case("copy_to_device")
def copy_to_device(inputs: Inputs) -> Tensor:
    return rf.copy_to_device(inputs.floats(inputs.dims()), "cpu")


@op_case("convert_to_tensor", "get_device")
def convert_to_tensor(inputs: Inputs) -> list[Tensor]:
    labels = inputs.static("labels", 5)
    axes = [inputs.static("axis", 3), inputs.static("feature", 2)]
    values = [[0, 1], [4, 2], [3, 3]]
    return [
        rf.convert_to_tensor(values, dims=axes, sparse_dim=labels),
        rf.convert_to_tensor(values, dims=axes, dtype="float32", feature_dim=axes[1]),
        rf.convert_to_tensor(1.5),
        rf.convert_to_tensor(True),
        rf.constant(3, dims=(), dtype="int64"),
    ]


@op_case("full")
def full(inputs: Inputs) -> list[Tensor]:
    dims = inputs.dims()
    scalar = inputs.floats([])
    labels = inputs.static("labels")
    return [
        rf.full(dims=dims, fill_value=scalar),
        rf.full(dims=dims, fill_value=0.5),
        rf.full(dims=dims, fill_value=0, sparse_dim=labels),
        rf.full(dims=dims, fill_value=True),
    ]


@op_case("range_over_dim", per_sequence=False)
def range_over_dim(inputs: Inputs) -> list[Tensor]:
    return [
        rf.range_over_dim(inputs.spatial()),
        rf.range_over_dim(inputs.dynamic(), dtype="int64"),
        rf.range_over_dim(inputs.static(), dtype="float32"),
        rf.range_over_dim(inputs.batch),
    ]


@op_case("where")
def where(inputs: Inputs) -> list[Tensor]:
    dims = inputs.dims(low=1)
    cond = inputs.bools(inputs.subset(dims))
    a, b = inputs.floats(dims), inputs.floats(inputs.subset(dims))
    return [
        rf.where(cond, a, b),
        rf.where(cond, b, a),
        rf.where(cond, a, 0.0),
        rf.where(a > 0, 1.0, a),
        rf.where(cond, 1, 2),
        rf.where(cond, a > 0, b > 0),
        rf.where(cond, a > 0, False),
        rf.where(a > 0, True, b > 0),
    ]


@op_case("where")
def where_with_broadcasting(inputs: Inputs) -> Tensor:
    time, other = inputs.dynamic(), inputs.static("axis")
    cond = inputs.bools([inputs.batch, time])
    return rf.where(cond, inputs.floats([other]), inputs.floats([]), allow_broadcast_all_sources=True)


@op_case("clip_by_value")
def clip_by_value(inputs: Inputs) -> list[Tensor]:
    dims = inputs.dims(low=1)
    x = inputs.floats(dims)
    low = inputs.floats(inputs.subset(dims, low=0), low=-2, high=-0.5)
    return [rf.clip_by_value(x, -0.5, 0.5), rf.clip_by_value(x, low, 0.7), rf.clip_by_value(inputs.ints(dims), 1, 3)]


@op_case("expand_dim", same_order=True)
def expand_dim(inputs: Inputs) -> list[Tensor]:
    dims = inputs.dims()
    x = inputs.floats(dims)
    return [rf.expand_dim(x, inputs.static("new")), rf.expand_dim(x, inputs.dynamic("new-time"))]


@op_case("expand_dim")
def expand_to(inputs: Inputs) -> list[Tensor]:
    dims, new = inputs.dims(low=2), inputs.static("new")
    x = inputs.floats(inputs.subset(dims, low=0))
    out = rf.expand_to(x, [*dims, new])
    assert set(out.dims) == {*dims, new}
    return [out, rf.expand_to(out, dims)]


@op_case("squeeze")
def squeeze(inputs: Inputs) -> Tensor:
    one = inputs.static("one", 1)
    return rf.squeeze(inputs.floats([*inputs.dims(), one]), one)


@op_case("make_output_tensor")
def make_output_tensor(inputs: Inputs) -> Tensor:
    dims = inputs.dims(low=1)
    x = inputs.floats(dims)
    out = rf.get_backend_by_tensor(x).make_output_tensor(x, dims, name="out")
    assert out.dims == tuple(dims)
    return out


@op_case("reduce")
def reduce_of_dims_with_lengths_over_others(inputs: Inputs) -> list[Tensor]:
    chunks = inputs.static("chunks")
    time = inputs.dynamic("time", over=[inputs.batch, chunks])
    x = inputs.floats([inputs.batch, chunks, time])
    return [
        rf.reduce_mean(x, axis=[time]),
        rf.reduce_max(x, axis=[chunks, time]),
        rf.reduce_mean(x, axis=[chunks, time]),
    ]


@op_case("reduce")
def reduce_of_several_dynamic_dims(inputs: Inputs) -> list[Tensor]:
    a, b = inputs.dynamic("a"), inputs.dynamic("b")
    x = inputs.floats([inputs.batch, a, b])
    return [rf.reduce_mean(x, axis=[a, b]), rf.reduce_sum(x, axis=[a, b]), rf.reduce_logsumexp(x, axis=[b, a])]


@op_case("reduce", per_sequence=False)
def reduce_without_mask_over_static_dims(inputs: Inputs) -> Tensor:
    a, b = inputs.static("a"), inputs.static("b")
    return rf.reduce_sum(inputs.floats([a, inputs.batch, b]), axis=[b, a], use_mask=False)


@op_case("matmul", nan_gradients=False)
def matmul_with_weights(inputs: Inputs) -> Tensor:
    feature, out = inputs.static("feature"), inputs.static("out")
    x = inputs.floats([*inputs.dims(high=2), feature], feature_dim=feature)
    return rf.matmul(x, inputs.floats([feature, out], feature_dim=out), reduce=feature)


@op_case("matmul", nan_gradients=False)
def matmul_weights_first(inputs: Inputs) -> Tensor:
    feature, out = inputs.static("feature"), inputs.static("out")
    x = inputs.floats([inputs.batch, inputs.dynamic(), feature])
    return rf.matmul(inputs.floats([out, feature]), x, reduce=feature)


@op_case("matmul", nan_gradients=False)
def matmul_batched(inputs: Inputs) -> Tensor:
    common, rest_a, rest_b = [inputs.batch, *inputs.dims(high=1)], inputs.dims(high=1), inputs.dims(high=1)
    reduce = [inputs.spatial("reduce"), inputs.static("feature")][: inputs.number(1, 2)]
    common = list(dict.fromkeys(common))
    rest_a, rest_b = [[d for d in rest if d not in common] for rest in (rest_a, rest_b)]
    return rf.matmul(
        inputs.floats([*common, *rest_a, *reduce]), inputs.floats([*reduce, *rest_b, *common]), reduce=reduce
    )


@op_case("matmul", per_sequence=False)
def matmul_over_the_batch(inputs: Inputs) -> Tensor:
    time, a, b = inputs.dynamic(), inputs.static("a"), inputs.static("b")
    x, y = inputs.floats([inputs.batch, time, a]), inputs.floats([time, b, inputs.batch])
    return rf.matmul(x, y, reduce=[inputs.batch, time])


@op_case("matmul", nan_gradients=False)
def matmul_attention(inputs: Inputs) -> list[Tensor]:
    query_time, key_time, heads = inputs.dynamic("query"), inputs.dynamic("key"), inputs.static("heads")
    feature = inputs.static("feature")
    query = inputs.floats([inputs.batch, heads, query_time, feature])
    key = inputs.floats([inputs.batch, heads, key_time, feature])
    energy = rf.matmul(query, key, reduce=feature)
    return [energy, rf.matmul(energy, key, reduce=key_time)]


@op_case("matmul", nan_gradients=False)
def matmul_of_a_dim_with_itself(inputs: Inputs) -> Tensor:
    """The dim is there twice, told apart by its priority."""
    feature = inputs.static("feature")
    rows: Dim = feature.copy(match_priority=0)
    columns = feature.copy(match_priority=1)
    matrix = inputs.floats([rows, columns])
    return rf.matmul(inputs.floats([inputs.batch, feature]), matrix, reduce=feature)


@op_case("reduce")
def extremes_of_nothing(inputs: Inputs) -> list[Tensor]:
    empty = Dim(0, name="empty")
    x, n = inputs.floats([inputs.batch, empty]), inputs.ints([empty, inputs.batch])
    return [rf.reduce(value, mode=mode, axis=empty) for value in (x, n) for mode in ("max", "min", "sum")]
