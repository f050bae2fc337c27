"""Array operations on nested structures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor


@pytest.fixture(autouse=True)
def _numpy_backend() -> Iterator[None]:
    with rf.backend_ctx("numpy"):
        yield


def ints(values: Any, dims: list[Dim], sparse_dim: Dim | None = None) -> Tensor:
    return Tensor("ints", dims, "int32", sparse_dim=sparse_dim, raw_tensor=numpy.array(values, "int32"))


def make_state(batch: Dim, rows: list[list[int]]) -> dict[str, Any]:
    """:return: history with its dim, and the sum of each history"""
    time = Dim(ints([len(row) for row in rows], [batch]), name="time")
    width = max(map(len, rows))
    history = ints([row + [-1] * (width - len(row)) for row in rows], [batch, time])
    return {"time": time, "nested": [history, ints([sum(row) for row in rows], [batch])], "step": 3, "none": None}


def rows_of(state: dict[str, Any], batch: Dim) -> list[list[int]]:
    history, total = state["nested"]
    assert history.dims_set == {batch, state["time"]}
    array = history.copy_compatible_to_dims([batch, state["time"]]).raw_tensor
    lengths = state["time"].get_size_tensor().raw_tensor
    assert array.shape[1] == lengths.max(initial=0)
    rows = [row[:n].tolist() for row, n in zip(array, lengths, strict=True)]
    assert total.raw_tensor.tolist() == [sum(row) for row in rows]
    assert (state["step"], state["none"]) == (3, None)
    return rows


ROWS = [[1, 2, 3], [4], [5, 6]]


def test_gather_nested_takes_lengths_along() -> None:
    batch, beam = Dim(3, name="batch"), Dim(2, name="beam")
    dim_map: dict[Dim, Dim] = {}
    state = make_state(batch, ROWS)
    out = rf.nested.gather_nested(state, indices=ints([2, 1], [beam], sparse_dim=batch), dim_map=dim_map)
    assert rows_of(out, beam) == [[5, 6], [4]]
    assert dim_map == {state["time"]: out["time"]}


def test_where_nested_makes_dims_of_both_lengths() -> None:
    batch = Dim(3, name="batch")
    condition = Tensor("condition", [batch], "bool", raw_tensor=numpy.array([True, False, True]))
    a, b = make_state(batch, ROWS), make_state(batch, [[7], [8, 9, 10, 11], []])
    assert rows_of(rf.nested.where_nested(a, b, condition=condition), batch) == [[1, 2, 3], [8, 9, 10, 11], [5, 6]]
    assert rows_of(rf.nested.where_nested(b, a, condition=condition), batch) == [[7], [4], []]


def test_mask_nested_with_a_number_makes_sequences_empty() -> None:
    batch = Dim(3, name="batch")
    mask = Tensor("mask", [batch], "bool", raw_tensor=numpy.array([True, False, True]))
    out = rf.nested.mask_nested(make_state(batch, ROWS), mask=mask, mask_value=0)
    assert rows_of(out, batch) == [[1, 2, 3], [], [5, 6]]


def test_masked_select_and_scatter_nested() -> None:
    batch, selected_dim = Dim(3, name="batch"), Dim(None, name="selected")
    mask = Tensor("mask", [batch], "bool", raw_tensor=numpy.array([False, True, True]))
    state = make_state(batch, ROWS)
    dim_map: dict[Dim, Dim] = {}
    selected, _ = rf.nested.masked_select_nested(state, mask=mask, dims=[batch], out_dim=selected_dim, dim_map=dim_map)
    assert rows_of(selected, selected_dim) == [[4], [5, 6]]
    options: dict[str, Any] = {"mask": mask, "mask_cpu": None, "dims": [batch], "in_dim": selected_dim}
    back = rf.nested.masked_scatter_nested(selected, state, masked_select_dim_map=dim_map, **options)
    assert rows_of(back, batch) == ROWS

    longer = make_state(selected_dim, [[4, 4, 4, 4], [5, 6, 7]])
    back = rf.nested.masked_scatter_nested(longer, state, masked_select_dim_map=dim_map, **options)
    assert rows_of(back, batch) == [[1, 2, 3], [4, 4, 4, 4], [5, 6, 7]]


def test_states_stay_states() -> None:
    batch = Dim(3, name="batch")
    state = rf.State(inner=rf.LstmState(h=ints([1, 2, 3], [batch]), c=ints([4, 5, 6], [batch])))
    out = rf.nested.gather_nested(state, indices=ints([2, 0, 0], [batch], sparse_dim=batch))
    assert type(out.inner) is rf.LstmState
    assert out.inner.h.raw_tensor.tolist() == [3, 1, 1]
    condition = Tensor("condition", [batch], "bool", raw_tensor=numpy.array([True, False, True]))
    assert rf.nested.where_nested(out, state, condition=condition).inner.c.raw_tensor.tolist() == [6, 5, 4]
