"""What is known of an operation on certain layouts gives what the rules give, by both tables of plans."""

from __future__ import annotations

import cProfile
import itertools
import pstats
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import torch

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tensor.plans import Plan, PythonPlanTable, attributes_of, known, plans
from returnn.torch.frontend.plans import add_plan, use_compiled_table
from returnn.util.errors import DimError, DtypeError

A, B, C = Dim(2, name="a"), Dim(3, name="b"), Dim(4, name="c", kind=Dim.Types.Feature)
LABELS = Dim(7, name="labels")

OPERATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda x, y: x + y,
    "add_bc": lambda x, y: rf.combine_bc(x, "+", y),
    "number": lambda x, y: 2 - x * 0.5,
    "maximum": lambda x, y: rf.maximum(x, 0.1),
    "compare": lambda x, y: rf.compare_bc(x, "<", y),
    "compare with a number": lambda x, y: x >= 0,
    "where": lambda x, y: rf.where(x > 0, 1.0, x),
    "where_bc": lambda x, y: rf.where(x > 0, y, x, allow_broadcast_all_sources=True),
    "tanh": lambda x, y: rf.tanh(x),
    "mean": lambda x, y: rf.reduce_mean(x, axis=C),
    "max": lambda x, y: rf.reduce_max(x, axis=C),
    "argmax": lambda x, y: rf.reduce_argmax(x, axis=C),
    "softmax": lambda x, y: rf.softmax(x, axis=C),
    "log_softmax": lambda x, y: rf.log_softmax(x, axis=C),
    "matmul": lambda x, y: rf.matmul(x, y, reduce=C),
}


@pytest.fixture(params=["compiled", "python"], autouse=True)
def table(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(plans, "are_used", True)
    before = plans._table
    if request.param == "python":
        plans.use_table(PythonPlanTable())
    else:
        use_compiled_table()
        if isinstance(plans._table, PythonPlanTable):
            pytest.skip("there is no compiler")
    with rf.backend_ctx("torch"):
        yield request.param
    plans.use_table(before)


def tensor(dims: tuple[Dim, ...], *, feature_dim: Dim | None = C, seed: int = 1, **options: Any) -> Tensor:
    sizes = [dim.size for dim in dims]
    raw = torch.tensor(numpy.random.RandomState(seed).normal(size=sizes).astype("float32"))
    return Tensor("x", list(dims), "float32", feature_dim=feature_dim, raw_tensor=raw, **options)


def described(x: Tensor) -> tuple[Any, ...]:
    return x.dims, x.dtype, x.feature_dim, x.sparse_dim, x.time_dim_axis, x.name, x.version, x.raw_tensor.tolist()


@pytest.mark.parametrize("name", OPERATIONS)
def test_plans_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operation = OPERATIONS[name]
    others = {"matmul": [(C, B), (B, C)], "add": [(C,)]}.get(name, [(C,), (B, C), (C, B)])
    for dims, other, feature in itertools.product([(A, C), (C, A)], others, (C, None)):
        x = tensor(dims, feature_dim=feature)
        y = tensor(other, feature_dim=None, seed=2)
        with monkeypatch.context() as patch:
            patch.setattr(plans, "are_used", False)
            expected = described(operation(x, y))
        for _ in range(3):
            x = tensor(dims, feature_dim=feature)  # other objects, and another tuple of the same dims
            assert described(operation(x, y)) == expected


def test_the_second_time_little_is_called(table: str) -> None:
    x, y = tensor((A, B, C)), tensor((C,))
    for _ in range(2):
        x + y
    num_plans = len(plans)
    profile = cProfile.Profile()
    profile.enable()
    x + y
    profile.disable()
    assert len(plans) == num_plans > 0
    assert pstats.Stats(profile).total_calls < (10 if table == "compiled" else 25)


def test_labels_keep_their_dim() -> None:
    for name in ("one", "other"):
        labels = Dim(3, name=name)
        x = Tensor("x", [A], "int32", sparse_dim=labels, raw_tensor=torch.tensor([0, 1], dtype=torch.int32))
        for _ in range(2):
            assert rf.maximum(x, x).sparse_dim is labels


def test_dims_that_become_the_same() -> None:
    first, second = Dim(None, name="first"), Dim(None, name="second")
    for dim in (first, second):
        dim.dyn_size_ext = Tensor("lengths", [], "int32", raw_tensor=torch.tensor(3, dtype=torch.int32))
    x, y = (Tensor("x", [dim], "float32", raw_tensor=torch.ones(3)) for dim in (first, second))
    assert len(rf.combine_bc(x, "+", y).dims) == 2
    with pytest.raises(DimError, match="the dims do not match"):
        x + y
    first.declare_same_as(second)
    assert len(rf.combine_bc(x, "+", y).dims) == 1
    assert len((x + y).dims) == 1


def test_not_more_are_kept_than_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "MAX_PLANS", 10)
    for size in range(1, 40):
        dim = Dim(size, name="dim")
        x = Tensor("x", [dim], "float32", raw_tensor=torch.ones(size))
        assert (x + x).dims == (dim,)
        assert len(plans) <= 10


def test_numbers_beside_integers_are_looked_at_each_time() -> None:
    x = Tensor("x", [A], "int8", raw_tensor=torch.ones(2, dtype=torch.int8))
    assert (x + 1).dtype == "int8"
    with pytest.raises(DtypeError, match="the number 1000 does not fit"):
        x + 1000


def test_nothing_is_known_of_templates() -> None:
    x = Tensor("x", [A], "float32")
    add_plan("tanh", [x], lambda: Plan(attributes_of(x), 0, torch.tanh))
    assert not len(plans)
    assert (x + x).raw_tensor is None


def test_what_is_kept_does_not_change_with_the_operands() -> None:
    x = tensor((A, C))
    for _ in range(2):
        y = rf.tanh(x)
    x.dtype = "bfloat16"
    x._raw_tensor = x._raw_tensor.bfloat16()
    x.feature_dim = A
    assert (rf.tanh(x).dtype, rf.tanh(x).feature_dim) == ("bfloat16", A)
    assert (y.dtype, y.feature_dim) == ("float32", C)


def test_parameters_are_operands() -> None:
    param = rf.Parameter([A, C])
    for value in (1.0, 2.0):
        param.initial = value
        x = param * 3.0 + tensor((A, C))
        assert type(x) is Tensor
        numpy.testing.assert_allclose((x - tensor((A, C))).raw_tensor.detach().numpy(), value * 3, rtol=1e-5)


def test_errors_of_the_raw_function_come_through() -> None:
    x = tensor((A, C))
    for _ in range(2):
        x + x
    y = tensor((A, C))
    y._raw_tensor = torch.ones(5, 7)
    with pytest.raises(RuntimeError, match="size of tensor"):
        x + y
    for operands in ((), (x,) * 20, (None,), ([x],)):
        assert plans.run("add", *operands) is None
