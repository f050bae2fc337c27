"""Kernels as operations of PyTorch."""

import numpy
import pytest

from returnn.util.errors import UserError
from tests.native import lstm_reference

torch = pytest.importorskip("torch")
native = pytest.importorskip("returnn.torch.frontend.native")


@pytest.fixture(scope="module")
def lstm():
    operations = native.get_operations()
    if operations is None:
        pytest.skip("there is no compiler")
    return operations.lstm


def random_inputs(*, dtype="float64", peepholes=True):
    random = numpy.random.RandomState(1)
    values = lstm_reference.random_inputs(random, dtype, frames=4, batch=3, units=5, peepholes=peepholes)
    values["x"] = numpy.nan_to_num(values["x"])
    tensors = {name: torch.tensor(value, requires_grad=value.dtype.kind == "f") for name, value in values.items()}
    return [*(tensors[name] for name in ("x", "weights", "c0", "h0", "lengths")), tensors.get("peepholes")]


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("outputs", [slice(0, 1), slice(0, 4), slice(2, 3)], ids=str)
def test_gradients(lstm, backward, outputs):
    *inputs, lengths, peepholes = random_inputs()
    assert torch.autograd.gradcheck(
        lambda *args: lstm(*args[:4], lengths, args[4], backward)[outputs], (*inputs, peepholes)
    )


def test_operation_keeps_the_rules_of_pytorch(lstm):
    torch.library.opcheck(lstm, (*random_inputs(), False))
    torch.library.opcheck(lstm, (*random_inputs(peepholes=False), True))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch about itself
def test_under_torch_compile(lstm):
    *inputs, lengths, peepholes = random_inputs(dtype="float32")

    def loss(*args):
        return lstm(torch.relu(args[0]), *args[1:], lengths, peepholes, False)[0].square().sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    expected, actual = (torch.autograd.grad(function(*inputs), inputs) for function in (loss, compiled))
    for a, b in zip(expected, actual, strict=True):
        torch.testing.assert_close(a, b)


def test_wrong_shapes_and_types(lstm):
    inputs = random_inputs()
    with pytest.raises(
        UserError, match=r"^lstm: lengths has the shape \(2,\), but \[N\] is expected, with T = 4, N = 3"
    ):
        lstm(*inputs[:4], inputs[4][1:], None, False)
    with pytest.raises(UserError, match=r"^lstm: weights has the type torch.float32, but torch.float64 is expected"):
        lstm(inputs[0], inputs[1].float(), *inputs[2:], False)
