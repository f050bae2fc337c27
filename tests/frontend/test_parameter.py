"""Parameters on all backends: initial values, assignments, copies, names."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy
import pytest
import tensorflow as tf
import torch

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DimError, DtypeError, UserError

rows = Dim(3, name="rows")
columns = Dim(4, name="columns", kind=Dim.Types.Feature)
pair = Dim(2, name="pair")


class Run:
    """A backend, and how to get at values."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self.session: tf.compat.v1.Session | None = None

    def value(self, x: Tensor) -> numpy.ndarray:
        if self.backend == "tf":
            raw = tf.convert_to_tensor(x._raw_tensor)
            if self.session is None:
                self.session = tf.compat.v1.Session()
                self.session.run(tf.compat.v1.global_variables_initializer())
            return self.session.run(raw)
        return x.raw_tensor.detach().numpy() if self.backend == "torch" else x.raw_tensor


@pytest.fixture(params=["numpy", "torch", "tf"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    with tf.Graph().as_default(), rf.backend_ctx(request.param):
        rf.set_random_seed(1)
        result = Run(request.param)
        yield result
        if result.session is not None:
            result.session.close()


@pytest.mark.parametrize("initial", [None, 2.5, numpy.arange(12, dtype="float32").reshape(3, 4)])
def test_initial_value(run: Run, initial: Any) -> None:
    param = rf.Parameter([rows, columns], initial=initial)
    expected = numpy.broadcast_to(0.0 if initial is None else initial, (3, 4))
    numpy.testing.assert_array_equal(run.value(param), expected)


def test_initial_value_can_be_set_after_construction(run: Run) -> None:
    param = rf.Parameter([rows, columns])
    param.initial = rf.init.Normal(0.5)
    value = run.value(param)
    assert 0 < numpy.abs(value).max() <= 1.0


def test_raw_parameters_are_those_of_the_framework() -> None:
    with rf.backend_ctx("torch"):
        assert isinstance(rf.Parameter([rows]).raw_tensor, torch.nn.Parameter)
        assert not rf.Parameter([rows], trainable=False).raw_tensor.requires_grad
    with tf.Graph().as_default(), rf.backend_ctx("tf"):
        assert isinstance(rf.Parameter([rows]).raw_tensor, tf.Variable)
    with rf.backend_ctx("template"):
        assert rf.Parameter([rows]).raw_tensor is None


def test_trainable() -> None:
    assert rf.Parameter([rows]).trainable
    assert not rf.Parameter([rows], auxiliary=True).trainable
    assert not rf.Parameter([rows], dtype="int32").trainable
    with rf.backend_ctx("torch"):
        param = rf.Parameter([rows])
        param.trainable = False
        assert not param.raw_tensor.requires_grad
    with tf.Graph().as_default() as graph, rf.backend_ctx("tf"):
        param = rf.Parameter([rows])
        variable = param.raw_tensor
        names = [x.name for x in graph.get_collection("trainable_variables")]
        assert names == [variable.name]
        param.trainable = False
        assert not graph.get_collection("trainable_variables")
        param.trainable = True
        assert len(graph.get_collection("trainable_variables")) == 1


def test_results_are_no_parameters(run: Run) -> None:
    param = rf.Parameter([rows])
    for x in (param + 1.0, param.copy(), param.copy_template()):
        assert type(x) is Tensor
        assert not hasattr(x, "_initial")


def test_assignments(run: Run) -> None:
    param = rf.Parameter([rows, columns], initial=1.0)
    before = param * 1.0
    param.assign(rf.convert_to_tensor(numpy.array([1, 2, 3], "float32"), dims=[rows]))
    param.assign_add(10.0)
    after = param * 1.0
    if run.backend != "tf":
        assert (run.value(before) == 1).all()
        numpy.testing.assert_array_equal(run.value(after), numpy.array([[11], [12], [13]]) * numpy.ones((3, 4)))
        return
    with tf.compat.v1.Session() as session:  # in the order of the code, in each run
        session.run(tf.compat.v1.global_variables_initializer())
        for expected in (1.0, numpy.array([[11], [12], [13]])):
            value_before, value = session.run([before.raw_tensor, after.raw_tensor])
            numpy.testing.assert_array_equal(value_before, numpy.broadcast_to(expected, (3, 4)))
            numpy.testing.assert_array_equal(value, numpy.array([[11], [12], [13]]) * numpy.ones((3, 4)))


def _key_cases() -> list[tuple[str, Any]]:
    index = lambda values, dims: rf.convert_to_tensor(numpy.array(values), dims=dims)  # noqa: E731
    vector = lambda dim: rf.range_over_dim(dim, dtype="float32")  # noqa: E731

    def one_number(param: rf.Parameter, ref: numpy.ndarray) -> None:
        param.assign_key(rows, 1, None, 7.0)
        ref[1] = 7

    def last_axis(param: rf.Parameter, ref: numpy.ndarray) -> None:
        param.assign_key(columns, 2, None, vector(rows))
        ref[:, 2] = numpy.arange(3)

    def a_slice(param: rf.Parameter, ref: numpy.ndarray) -> None:
        param.assign_key(columns, slice(1, 3), pair, vector(pair))
        ref[:, 1:3] = numpy.arange(2)

    def indices(param: rf.Parameter, ref: numpy.ndarray) -> None:
        param.assign_key(columns, index([3, 0], [pair]), None, vector(pair))
        ref[:, [3, 0]] = numpy.arange(2)

    def pairs_of_indices(param: rf.Parameter, ref: numpy.ndarray) -> None:
        param.assign_key([rows, columns], [index([2, 0], [pair]), index([1, 3], [pair])], None, vector(pair))
        ref[[2, 0], [1, 3]] = numpy.arange(2)

    def slice_and_number(param: rf.Parameter, ref: numpy.ndarray) -> None:
        param.assign_key([columns, rows], [slice(None, None, -2), 2], [pair, None], vector(pair))
        ref[2, ::-2] = numpy.arange(2)

    def scalar_tensor(param: rf.Parameter, ref: numpy.ndarray) -> None:
        param.assign_key(rows, index(2, []), None, 5.0)
        ref[2] = 5

    cases = [one_number, last_axis, a_slice, indices, pairs_of_indices, slice_and_number, scalar_tensor]
    return [(case.__name__, case) for case in cases]


@pytest.mark.parametrize(("name", "case"), _key_cases(), ids=lambda x: x if isinstance(x, str) else "")
def test_assign_key_is_like_numpy(run: Run, name: str, case: Any) -> None:
    param = rf.Parameter([rows, columns], initial=1.0)
    expected = numpy.ones((3, 4), "float32")
    case(param, expected)
    numpy.testing.assert_array_equal(run.value(param), expected)


def test_move(run: Run) -> None:
    param = rf.Parameter([rows], initial=2.0)
    param.to(dtype="float64", device="cpu")
    assert param.dtype == "float64"
    value = run.value(param)
    assert value.dtype == "float64"
    assert (value == 2).all()


def test_copies(run: Run) -> None:
    param = rf.Parameter([rows], initial=rf.init.Normal(1.0), weight_decay=0.1, auxiliary=True)
    drawn_anew = copy.deepcopy(param)
    assert (drawn_anew.weight_decay, drawn_anew.auxiliary) == (0.1, True)
    values = param + 0.0, drawn_anew + 0.0
    assert run.value(values[0]).tolist() != run.value(values[1]).tolist()
    if run.backend != "tf":
        with rf.set_parameter_copy_behavior_ctx("value"):
            numpy.testing.assert_array_equal(run.value(copy.deepcopy(param)), run.value(param))


def test_parameter_from_tensor(run: Run) -> None:
    x = rf.convert_to_tensor(numpy.array([1, 2, 3], "float32"), dims=[rows])
    param = rf.Parameter(x)
    numpy.testing.assert_array_equal(run.value(param), [1, 2, 3])


def test_variables_are_named_after_their_modules() -> None:
    class Linear(rf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = rf.Parameter([rows])

    class Model(rf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = rf.ModuleList(Linear(), Linear())
            self.scale = rf.Parameter([])

    with tf.Graph().as_default(), rf.backend_ctx("tf"), tf.name_scope("elsewhere"):
        model = Model()
        names = [param.raw_tensor.op.name for param in model.parameters()]
        assert [name for name, _ in model.named_parameters()] == ["scale", "layers.0.weight", "layers.1.weight"]
        assert names == ["scale", "layers/0/weight", "layers/1/weight"]


def test_parameter_that_is_first_used_in_a_loop_belongs_to_the_outermost_graph() -> None:
    with tf.Graph().as_default() as graph, rf.backend_ctx("tf"), tf.compat.v1.Session() as session:
        param = rf.Parameter([rows], initial=2.0)
        last = rf.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * param), (0, rf.ones([rows])))
        assert param.raw_tensor.graph is graph
        session.run(tf.compat.v1.global_variables_initializer())
        assert session.run(last[1].raw_tensor).tolist() == [8, 8, 8]


ERRORS: list[tuple[Any, type[Exception], str]] = [
    (
        lambda p: rf.Parameter([rows, Dim(None, name="time")]),
        DimError,
        "Parameter: the dims time[?] are dynamic.\n  A parameter has fixed sizes.",
    ),
    (lambda p: rf.Parameter(), DimError, "Parameter: the dims are missing."),
    (
        lambda p: p.assign(rf.zeros([pair])),
        DimError,
        "assign: 'full' [pair(2)] has the dim pair(2).\n  'parameter' [rows(3), columns(4)] takes the dims rows(3), "
        "columns(4).",
    ),
    (
        lambda p: p.assign(rf.zeros([rows], dtype="int32")),
        DtypeError,
        "assign: 'parameter' [rows(3), columns(4)] has the dtype float32, the value 'full' [rows(3)] int32 has int32.\n"
        "  Use rf.cast on the value.",
    ),
    (
        lambda p: p.assign_key(rows, slice(0, 2), None, 1.0),
        DimError,
        "assign_key: the slice of rows(3) of 'parameter' [rows(3), columns(4)] needs a key_dim.",
    ),
    (
        lambda p: p.assign_key([rows, columns], 1, None, 1.0),
        DimError,
        "assign_key: 1 keys, 2 axes and 1 key dims were given for 'parameter' [rows(3), columns(4)].",
    ),
]


@pytest.mark.parametrize(("function", "error", "text"), ERRORS)
def test_errors(function: Any, error: type[Exception], text: str) -> None:
    param = rf.Parameter([rows, columns])
    with pytest.raises(error) as info:
        function(param)
    assert str(info.value) == text


def test_variables_of_a_graph_keep_their_initial_value() -> None:
    with tf.Graph().as_default(), rf.backend_ctx("tf"):
        param = rf.Parameter([rows])
        _ = param + 1.0
        with pytest.raises(UserError, match="it was used already, so its initial value cannot change"):
            param.initial = 1.0
        with pytest.raises(UserError, match="it was used already, so it cannot move"):
            param.to(dtype="float64")


def test_a_size_is_no_dim() -> None:
    with pytest.raises(
        DimError, match=r"^Parameter: expected dims, got 32.\n  A size becomes a dim by .*Dim\(32, name="
    ):
        rf.Parameter([rows, 32])  # type: ignore[list-item]
