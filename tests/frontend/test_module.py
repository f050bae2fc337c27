"""Modules, containers, hooks, parametrizations, states."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import numpy
import pytest

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.util.errors import ConfigError, UserError

feature = Dim(3, name="feature")
x = rf.convert_to_tensor(numpy.array([1, 2, 3], "float32"), dims=[feature])


class Scale(rf.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = rf.Parameter([], initial=factor)

    def __call__(self, source: Tensor) -> Tensor:
        return source * self.factor

    def default_initial_state(self, *, batch_dims: Any) -> rf.State:
        return rf.State(h=rf.zeros(batch_dims))


class Model(rf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Scale(2.0)
        self.rest = rf.Sequential(Scale(3.0), rf.relu, Scale(5.0))
        self.shared = self.first
        self.bias = rf.Parameter([feature], initial=1.0)

    def __call__(self, source: Tensor) -> Tensor:
        return self.rest(self.first(source)) + self.bias


def test_names() -> None:
    model = Model()
    assert [name for name, _ in model.named_children()] == ["first", "rest"]
    assert [name for name, _ in model.named_modules()] == ["", "first", "rest", "rest.0", "rest.1", "rest.2"]
    assert [name for name, _ in model.named_modules(recurse=False)] == ["", "first", "rest"]
    assert [name for name, _ in model.named_parameters()] == ["bias", "first.factor", "rest.0.factor", "rest.2.factor"]
    assert [name for name, _ in model.named_parameters(recurse=False)] == ["bias"]
    assert len(list(model.modules())) == 6
    assert model.has_parameters
    assert not rf.Functional(rf.relu).has_parameters


def test_deep_attributes() -> None:
    model = Model()
    assert model.get_deep("rest.0.factor") is model.rest[0].factor
    assert model.get_deep("") is model
    new = Scale(1.0)
    model.set_deep("rest.0", new)
    assert model.rest[0] is new
    with pytest.raises(AttributeError, match=r"there is no 'rest.0.foo': <Scale> has no 'foo'"):
        model.get_deep("rest.0.foo")


def test_call() -> None:
    assert Model()(x).raw_tensor.tolist() == [31, 61, 91]


def test_apply_goes_from_the_leaves_to_the_root() -> None:
    visited: list[str] = []
    model = Model()
    assert model.apply(lambda module: visited.append(module.get_default_name())) is model
    assert visited == ["scale", "scale", "relu", "scale", "sequential", "model"]


def test_move_all_floats() -> None:
    model = Model()
    model.count = rf.Parameter([], dtype="int32")
    model.to(dtype="float64")
    assert {name: param.dtype for name, param in model.named_parameters()} == {
        "bias": "float64", "count": "int32", "first.factor": "float64", "rest.0.factor": "float64",
        "rest.2.factor": "float64",
    }  # fmt: skip


def test_initial_state_has_the_states_of_sub_modules() -> None:
    state = Model().default_initial_state(batch_dims=[feature])
    assert state is not None
    assert sorted(state) == ["first", "rest"]
    assert list(state.rest["0"]) == ["h"]
    assert rf.Functional(rf.relu).default_initial_state(batch_dims=[]) is None


def test_copy_has_its_own_parameters() -> None:
    model = Model()
    other = copy.deepcopy(model)
    other.first.factor.assign(7.0)
    assert model.first.factor.raw_tensor == 2
    assert other.shared is other.first
    assert other.rest[0].factor.get_full_name() == "rest.0.factor"


def test_forward_hooks() -> None:
    model = Scale(2.0)
    calls: list[Any] = []

    def note(module: Any, args: Any, kwargs: Any, result: Tensor) -> None:
        calls.append((module, args, kwargs, result.raw_tensor.tolist()))

    handles = [
        model.register_forward_hook(note),
        model.register_forward_hook(lambda module, args, kwargs, result: result + 1.0, prepend=True),
    ]
    assert model(source=x).raw_tensor.tolist() == [3, 5, 7]
    assert calls == [(model, (), {"source": x}, [3, 5, 7])]
    assert isinstance(model, Scale)
    for handle in handles:
        handle.remove()
    assert type(model) is Scale
    assert model(x).raw_tensor.tolist() == [2, 4, 6]


def test_hooks_on_several_methods() -> None:
    model = Scale(2.0)
    hook = lambda *args: "hook"  # noqa: E731
    first = rf.hooks.setup_post_hook_on_method(model, "get_default_name", hook)
    second = rf.hooks.setup_post_hook_on_method(model, "__repr__", hook)
    assert (model.get_default_name(), repr(model)) == ("hook", "hook")
    first.remove()
    assert (model.get_default_name(), repr(model)) == ("scale", "hook")
    second.remove()
    assert (model.get_default_name(), repr(model)) == ("scale", "<Scale>")


def test_copy_of_a_module_with_hooks_has_its_own() -> None:
    model = Scale(2.0)
    handle = model.register_forward_hook(lambda module, args, kwargs, result: result + 1.0)
    other = copy.deepcopy(model)
    other.register_forward_hook(lambda module, args, kwargs, result: result + 10.0)
    assert other(x).raw_tensor.tolist() == [13, 15, 17]
    handle.remove()
    assert model(x).raw_tensor.tolist() == [2, 4, 6]
    assert other(x).raw_tensor.tolist() == [13, 15, 17]


def test_module_list() -> None:
    modules = rf.ModuleList([Scale(1.0), rf.relu])
    modules.append(Scale(2.0)).extend([Scale(3.0)])
    assert len(modules) == 4
    assert [name for name, _ in modules.items()] == ["0", "1", "2", "3"]
    assert isinstance(modules[1], rf.Functional)
    assert [name for name, _ in modules[1:3].items()] == ["1", "2"]
    last = modules[-1]
    del modules[0]
    assert [name for name, _ in modules.items()] == ["0", "1", "2"]
    assert modules[2] is last
    modules[0] = last
    assert modules[0] is last
    with pytest.raises(TypeError, match="cannot be called"):
        modules(x)
    assert [name for name, _ in rf.ModuleList({"a": Scale(1.0), "b": rf.relu}).items()] == ["a", "b"]


def test_sequential() -> None:
    outputs: dict[str, Tensor] = {}
    model = rf.Sequential({"double": Scale(2.0), "half": Scale(0.5)})
    assert model(x, collected_outputs=outputs).raw_tensor.tolist() == [1, 2, 3]
    assert outputs["double"].raw_tensor.tolist() == [2, 4, 6]
    assert rf.sequential(x, Scale(2.0), rf.neg).raw_tensor.tolist() == [-2, -4, -6]


def test_parameter_list() -> None:
    params = rf.ParameterList(rf.Parameter([feature], initial=1.0), rf.Parameter([], initial=2.0))
    assert [name for name, _ in params.named_parameters()] == ["0", "1"]
    new = rf.Parameter([])
    params[1] = new
    assert list(params) == [params[0], new]
    assert len(params[:1]) == 1


def test_functional() -> None:
    module = rf.Functional(lambda y: y * module.factor, attribs={"factor": rf.Parameter([], initial=3.0)})
    assert module(x).raw_tensor.tolist() == [3, 6, 9]
    assert [name for name, _ in module.named_parameters()] == ["factor"]
    assert rf.Functional(rf.log_softmax).get_default_name() == "log_softmax"
    with pytest.raises(UserError, match="expected a function, got 3"):
        rf.Functional(3)


def test_state() -> None:
    state = rf.State(h=x, inner=rf.State(c=[x, 1]))
    assert state.h is state["h"]
    assert [y is x for y in state.flatten_tensors()] == [True, True]
    state.n = 3
    assert state["n"] == 3
    assert rf.State(x) == {"state": x}
    assert rf.State({"a": 1}) == {"a": 1}
    with pytest.raises(AttributeError, match="has no 'foo'"):
        _ = state.foo


def test_parametrization() -> None:
    model = Scale(2.0)
    rf.register_parametrization(model, "factor", lambda param: param * 10.0)
    rf.register_parametrization(model, "factor", Scale(3.0))
    assert rf.is_parametrized(model)
    assert rf.is_parametrized(model, "factor")
    assert model(x).raw_tensor.tolist() == [60, 120, 180]
    assert [name for name, _ in model.named_parameters()] == ["factor", "factor_parametrization2.factor"]
    rf.remove_parametrization(model, "factor")
    assert not rf.is_parametrized(model)
    assert type(model) is Scale
    assert model(x).raw_tensor.tolist() == [2, 4, 6]
    assert [name for name, _ in model.named_parameters()] == ["factor"]


def test_parametrization_in_place_of_the_parameter() -> None:
    model = Scale(2.0)
    rf.register_parametrization(model, "factor", lambda: rf.constant(4.0, dims=[]), keep_existing_param=False)
    assert model(x).raw_tensor.tolist() == [4, 8, 12]
    assert not model.has_parameters
    with pytest.raises(UserError, match="was not kept"):
        rf.remove_parametrization(model, "factor")
    with pytest.raises(UserError, match=r"there is no parameter 'facto'.\n  Did you mean 'factor'?"):
        rf.register_parametrization(Scale(1.0), "facto", rf.relu)


@pytest.mark.parametrize("kind", ["dropout", "noise"])
def test_parametrizations_that_regularize_only_in_training(kind: str) -> None:
    class Weights(rf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = rf.Parameter([Dim(1000, name="many")], initial=1.0)

    model = Weights()
    if kind == "dropout":
        rf.weight_dropout(model, "weight", drop_prob=0.25)
    else:
        rf.weight_noise(model, "weight", std=0.1)
    rf.set_random_seed(1)
    rf.init_train_step_run_ctx()
    value = model.weight.raw_tensor
    assert abs(value.mean() - 1.0) < 0.1
    if kind == "dropout":
        assert 0.15 < (value == 0).mean() < 0.35
    else:
        assert 0.08 < value.std() < 0.12
    rf.init_forward_step_run_ctx()
    assert (model.weight.raw_tensor == 1).all()


def test_modules_from_dicts() -> None:
    name = f"{__name__}.Scale"
    assert rf.build_dict(Scale, factor=2.0) == {"class": name, "factor": 2.0}
    assert rf.build_dict(rf.Sequential) == {"class": "rf.Sequential"}
    model = rf.build_from_dict({"class": name, "factor": 2.0}, factor=3.0)
    assert isinstance(model, Scale)
    assert model.factor.raw_tensor == 2
    assert rf.build_from_dict({"class": "rf.relu"}) is rf.relu
    maximum = rf.build_from_dict({"class": "rf.maximum", "b": 2.0})
    assert maximum(x).raw_tensor.tolist() == [2, 2, 3]


@pytest.mark.parametrize(
    "make",
    [
        lambda dim: rf.Linear(dim(3), dim(4)),
        lambda dim: rf.Embedding(dim(3), dim(4)),
        lambda dim: rf.Conv1d(dim(3), dim(4), 2, padding="same"),
        lambda dim: rf.LSTM(dim(3), dim(4)),
        lambda dim: rf.SelfAttention(dim(3), dim(5), key_dim_total=dim(4), value_dim_total=dim(6), num_heads=2),
        lambda dim: rf.RelPosSelfAttention(dim(3), None, key_dim_total=dim(4), value_dim_total=dim(6), num_heads=2),
        lambda dim: rf.CrossAttention(
            dim(3), dim(5), dim(7), key_dim_total=dim(4), value_dim_total=dim(6), num_heads=2
        ),
    ],
)
def test_a_number_is_the_size_of_a_new_dim(make: Any) -> None:
    made, expected = (
        [[dim.dimension for dim in param.dims] for param in make(dim).parameters()]
        for dim in (int, lambda size: Dim(size, name="given"))
    )
    assert made == expected
    assert make(int).out_dim.dimension == make(Dim).out_dim.dimension


def test_modules_of_rf_are_imported_where_a_dict_names_them() -> None:
    code = (
        "import returnn.frontend as rf; rf.select_backend_torch();"
        "print(rf.build_from_dict({'class': 'rf.encoder.conformer.ConformerEncoderLayer', 'out_dim': 8}).out_dim)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "out_dim" in result.stdout, result.stderr


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rf.Sequentiall", "build_from_dict: there is no 'rf.Sequentiall': returnn.frontend has no 'Sequentiall'.\n"
         "  Did you mean 'Sequential' or 'sequential'"),
        ("rf.encoder.conformerr.X",
         "build_from_dict: there is no 'rf.encoder.conformerr.X': returnn.frontend.encoder has no 'conformerr'"),
        ("Scale", "build_from_dict: there is no class 'Scale'.\n"
         "  Write it with its module, or as 'rf.Scale' for the frontend's."),
    ],
)  # fmt: skip
def test_unknown_classes(name: str, text: str) -> None:
    with pytest.raises(ConfigError) as info:
        rf.build_from_dict({"class": name})
    assert str(info.value).startswith(text)
    with pytest.raises(ConfigError, match="the key 'class' is missing"):
        rf.build_from_dict({"cls": 1})
