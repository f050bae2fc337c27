"""What holds for each operation of the frontend, on random inputs. The cases are in `op_cases`."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from returnn.frontend._backend import Backend
from returnn.frontend._ops.operands import OperandOps
from tests.frontend import op_run
from tests.frontend.op_case import SEED_WITH_EMPTY_SEQUENCES, OpCase, Variant, all_cases

CASES = all_cases()
GARBAGE = Variant("garbage")


TESTED_ELSEWHERE = {  # what computes no tensor from tensors
    "assert_": "test_assert.py",
    "cum_concat_step": "test_raw_operations.py",
    "dry_run_scope": "test_loops_dry_run.py",
    "executing_eagerly": "test_raw_operations.py",
    "format_graph_output": "test_raw_operations.py",
    "get_random_state": "test_random_state.py",
    "graph_of_value": "test_raw_operations.py",
    "is_computed_from_constants": "test_raw_operations.py",
    "is_computed_from_own_input": "test_raw_operations.py",
    "is_valid_in_current_graph": "test_raw_operations.py",
    "raw_to_numpy": "test_raw_operations.py",
    "runtime_sanity_checks": "test_raw_operations.py",
    "set_random_seed": "test_random_state.py",
    "set_random_state": "test_random_state.py",
    "should_pickle_tensor": "test_raw_operations.py",
}

for_all_cases = pytest.mark.parametrize("case", CASES, ids=str)
random_inputs = [
    settings(
        derandomize=True,
        max_examples=2,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],  # a smaller seed makes no simpler example
    ),
    example(seed=SEED_WITH_EMPTY_SEQUENCES),
    given(seed=st.integers(0, 2**31)),
]


def on_random_inputs(test: Any) -> Any:
    for decorator in reversed(random_inputs):
        test = decorator(test)
    return test


@pytest.fixture(scope="session")
def tf_runs(request: pytest.FixtureRequest) -> Iterator[dict[int, op_run.TFRuns]]:
    """All selected cases in one graph, by seed."""
    selected = _selected(request, "tf_runs")
    cases = [case for case in CASES if case.name in selected]
    return {seed: op_run.TFRuns(cases, seed) for seed in op_run.TF_SEEDS}


@pytest.fixture(scope="session")
def tf_runs_in_float64(request: pytest.FixtureRequest) -> op_run.TFRuns:
    """As `tf_runs`, with one seed."""
    selected = _selected(request, "tf_runs_in_float64")
    return op_run.TFRuns([case for case in CASES if case.name in selected], 3, float_dtype="float64")


def _selected(request: pytest.FixtureRequest, fixture: str) -> set[str]:
    """:return: names of the cases that are backed by TensorFlow, of all tests in this session which use the fixture"""
    items = [item for item in request.session.items if fixture in item.fixturenames]
    return {c.name for c in (item.callspec.params["case"] for item in items) if "tf" in c.backends}


def needs(case: OpCase, *backends: str) -> None:
    missing = [b for b in backends if b not in case.backends]
    if missing:
        pytest.skip(f"not on {missing}")


@for_all_cases
@on_random_inputs
def test_numpy_and_torch_equal_the_reference(case: OpCase, seed: int) -> None:
    needs(case, "numpy")
    expected = op_run.reference(case, seed)
    assert_same_values(case, op_run.run_numpy(case, seed), expected)
    if "torch" in case.backends:
        assert_same_values(case, op_run.run_torch(case, seed, with_gradients=False), expected)


@for_all_cases
def test_numpy_and_torch_equal_the_reference_in_float64(case: OpCase) -> None:
    needs(case, "numpy")
    expected = op_run.run_reference(case, 3, float_dtype="float64")
    precise = dataclasses.replace(case, rtol=1e-9, atol=1e-11)
    assert_same_values(precise, op_run.run_numpy(case, 3, float_dtype="float64"), expected)
    if "torch" in case.backends:
        got = op_run.run_torch(case, 3, with_gradients=False, float_dtype="float64")
        assert_same_values(precise, got, expected)


@for_all_cases
def test_tensorflow_equals_the_reference(case: OpCase, tf_runs: dict[int, op_run.TFRuns]) -> None:
    needs(case, "tf")
    for seed, runs in tf_runs.items():
        assert_same_values(case, runs.result(case, Variant()), op_run.reference(case, seed))


@for_all_cases
def test_tensorflow_equals_the_reference_in_float64(case: OpCase, tf_runs_in_float64: op_run.TFRuns) -> None:
    needs(case, "tf", "numpy")
    precise = dataclasses.replace(case, rtol=1e-9, atol=1e-11)
    expected = op_run.run_reference(case, 3, float_dtype="float64")
    assert_same_values(precise, tf_runs_in_float64.result(case, Variant()), expected)


@for_all_cases
def test_gradients_of_tensorflow_equal_those_of_torch(case: OpCase, tf_runs: dict[int, op_run.TFRuns]) -> None:
    needs(case, "tf", "torch")
    for seed, runs in tf_runs.items():
        expected = op_run.run_torch(case, seed, variant=GARBAGE)
        assert_same_gradients(case, runs.result(case, GARBAGE), expected)


@for_all_cases
def test_template_equals_value(case: OpCase, tf_runs: dict[int, op_run.TFRuns]) -> None:
    needs(case, "template")
    for seed, runs in tf_runs.items():
        layout = op_run.EVAL_LAYOUT["tf"] * (seed % 2)  # the layout that the case names, or another one
        template = [(x.dims, x.described()) for x in op_run.run_template(case, seed, layout=layout).values]
        if "numpy" in case.backends:
            value = op_run.run_numpy(case, seed, layout=layout)
            assert [(x.dims, x.described()) for x in value.values] == template
        if "torch" in case.backends:
            value = op_run.run_torch(case, seed, layout=layout, with_gradients=False)
            assert [(x.dims, x.described()) for x in value.values] == template
        if "tf" in case.backends:
            value = runs.result(case, Variant())
            assert [x.described() for x in value.values] == [described for _, described in template]


@for_all_cases
@on_random_inputs
def test_order_of_axes_in_memory_does_not_matter(case: OpCase, seed: int) -> None:
    run = op_run.run_numpy if "numpy" in case.backends else op_run.run_torch
    assert_same_values(case, run(case, seed, layout=1), run(case, seed, layout=2))


@for_all_cases
@on_random_inputs
def test_padded_frames_do_not_reach_valid_ones_nor_gradients(case: OpCase, seed: int) -> None:
    needs(case, "torch")
    if "numpy" in case.backends:
        assert_same_values(case, op_run.run_numpy(case, seed, variant=GARBAGE), op_run.run_numpy(case, seed))
    results = [op_run.run_torch(case, seed, variant=Variant(p)) for p in ("nan", "garbage", "other garbage")]
    for other in results[1:]:
        assert_same_values(case, other, results[0])
    assert_same_gradients(case, results[1], results[2])
    assert_no_nan_in_gradients_of_padded_inputs(case, seed, results[0])


@for_all_cases
def test_padded_frames_do_not_reach_valid_ones_in_tensorflow(case: OpCase, tf_runs: dict[int, op_run.TFRuns]) -> None:
    needs(case, "tf")
    for seed, runs in tf_runs.items():
        results = [runs.result(case, Variant(p)) for p in ("nan", "garbage", "other garbage")]
        for other in results[1:]:
            assert_same_values(case, other, results[0])
        assert_same_gradients(case, results[1], results[2])
        assert_no_nan_in_gradients_of_padded_inputs(case, seed, results[0])


@for_all_cases
@on_random_inputs
def test_batch_of_one_equals_batch_of_many(case: OpCase, seed: int) -> None:
    if not case.per_sequence or case.random:
        pytest.skip("the sequences of a batch are not independent")
    for run, backend in ((op_run.run_numpy, "numpy"), (op_run.run_torch, "torch")):
        if backend in case.backends:
            many = run(case, seed)
            for entry in range(batch_size(case, seed)):
                assert_same_entry(case, many, run(case, seed, variant=Variant(entry=entry)), entry)


@for_all_cases
def test_batch_of_one_equals_batch_of_many_in_tensorflow(case: OpCase, tf_runs: dict[int, op_run.TFRuns]) -> None:
    if not case.per_sequence or case.random:
        pytest.skip("the sequences of a batch are not independent")
    needs(case, "tf")
    for seed, runs in tf_runs.items():
        many = runs.result(case, Variant())
        for entry in range(batch_size(case, seed)):
            try:
                one = runs.result(case, Variant(entry=entry))
            except LookupError:
                break  # the batch size is part of the graph
            assert_same_entry(case, many, one, entry)


def test_each_method_of_a_backend_has_a_case() -> None:
    covered = {name for case in CASES for name in case.covers}
    members = inspect.getmembers(Backend, lambda member: callable(member) and not isinstance(member, type))
    methods = {name for name, _ in members if not name.startswith("_")}
    raw = {name for name in methods if name.endswith("_raw")} | set(vars(OperandOps))  # what operations are made of
    assert covered <= methods, "no methods of Backend"
    assert not methods - covered - raw - set(TESTED_ELSEWHERE)


@pytest.mark.parametrize("method", TESTED_ELSEWHERE)
def test_methods_without_a_case_have_tests_elsewhere(method: str) -> None:
    assert method in (Path(__file__).parent / TESTED_ELSEWHERE[method]).read_text("utf8")


def batch_size(case: OpCase, seed: int) -> int:
    return op_run.Inputs(case, seed, lambda value, dims: None).batch_size


def assert_same_values(case: OpCase, got: op_run.Result, expected: op_run.Result) -> None:
    assert [x.described() for x in got.values] == [x.described() for x in expected.values]
    for a, b in zip(got.values, expected.values, strict=True):
        for value in (a, b):
            assert numpy.shape(value.array) == value.sizes, f"shape of the value, sizes of the dims {value.dims}"
            assert value.array.dtype.name == value.dtype or value.dtype == "string"
        if case.random:
            continue
        assert set(a.lengths) <= set(b.lengths), "which dims are dynamic"
        for dim, lengths in a.lengths.items():
            order = op_run.axis_order(a.lengths_dims[dim], b.lengths_dims[dim])
            lengths = numpy.asarray(lengths).transpose(order)
            numpy.testing.assert_array_equal(lengths, b.lengths[dim], f"lengths of {dim}")
        assert_close(case, a.in_order(b.dims), b.array, b.mask(), f"output {b.dims}")


def assert_same_gradients(case: OpCase, got: op_run.Result, expected: op_run.Result) -> None:
    if case.random or not case.differentiable:
        return
    assert len(got.gradients) == len(expected.gradients)
    for i, (a, b) in enumerate(zip(got.gradients, expected.gradients, strict=True)):
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            assert_close(case, a, b, numpy.ones(b.shape, bool), f"gradient of input {i}")


def assert_no_nan_in_gradients_of_padded_inputs(case: OpCase, seed: int, result: op_run.Result) -> None:
    if case.random or not case.differentiable or not case.nan_gradients:
        return
    inputs = op_run.Inputs(case, seed, lambda value, dims: None)
    with op_run.rf.backend_ctx("template"):
        op_run.outputs_of(case, inputs)
    for i, (x, gradient) in enumerate(zip(inputs.inputs, result.gradients, strict=True)):
        if gradient is not None and x.mask is not None and not x.mask.all():
            assert numpy.isfinite(gradient[x.mask]).all(), f"gradient of input {i} at valid frames"


def assert_same_entry(case: OpCase, many: op_run.Result, one: op_run.Result, entry: int) -> None:
    """Compares one sequence of a batch with the same sequence alone. Outputs without a batch axis are not compared."""
    for a, b in zip(many.values, one.values, strict=True):
        assert a.described() == b.described()
        if "batch" not in a.dims:
            continue
        axis = a.dims.index("batch")
        b_array, b_mask = b.in_order(a.dims), b.mask().transpose(op_run.axis_order(b.dims, a.dims))
        a_array, a_mask = a.array.take([entry], axis), a.mask().take([entry], axis)
        for i, dim in enumerate(a.dims):
            if dim in a.lengths and a_array.shape[i] >= b_array.shape[i]:
                assert not a_mask.take(range(b_array.shape[i], a_array.shape[i]), i).any(), f"lengths of {dim}"
                a_array = a_array.take(range(b_array.shape[i]), i)
                a_mask = a_mask.take(range(b_array.shape[i]), i)
        numpy.testing.assert_array_equal(a_mask, b_mask, "valid frames")
        assert_close(case, a_array, b_array, a_mask, f"output {a.dims}, sequence {entry}")


def assert_close(case: OpCase, got: Any, expected: Any, mask: numpy.ndarray, what: str) -> None:
    got, expected = numpy.asarray(got), numpy.asarray(expected)
    assert got.shape == expected.shape, what
    got, expected = got[mask], expected[mask]
    if expected.dtype.kind in "fc":
        numpy.testing.assert_allclose(got, expected, rtol=case.rtol, atol=case.atol, err_msg=what)
    else:
        numpy.testing.assert_array_equal(got, expected, what)
