"""What operations do with bool and integers: the same on all backends, or the same error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import tensorflow as tf
import torch

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError, UserError

DTYPES = ("bool", "int8", "uint8", "int16", "int32", "int64")
COMBINE = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "maximum", "minimum", "squared_difference", "logaddexp",
    "logical_and",
)  # fmt: skip
COMPARE = ("equal", "not_equal", "less", "greater_equal")
ACTIVATION = (
    "abs", "ceil", "floor", "round", "neg", "square", "relu", "relu_square", "exp", "sqrt", "tanh", "sigmoid",
    "logical_not", "identity", "is_finite", "is_infinite", "is_neg_infinite",
)  # fmt: skip
REDUCE = ("sum", "max", "min", "mean", "logsumexp", "any", "all", "argmin", "argmax")

batch = Dim(3, name="batch", kind=Dim.Types.Batch)
time = Dim(4, name="time", kind=Dim.Types.Spatial)
feature = Dim(2, name="feature", kind=Dim.Types.Feature)
out = Dim(5, name="out")


def _indices(dim: Dim, *values: int) -> Tensor:
    return rf.constant(list(values), dims=[dim], dtype="int32")


def _number(x: Tensor, value: int) -> Any:
    return bool(value) if x.dtype == "bool" else value


OPERATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # (x, y) [batch, time, feature]; y is above 0
    **{kind: lambda x, y, kind=kind: rf.combine(x, kind, y) for kind in COMBINE},
    **{kind: lambda x, y, kind=kind: rf.compare(x, kind, y) for kind in COMPARE},
    **{name: lambda x, _, name=name: getattr(rf, name)(x) for name in ACTIVATION},
    **{f"reduce_{mode}": lambda x, _, mode=mode: rf.reduce(x, mode=mode, axis=time) for mode in REDUCE},
    "x + 1": lambda x, _: x + 1,
    "x * 0.5": lambda x, _: x * 0.5,
    "x + 300": lambda x, _: x + 300,
    "x - 2 ** 40": lambda x, _: x - 2**40,
    "1 - x": lambda x, _: 1 - x,
    "matmul": lambda x, y: rf.matmul(x, y, reduce=[time, feature]),
    "cumsum": lambda x, _: rf.cumsum(x, spatial_dim=time),
    "where": lambda x, y: rf.where(x == y, x, y),
    "clip_by_value": lambda x, _: rf.clip_by_value(x, 0, 1),
    "sort": lambda x, _: rf.sort(x, axis=time)[0],
    "top_k": lambda x, _: rf.top_k(x, axis=time, k=2)[0],
    "search_sorted": lambda x, y: rf.search_sorted(
        rf.sort(x, axis=time)[0], rf.gather(y, indices=1, axis=time), axis=time
    ),
    "gather": lambda x, _: rf.gather(x, indices=_indices(batch, 0, 2, 1), axis=time),
    "gather by x": lambda x, y: rf.gather(rf.range_over_dim(time, dtype="float32"), indices=y, axis=time),
    "scatter_sum": lambda x, _: rf.scatter(x, indices=_indices(time, 0, 2, 1, 1), indices_dim=time, out_dim=out),
    "scatter_max": lambda x, _: rf.scatter(
        x, indices=_indices(time, 0, 2, 1, 1), indices_dim=time, out_dim=out, mode="max"
    ),
    "scatter by x": lambda _, y: rf.scatter(rf.ones(y.dims), indices=y, indices_dim=time, out_dim=out),
    "masked_select": lambda x, _: rf.masked_select(
        x, mask=_indices(time, 1, 0, 1, 1) > 0, dims=[time], out_dim=Dim(3, name="selected")
    )[0],
    "pad": lambda x, _: rf.pad(x, axes=[time], padding=[(1, 1)])[0],
    "pad with value": lambda x, _: rf.pad(x, axes=[time], padding=[(1, 1)], value=_number(x, 1))[0],
    "pad reflect": lambda x, _: rf.pad(x, axes=[time], padding=[(1, 1)], mode="reflect")[0],
    "concat": lambda x, y: rf.concat((x, time), (y, time))[0],
    "stack": lambda x, y: rf.stack([x, y])[0],
    "slice": lambda x, _: rf.slice(x, axis=time, start=1)[0],
    "reverse_sequence": lambda x, _: rf.reverse_sequence(x, axis=time),
    "expand_dim": lambda x, _: rf.expand_dim(x, out),
    "repeat": lambda x, _: rf.repeat(x, in_spatial_dim=time, repeats=2)[0],
    "window": lambda x, _: rf.window(x, spatial_dim=time, window_dim=Dim(2, name="window"))[0],
    "shift_right": lambda x, _: rf.shift_right(x, axis=time, pad_value=_number(x, 0)),
    "full": lambda x, _: rf.full(dims=[batch], fill_value=1, dtype=x.dtype),
    "range_over_dim": lambda x, _: rf.range_over_dim(time, dtype=x.dtype),
    "zeros_like": lambda x, _: rf.zeros_like(x),
    "ones_like": lambda x, _: rf.ones_like(x),
    "cast to float32": lambda x, _: rf.cast(x, "float32"),
    "cast to int8": lambda x, _: rf.cast(x, "int8"),
    "cast to bool": lambda x, _: rf.cast(x, "bool"),
    "softmax": lambda x, _: rf.softmax(x, axis=feature),
    "log_softmax": lambda x, _: rf.log_softmax(x, axis=feature),
    "safe_log": lambda x, _: rf.safe_log(x),
    "lerp": lambda x, y: rf.lerp(x, y, 0.5),
    "max pool": lambda x, _: rf.pool1d(x, mode="max", pool_size=2, strides=1, in_spatial_dim=time)[0],
    "average pool": lambda x, _: rf.pool1d(x, mode="avg", pool_size=2, strides=1, in_spatial_dim=time)[0],
    "cross entropy of x": lambda _, y: rf.cross_entropy(
        target=rf.set_sparse_dim(y, out), estimated=rf.zeros([batch, time, feature, out]), axis=out,
        estimated_type="logits",
    ),
    "normalize": lambda x, _: rf.normalize(x, axis=feature),
    "random_uniform": lambda x, _: rf.random_uniform([batch], minval=0, maxval=1, dtype=x.dtype),
}  # fmt: skip


def _values(dtype: str) -> list[numpy.ndarray]:
    random = numpy.random.RandomState(1)
    low = 0 if dtype.startswith("u") else -4
    shape = (3, 4, 2)
    if dtype == "bool":
        return [random.randint(2, size=shape) > 0 for _ in range(2)]
    return [random.randint(low, 4, size=shape).astype(dtype), random.randint(1, 4, size=shape).astype(dtype)]


def _outcome(name: str, dtype: str, make_raw: Callable[[numpy.ndarray], Any]) -> Tensor | Exception:
    x, y = (
        Tensor("x", [batch, time, feature], dtype, raw_tensor=make_raw(value), feature_dim=feature)
        for value in _values(dtype)
    )
    try:
        return OPERATIONS[name](x, y)
    except UserError as exc:
        return exc


Outcomes = dict[str, list[Tensor | Exception]]


@pytest.fixture(scope="module")
def tf_outcomes() -> Iterator[tuple[Outcomes, dict[str, list[Any]]]]:
    """For each operation, of each dtype: the tensor or error; and the value. All in one graph, which is faster."""
    with tf.Graph().as_default(), rf.backend_ctx("tf"), tf.compat.v1.Session() as session:
        outcomes = {name: [_outcome(name, dtype, tf.constant) for dtype in DTYPES] for name in OPERATIONS}
        raw = {name: [x.raw_tensor for x in xs if isinstance(x, Tensor)] for name, xs in outcomes.items()}
        yield outcomes, session.run(raw)


@pytest.mark.parametrize("name", OPERATIONS)
def test_all_backends_do_the_same_with_bool_and_integers(
    name: str, tf_outcomes: tuple[Outcomes, dict[str, list[Any]]]
) -> None:
    tf_values = iter(tf_outcomes[1][name])
    for dtype, by_tf in zip(DTYPES, tf_outcomes[0][name], strict=True):
        with rf.backend_ctx("template"):
            expected = _outcome(name, dtype, lambda _: None)
        with rf.backend_ctx("numpy"):
            by_numpy = _outcome(name, dtype, lambda value: value)
        with rf.backend_ctx("torch"):
            by_torch = _outcome(name, dtype, torch.tensor)
        if isinstance(expected, Exception):
            assert [str(x) for x in (by_numpy, by_torch, by_tf)] == [str(expected)] * 3, dtype
            assert dtype in str(expected)
            assert len(str(expected).splitlines()) <= 5
            continue
        tensors = by_numpy, by_torch, by_tf
        assert all(isinstance(x, Tensor) and x.dtype == expected.dtype for x in tensors), (dtype, tensors)
        values = numpy.asarray(by_numpy.raw_tensor), by_torch.raw_tensor.numpy(), next(tf_values)
        for value in values:
            assert value.dtype.name == expected.dtype, dtype
            if name != "random_uniform":
                numpy.testing.assert_allclose(value.astype("float64"), values[0].astype("float64"), 1e-6, err_msg=dtype)


@pytest.mark.parametrize("backend", ["numpy", "torch", "tf", "template"])
def test_a_number_that_does_not_fit_is_an_error(backend: str) -> None:
    with rf.backend_ctx(backend), tf.Graph().as_default(), pytest.raises(DtypeError) as caught:
        rf.zeros([time], dtype="int8") + 300
    assert str(caught.value) == (
        "the number 300 does not fit into 'full' [time(4)] int8.\n  Possible: -128 to 127. Or use rf.cast."
    )


@pytest.mark.parametrize("backend", ["numpy", "torch", "tf", "template"])
def test_of_two_numbers_an_integer_beside_a_float_is_a_float(backend: str) -> None:
    with tf.Graph().as_default(), rf.backend_ctx(backend):
        condition = rf.constant([True, False, True], dims=[batch], dtype="bool")
        for pair in ((0, 1.0), (1.0, 0)):
            assert rf.where(condition, *pair).dtype == "float32"
        assert rf.where(condition, 0, 1).dtype == "int32"
