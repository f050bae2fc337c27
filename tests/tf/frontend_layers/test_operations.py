"""All cases of operations, recorded as layers of a net dict. See `tests/frontend/op_cases`."""

from __future__ import annotations

import pytest

from returnn.util.errors import DimError
from tests.frontend import op_run
from tests.frontend.op_case import SEED_WITH_EMPTY_SEQUENCES, OpCase, Variant, all_cases
from tests.frontend.op_cases import control_flow, gradient, nn, softmax
from tests.frontend.test_op_properties import assert_same_gradients, assert_same_values
from tests.tf.frontend_layers.net_run import NetRuns

NOT_IN_NET_DICTS = {  # what a loop or condition of layers cannot do, and how the error begins
    "growing_history": "while_loop: the backend 'returnn_layers_tf' cannot change the lengths of dims",
    "cond_with_dims_of_different_lengths": "cond: the backend 'returnn_layers_tf' needs the same dims in both branches",
}
CASES = [case for case in all_cases() if "tf" in case.backends and case.name not in NOT_IN_NET_DICTS]
LOOPS = [case for case in vars(control_flow).values() if isinstance(case, OpCase) and case in CASES]
OTHER_LAYOUT, GARBAGE = 2, Variant("garbage")
DIFFERENTIABLE = [
    case
    for module in (nn, gradient, softmax)
    for case in vars(module).values()
    if isinstance(case, OpCase) and case in CASES and case.differentiable and not case.random
]


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> NetRuns:
    """All selected cases in one net dict."""
    items = [item for item in request.session.items if item.module is request.module and "runs" in item.fixturenames]
    names = {item.callspec.params["case"].name for item in items}
    return NetRuns([case for case in CASES if case.name in names], 1)


@pytest.fixture(scope="module")
def runs_with_empty_sequences() -> NetRuns:
    return NetRuns(LOOPS, SEED_WITH_EMPTY_SEQUENCES)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_layers_equal_the_reference(case: OpCase, runs: NetRuns) -> None:
    assert_same_values(case, runs.result(case), op_run.reference(case, 1))


@pytest.mark.parametrize("case", LOOPS, ids=str)
def test_loops_over_empty_sequences_equal_the_reference(case: OpCase, runs_with_empty_sequences: NetRuns) -> None:
    expected = op_run.reference(case, SEED_WITH_EMPTY_SEQUENCES)
    assert_same_values(case, runs_with_empty_sequences.result(case), expected)


@pytest.fixture(scope="module")
def runs_with_gradients() -> NetRuns:
    """In another order of the axes."""
    return NetRuns(DIFFERENTIABLE, 1, layout=OTHER_LAYOUT, gradients_of=GARBAGE)


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=str)
def test_gradients_of_layers_equal_those_of_torch_in_any_layout(case: OpCase, runs_with_gradients: NetRuns) -> None:
    got = runs_with_gradients.result(case)
    expected = op_run.run_torch(case, 1, variant=GARBAGE)
    assert_same_values(case, got, expected)
    assert_same_gradients(case, got, expected)


@pytest.mark.parametrize("name", NOT_IN_NET_DICTS)
def test_what_layers_cannot_do_is_an_error(name: str) -> None:
    case = next(case for case in all_cases() if case.name == name)
    with pytest.raises(DimError, match=NOT_IN_NET_DICTS[name]):
        NetRuns([case], 1).result(case)
