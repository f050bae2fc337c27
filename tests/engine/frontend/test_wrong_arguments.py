"""Each function of the frontend that needs a tensor says so, if it gets something else."""

import inspect
import typing

import numpy
import pytest

import returnn.frontend as rf
from returnn.config import Config
from returnn.engine.frontend.functions import ModelFunctions
from returnn.engine.frontend.wrong_arguments import wrong_argument_error
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DimError, UserError

FEATURE, TIME = Dim(3, name="feature"), Dim(4, name="time")
# They pass on what they get, or look at it when there is more to know.
TAKE_ANYTHING = {
    "clip_by_value", "copy_to_device", "identity", "init_forward_step_run_ctx", "init_train_step_run_ctx",
    "get_tensor_consumers", "get_tensor_dependencies",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _numpy_computes():
    with rf.backend_ctx("numpy"):
        yield


def tensor():
    return rf.convert_to_tensor(numpy.zeros((4, 3), "float32"), dims=[TIME, FEATURE])


def hints_of(function):
    return typing.get_type_hints(function)


FUNCTIONS = {
    name: function
    for name, function in vars(rf).items()
    if inspect.isfunction(function) and function.__module__.startswith("returnn.frontend") and name not in TAKE_ANYTHING
}
REQUIRED_TENSORS = [
    (name, param.name)
    for name, function in FUNCTIONS.items()
    for param in inspect.signature(function).parameters.values()
    if hints_of(function).get(param.name) is Tensor and param.kind is param.POSITIONAL_OR_KEYWORD
]


def filler(annotation):
    values = {Tensor: tensor(), bool: True, int: 1, float: 0.5, str: "float32"}
    parts = typing.get_args(annotation) or (annotation,)
    return next((values[part] for part in parts if part in values), FEATURE if Dim in parts else [FEATURE])


@pytest.mark.parametrize(("name", "argument"), REQUIRED_TENSORS)
@pytest.mark.parametrize("value", [(1, 2), None, numpy.zeros((4, 3))], ids=["tuple", "None", "array"])
def test_functions(name, argument, value):
    function = FUNCTIONS[name]
    needed = {
        param.name: filler(hints_of(function)[param.name])
        for param in inspect.signature(function).parameters.values()
        if param.default is param.empty and param.kind in (param.POSITIONAL_OR_KEYWORD, param.KEYWORD_ONLY)
    }
    with pytest.raises((AttributeError, TypeError, UserError)) as info:
        function(**{**needed, argument: value})
    error = wrong_argument_error(info.value)
    if error is None:  # there was something else to say
        assert isinstance(info.value, UserError)
    else:
        assert str(error).startswith(f"rf.{name}: argument {argument!r} has to be a Tensor, not ")


def text_of(step):
    config = Config({"get_model": lambda **kwargs: rf.Module(), "train_step": step, "task": "train"})
    functions = ModelFunctions(config)
    with pytest.raises(UserError) as info:
        functions.train_step(functions.make_model(epoch=1, step=0), {}, train_flag=True, step=0, epoch=1)
    rf.reset_run_ctx()
    return str(info.value)


def test_pair_of_an_lstm_in_a_module():
    def step(**kwargs):
        lstm = rf.LSTM(FEATURE, FEATURE)
        rf.Linear(FEATURE, FEATURE)(lstm(tensor(), state=lstm.default_initial_state(batch_dims=[]), spatial_dim=TIME))

    assert text_of(step) == (
        "rf.Linear: argument 'source' has to be a Tensor, not a tuple of 2 parts (Tensor, LstmState).\n"
        "  What gives several results, as rf.LSTM does, is unpacked: x, _ = ..."
    )


def test_within_a_module_that_calls_others():
    text = text_of(lambda **kwargs: rf.Sequential([lambda x: (x, x), rf.LayerNorm(FEATURE)])(tensor()))
    assert text.startswith("rf.LayerNorm: argument 'x' has to be a Tensor, not a tuple of 2 parts (Tensor, Tensor).")


def test_results_of_pairs():
    text = text_of(lambda **kwargs: rf.concat((tensor(), FEATURE), (None, FEATURE)))
    assert text.startswith("rf.concat: argument 'sources' has to be a tuple of Tensor and Dim, not a tuple of 2 parts")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "not None.\n  A function without 'return' gives None."),
        (numpy.zeros(2), "not a numpy.ndarray.\n  rf.convert_to_tensor(x, dims=[...]) makes a tensor of it."),
        ([1, 2, 3, 4], "not a list of 4 parts (int, int, int, ...)."),
        ("x", "not str 'x'."),
    ],
)
def test_what_is_said_of_values(value, text):
    assert text_of(lambda **kwargs: rf.relu(value)) == f"rf.relu: argument 'a' has to be a Tensor, {text}"


def test_operands():
    assert text_of(lambda **kwargs: rf.matmul(tensor(), (1, 2), reduce=FEATURE)) == (
        "rf.matmul: argument 'b' has to be a Tensor, not a tuple of 2 parts (int, int)."
    )
    for wrong in ((1, 2), None):
        text = text_of(lambda wrong=wrong, **kwargs: tensor() + wrong)
        assert text.startswith("rf.combine: argument 'b' has to be a Tensor or number, not ")
        with pytest.raises(DimError, match="an operand is a tensor or a number, not a"):  # in a script
            _ = tensor() + wrong


def test_other_errors_stay_as_they_are():
    assert "has no dim" in text_of(lambda **kwargs: rf.matmul(tensor(), tensor(), reduce=Dim(5, name="other")))

    def step(x: Tensor, **kwargs):
        return x.nothing

    with pytest.raises(AttributeError) as info:
        step(None)
    assert wrong_argument_error(info.value) is None, "annotations of users may be wrong"
