"""Conditions and loops: what the property tests do not see. Graphs, effects, errors."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import ControlFlowContext, Dim, Tensor, batch_dim
from returnn.tf.frontend_low_level.raw_random import run_seed_feed
from returnn.util.errors import DimError, DtypeError, UserError

feature = Dim(3, name="feature")
other_feature = Dim(3, name="other-feature")
other = Dim(5, name="other")
time = Dim(None, name="time", kind=Dim.Types.Spatial)


def _count(graph: tf.Graph, *types: str) -> int:
    return sum(op.type in types for op in graph.get_operations())


def test_body_is_built_once_if_nothing_changes() -> None:
    calls = []
    with tf.Graph().as_default(), rf.backend_ctx("tf"):
        rf.while_loop(lambda i: i < 3, lambda i: calls.append(i) or i + 1, 0)
        assert len(calls) == 1
        rf.scan(spatial_dim=feature, xs=rf.zeros([feature]), body=lambda x, s: (x, s))


def test_only_one_branch_is_computed() -> None:
    with tf.Graph().as_default() as graph, rf.backend_ctx("tf"), tf.compat.v1.Session() as session:
        flag = tf.compat.v1.placeholder(tf.bool, [])
        count = rf.Parameter([], dtype="int32", initial=0)

        def branch(number: int) -> Tensor:
            count.assign_add(number)
            return rf.convert_to_tensor(number)

        pred = Tensor("pred", dims=(), dtype="bool", raw_tensor=flag)
        result = rf.cond(pred, lambda: branch(1), lambda: branch(10))
        total = count + 0
        assert _count(graph, "If", "StatelessIf") == 1
        session.run(tf.compat.v1.global_variables_initializer())
        fetches = [result.raw_tensor, total.raw_tensor]
        assert session.run(fetches, {flag: True}) == [1, 1]
        assert session.run(fetches, {flag: False}) == [10, 11]
        session.run(graph.get_collection("update_ops"), {flag: True})  # nobody asks for the result
        assert session.run(count.raw_tensor) == 12


def test_parameter_changes_in_a_loop_in_the_order_of_the_code() -> None:
    with tf.Graph().as_default(), rf.backend_ctx("tf"), tf.compat.v1.Session() as session:
        count = rf.Parameter([], dtype="int32", initial=0)

        def body(state: Any) -> Any:
            i, seen = state
            count.assign_add(i)
            return i + 1, seen + count

        count.assign(100)
        _, seen = rf.while_loop(lambda s: s[0] < 4, body, (0, 0))
        after = count + 0
        session.run(tf.compat.v1.global_variables_initializer())
        for _ in range(2):
            assert session.run([seen.raw_tensor, after.raw_tensor]) == [100 + 101 + 103 + 106, 106]


def test_eager_loops_see_values() -> None:
    for backend in ("numpy", "torch"):
        with rf.backend_ctx(backend):
            i, x = rf.while_loop(lambda s: bool((s[0] < 3).raw_tensor), lambda s: (s[0] + 1, s[1] * 2), (0, 1))
            assert (int(i.raw_tensor), int(x.raw_tensor)) == (3, 8)


def test_context_of_control_flow() -> None:
    contexts: list[ControlFlowContext | None] = []

    def branch() -> Tensor:
        contexts.append(rf.get_current_control_flow_ctx())
        return rf.convert_to_tensor(1)

    with tf.Graph().as_default(), rf.backend_ctx("tf"):
        pred = Tensor("pred", dims=(), dtype="bool", raw_tensor=tf.compat.v1.placeholder(tf.bool, []))
        rf.while_loop(lambda i: i < 3, lambda i: i + rf.cond(pred, branch, branch), 0)
    assert rf.get_current_control_flow_ctx() is None
    assert contexts[0] is not None
    assert [ctx.kind for ctx in ControlFlowContext.abs_ctx_stack(contexts[0])] == ["loop", "cond"]


def test_random_values_differ_from_round_to_round_and_follow_from_the_step() -> None:
    values = []
    for _ in range(2):
        with tf.Graph().as_default() as graph, rf.backend_ctx("tf"), tf.compat.v1.Session() as session:
            rf.set_random_seed(3)
            frames, _, _ = rf.scan(
                spatial_dim=feature, body=lambda _, s: ([rf.random_uniform([]), rf.random_uniform([])], s)
            )
            frames = tf.stack([x.raw_tensor for x in frames])
            values.append([session.run(frames, run_seed_feed(graph, [step])) for step in (0, 1, 0)])
    assert len(numpy.unique(values[0][:2])) == 2 * 2 * 3
    numpy.testing.assert_array_equal(values[0][0], values[0][2])
    numpy.testing.assert_array_equal(values[0], values[1])


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_scan_without_any_frame(backend: str) -> None:
    with rf.backend_ctx(backend):
        empty = Dim(0, name="empty")
        frames, state, _ = rf.scan(
            spatial_dim=empty,
            xs=rf.zeros([empty, feature]),
            initial=rf.ones([feature]),
            body=lambda x, s: (x + s, s * 2),
        )
        assert frames.dims == (empty, feature)
        assert state.raw_tensor.tolist() == [1, 1, 1]


def test_frames_as_tensor_arrays() -> None:
    x = rf.convert_to_tensor(numpy.arange(3.0, dtype="float32"), dims=[feature])
    array, _, _ = rf.scan(spatial_dim=feature, xs=x, body=lambda x, s: (x * 2.0, s), return_tensor_arrays=True)
    assert isinstance(array, rf.TensorArray)
    assert array[2].raw_tensor == 4


def test_tensor_array_is_a_value() -> None:
    empty = rf.TensorArray(Tensor("x", [feature], "float32"))
    one = empty.push_back(rf.zeros([feature]))
    a, b = one.push_back(rf.ones([feature])), one.push_back(rf.zeros([feature]))
    assert a[1].raw_tensor.tolist() == [1, 1, 1]
    assert b[1].raw_tensor.tolist() == [0, 0, 0]
    dim = Dim(None, name="dim")
    assert empty.stack(axis=dim).raw_tensor.shape == (0, 3)
    assert one.stack(axis=Dim(None, name="dim")).raw_tensor.shape == (1, 3)


def test_template_of_a_loop_is_found_without_computing() -> None:
    x = Tensor("x", [batch_dim, time, feature], "float32")
    hist = Dim(0, name="hist")
    state = rf.State(x=x.copy_template_replace_dim_tag(1, hist), dim=hist)

    def body(s: rf.State) -> rf.State:
        longer = s.dim + 2
        return rf.State(x=rf.pad(s.x, axes=[s.dim], padding=[(1, 1)], out_dims=[longer], value=0.0)[0], dim=longer)

    last = rf.while_loop(lambda s: rf.reduce_all(s.x > 0.0, axis=s.x.dims), body, state)
    assert last.x.dims == (batch_dim, last.dim, feature)
    assert last.dim.size is None
    assert last.dim.name == "hist"
    assert last.dim != hist


one = lambda: rf.ones([feature])  # noqa: E731
ERRORS: list[tuple[str, Any, type[Exception], str]] = [
    (
        "condition with dims",
        lambda pred: rf.cond(one() > 0.0, one, one),
        DimError,
        "cond: the condition 'greater' [feature(3)] bool is not a scalar.\n"
        "  For a choice for each entry, see rf.where.",
    ),
    (
        "branches with different structures",
        lambda pred: rf.cond(pred, lambda: {"a": one()}, lambda: {"b": one()}),
        UserError,
        "cond: 'a' is in the true branch, but not in the false branch.",
    ),
    (
        "branches with different dtypes",
        lambda pred: rf.cond(pred, one, lambda: rf.cast(one(), "int32")),
        DtypeError,
        "cond: the dtype changes from 'full' [feature(3)] to 'full' [feature(3)] int32.\n  Use rf.cast.",
    ),
    (
        "branches with different dims of the same size",
        lambda pred: rf.cond(pred, one, lambda: rf.ones([other_feature])),
        DimError,
        "cond: the dim is feature(3) in one branch and other-feature(3) in the other.\n  Use rf.replace_dim.",
    ),
    (
        "state with another structure",
        lambda pred: rf.while_loop(lambda s: pred, lambda s: {"a": s["a"]}, {"a": one(), "b": one()}),
        UserError,
        "while_loop: 'b' is in the state before the body, but not in what the body returns.",
    ),
    (
        "state with another dtype",
        lambda pred: rf.while_loop(lambda s: pred, lambda s: {"a": s["a"] > 0.0}, {"a": one()}),
        DtypeError,
        "while_loop: the state 'a': the dtype changes from 'full' [feature(3)] to 'greater' [feature(3)] bool.\n"
        "  Use rf.cast.",
    ),
    (
        "state that becomes a tensor",
        lambda pred: rf.while_loop(lambda s: pred, lambda s: {"a": one()}, {"a": None}),
        UserError,
        "while_loop: the state: 'a' changes from None to 'full' [feature(3)].",
    ),
    (
        "condition of a loop with dims",
        lambda pred: rf.while_loop(lambda s: s > 0.0, lambda s: s, one()),
        DimError,
        "while_loop: the condition 'greater' [feature(3)] bool is not a scalar.\n"
        "  Use rf.reduce_any or rf.reduce_all on it.",
    ),
    (
        "scan without an end",
        lambda pred: rf.scan(body=lambda x, s: (x, s)),
        DimError,
        "scan: it is not known where the sequences end.\n"
        "  Give a spatial_dim with lengths, or a condition `cond`; max_seq_len alone is only a limit.",
    ),
    (
        "scan over a dim that is not there",
        lambda pred: rf.scan(spatial_dim=other, xs={"x": one()}, body=lambda x, s: (x, s)),
        DimError,
        "scan: xs 'x': 'full' [feature(3)] does not have the dim other(5).",
    ),
    (
        "array with elements of other dims",
        lambda pred: rf.TensorArray(one()).push_back(rf.ones([other])),
        DimError,
        "TensorArray: the elements look like 'full' [feature(3)], the new one is 'full' [other(5)].\n"
        "  All have the same dims: pad them to the same length, or use rf.replace_dim.",
    ),
    (
        "frames that differ in length",
        lambda pred: rf.scan(
            spatial_dim=feature, initial=Dim(1, name="one"), body=lambda _, dim: (rf.zeros([dim]), dim + 1)
        ),
        DimError,
        "TensorArray: the elements look like 'full' [one(1)], the new one is 'full' [one[]].\n"
        "  All have the same dims: pad them to the same length, or use rf.replace_dim.",
    ),
]


@pytest.mark.parametrize(("case", "function", "error", "text"), ERRORS, ids=[case[0] for case in ERRORS])
def test_errors(case: str, function: Any, error: type[Exception], text: str) -> None:
    with tf.Graph().as_default(), rf.backend_ctx("tf"):
        pred = Tensor("pred", dims=(), dtype="bool", raw_tensor=tf.compat.v1.placeholder(tf.bool, []))
        with pytest.raises(error) as info:
            function(pred)
    assert str(info.value) == text
    assert text.count("\n") < 5
