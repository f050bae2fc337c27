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
        lambda *args: lstm(*args[:4], lengths, args[4], None, backward)[outputs], (*inputs, peepholes)
    )


def test_operation_keeps_the_rules_of_pytorch(lstm):
    torch.library.opcheck(lstm, (*random_inputs(), None, False))
    torch.library.opcheck(lstm, (*random_inputs(peepholes=False), None, True))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch about itself
def test_under_torch_compile(lstm):
    *inputs, lengths, peepholes = random_inputs(dtype="float32")

    def loss(*args):
        return lstm(torch.relu(args[0]), *args[1:], lengths, peepholes, None, False)[0].square().sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    expected, actual = (torch.autograd.grad(function(*inputs), inputs) for function in (loss, compiled))
    for a, b in zip(expected, actual, strict=True):
        torch.testing.assert_close(a, b)


def test_wrong_shapes_and_types(lstm):
    inputs = random_inputs()
    with pytest.raises(
        UserError, match=r"^lstm: lengths has the shape \(2,\), but \[N\] is expected, with T = 4, N = 3"
    ):
        lstm(*inputs[:4], inputs[4][1:], None, None, False)
    with pytest.raises(UserError, match=r"^lstm: weights has the type torch.float32, but torch.float64 is expected"):
        lstm(inputs[0], inputs[1].float(), *inputs[2:], None, False)


def ctc_inputs(dtype=torch.float64):
    logits = torch.randn(3, 5, 4, dtype=dtype, generator=torch.Generator().manual_seed(1), requires_grad=True)
    targets, lengths = torch.tensor([[0, 1], [2, 2], [1, 0]], dtype=torch.int32), ([5, 4, 1], [2, 2, 0])
    return logits, targets, *(torch.tensor(x, dtype=torch.int32) for x in lengths)


def test_ctc_with_its_gradient(lstm):
    logits, *rest = ctc_inputs()
    operation = native.get_operations().ctc_loss
    for time_major in (False, True):
        args = (*rest, 3, True, False, time_major, False)
        x = logits.transpose(0, 1) if time_major else logits
        assert torch.autograd.gradcheck(lambda x, args=args: operation(x, *args)[0], x)
        log_probs = torch.log_softmax(logits, dim=-1).transpose(0, 1)
        expected = torch.nn.functional.ctc_loss(
            log_probs, rest[0].long(), *(x.long() for x in rest[1:]), blank=3, reduction="none"
        )
        torch.testing.assert_close(operation(x, *args)[0], expected)
    torch.library.opcheck(operation, (logits, *rest, 3, True, False, False, False))


def test_transducer_with_its_gradient(lstm):
    logits = torch.randn(
        2, 3, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True
    )
    rest = [torch.tensor(x, dtype=torch.int32) for x in ([[1, 2], [3, 0]], [3, 2], [2, 1])]
    operation = native.get_operations().transducer_loss
    for monotonic in (False, True):
        assert torch.autograd.gradcheck(lambda x, m=monotonic: operation(x, *rest, 0, m)[0], logits)
