"""
How many TensorFlow operations the most used frontend operations make.

Operands that agree in their layout need no transpose, no reshape and no mask. Constants do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor

batch = Dim(None, name="batch", kind=Dim.Types.Batch)
time = Dim(None, name="time", kind=Dim.Types.Spatial)
keys = Dim(None, name="keys", kind=Dim.Types.Spatial)
feature = Dim(5, name="feature", kind=Dim.Types.Feature)
out = Dim(7, name="out", kind=Dim.Types.Feature)
heads = Dim(2, name="heads", kind=Dim.Types.Spatial)


def placeholder(*dims: Dim, dtype: str = "float32", sparse_dim: Dim | None = None) -> Tensor:
    raw = tf.compat.v1.placeholder(dtype, [dim.size for dim in dims])
    return Tensor("x", dims, dtype, sparse_dim=sparse_dim, raw_tensor=raw)


x = placeholder
OPERATIONS: dict[str, tuple[Callable[[], Any], dict[str, int]]] = {
    # A product with weights: the shape of the result is packed from sizes that are known.
    "matmul [T,B,F] x [F,O]": (
        lambda: rf.matmul(x(time, batch, feature), x(feature, out), reduce=feature),
        {"MatMul": 1, "Reshape": 2, "Pack": 1},
    ),
    "matmul [T,B,F] x [O,F]": (
        lambda: rf.matmul(x(time, batch, feature), x(out, feature), reduce=feature),
        {"MatMul": 1, "Reshape": 2, "Pack": 1},
    ),
    "matmul [B,F] x [F,O]": (lambda: rf.matmul(x(batch, feature), x(feature, out), reduce=feature), {"MatMul": 1}),
    "matmul [B,T,F] x [B,K,F]": (
        lambda: rf.matmul(x(batch, time, feature), x(batch, keys, feature), reduce=feature),
        {"BatchMatMulV2": 1},
    ),
    "matmul [B,T,F] x [B,T], over T": (
        lambda: rf.matmul(x(batch, time, feature), x(batch, time), reduce=time),
        {"BatchMatMulV2": 1, "Reshape": 2, "SelectV2": 2, "ExpandDims": 1, "Pack": 1},
    ),
    "x + bias": (lambda: x(time, batch, feature) + x(feature), {"BiasAdd": 1}),
    "x + y": (lambda: x(time, batch, feature) + x(time, batch, feature), {"AddV2": 1}),
    "x + y per sequence, batch major": (
        lambda: x(batch, time, feature) + x(batch, feature),
        {"AddV2": 1, "ExpandDims": 1},
    ),
    "x + y per sequence, time major": (lambda: x(time, batch, feature) + x(batch, feature), {"AddV2": 1}),
    "x * 2": (lambda: x(time, batch, feature) * 2.0, {"Mul": 1}),
    "x > y": (lambda: x(batch, feature) > x(batch, feature), {"Greater": 1}),
    "tanh": (lambda: rf.tanh(x(time, batch, feature)), {"Tanh": 1}),
    "cast": (lambda: rf.cast(x(time, batch), "int32"), {"Cast": 1}),
    "cast to the same dtype": (lambda: rf.cast(x(time, batch), "float32"), {}),
    "where": (lambda: rf.where(x(batch, time, dtype="bool"), x(batch, time), 0.0), {"SelectV2": 1}),
    "sum over F": (lambda: rf.reduce_sum(x(time, batch, feature), axis=feature), {"Sum": 1}),
    "mean over F": (lambda: rf.reduce_mean(x(time, batch, feature), axis=feature), {"Mean": 1}),
    "max over T": (
        lambda: rf.reduce_max(x(batch, time, feature), axis=time),
        {"Max": 1, "SelectV2": 1, "ExpandDims": 1},
    ),
    "mean over T": (
        lambda: rf.reduce_mean(x(batch, time, feature), axis=time),
        {"Sum": 1, "SelectV2": 1, "ExpandDims": 2, "Maximum": 1, "Cast": 1, "RealDiv": 1},
    ),
    "argmax over F": (lambda: rf.reduce_argmax(x(batch, time, feature), axis=feature), {"ArgMax": 1}),
    "softmax over F": (lambda: rf.softmax(x(batch, time, feature), axis=feature), {"Softmax": 1}),
    "softmax over T": (lambda: rf.softmax(x(batch, time), axis=time), {"Softmax": 1, "SelectV2": 2}),
    "log_softmax over F": (lambda: rf.log_softmax(x(batch, time, feature), axis=feature), {"LogSoftmax": 1}),
    "concat of features": (
        lambda: rf.concat((x(batch, time, feature), feature), (x(batch, time, out), out)),
        {"ConcatV2": 1},
    ),
    "embedding": (
        lambda: rf.gather(x(out, feature), indices=x(batch, time, dtype="int32", sparse_dim=out), axis=out),
        {"GatherV2": 1, "SelectV2": 1, "Maximum": 1, "Minimum": 1},  # labels in padded frames can be anything
    ),
    "copy_transpose to the same order": (lambda: x(batch, time).copy_transpose([batch, time]), {}),
    "copy_compatible_to_dims of the same dims": (lambda: x(batch, time).copy_compatible_to_dims([batch, time]), {}),
}


def _count(make: Callable[[], Any]) -> Counter[str]:
    graph = tf.Graph()
    with graph.as_default(), rf.backend_ctx("tf"):
        size = tf.compat.v1.placeholder(tf.int32, [])
        batch.dyn_size_ext = Tensor("size", [], "int32", raw_tensor=size)
        for dim in (time, keys):
            lengths = tf.compat.v1.placeholder(tf.int32, [None])
            dim.dyn_size_ext = Tensor("lengths", [batch], "int32", raw_tensor=lengths)
            for order in ([batch, dim], [dim, batch]):
                dim.get_mask(dim_order=order)  # made once for all operations
        before = Counter(op.type for op in graph.get_operations())
        make()
        counts = Counter(op.type for op in graph.get_operations()) - before
    return Counter({kind: n for kind, n in counts.items() if kind not in ("Placeholder", "Const")})


@pytest.mark.parametrize("name", OPERATIONS)
def test_number_of_operations(name: str) -> None:
    make, expected = OPERATIONS[name]
    assert _count(make) == expected


def test_masks_and_sizes_are_made_once_for_all_operations() -> None:
    def make() -> None:
        for _ in range(5):
            rf.reduce_sum(x(batch, time), axis=time)

    assert _count(make) == {"Sum": 5, "SelectV2": 5}
