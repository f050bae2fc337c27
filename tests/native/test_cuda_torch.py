"""How PyTorch calls kernels for GPUs, with those that are compiled for the host in their place."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from returnn.util.errors import UserError
from tests.native import cuda_on_host
from tests.native.test_torch import random_inputs

torch = pytest.importorskip("torch")
native = pytest.importorskip("returnn.torch.frontend.native")


@pytest.fixture
def lstm(monkeypatch):
    library = cuda_on_host.library()
    monkeypatch.setattr(native, "get_gpu_library", lambda: library)
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: SimpleNamespace(cuda_stream=0))
    return lambda *values: native._compute_on_gpu(library.kernels["lstm"], values)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_values(lstm, dtype):
    args = [x.detach() for x in random_inputs(dtype="float32")]
    given = [x if i in (2, 4) else x.to(dtype) for i, x in enumerate(args)]  # the cell, and lengths
    expected = native.get_operations().lstm(*(x.float() if i != 4 else x for i, x in enumerate(given)), None, False)
    results = lstm(*given, None, False)
    assert [x.dtype for x in results] == [dtype, torch.float32, dtype, torch.float32, dtype]
    for a, b in zip(results, expected, strict=True):
        torch.testing.assert_close(a.float(), b, rtol=0, atol=2e-2 if dtype.itemsize == 2 else 1e-5)


def test_cells_of_another_type(lstm):
    args = [x.detach() for x in random_inputs(dtype="float32")]
    half = [x if i == 4 else x.bfloat16() for i, x in enumerate(args)]
    with pytest.raises(UserError, match=r"^lstm: c0 has the type torch.bfloat16, but torch.float32 is expected"):
        lstm(*half, None, False)


def test_kernel_that_is_not_there(lstm, monkeypatch):
    monkeypatch.setattr(native, "get_gpu_library", lambda: None)
    with pytest.raises(UserError, match=r"^lstm: there is no such kernel for this GPU\.$"):
        lstm(*random_inputs(dtype="float32"), None, False)


def test_memory_that_is_not_there(lstm, monkeypatch):
    """The error is PyTorch's own, though the kernel asks for the memory."""
    empty, args = torch.empty, random_inputs(dtype="float32")

    def fail_for_workspace(*sizes, dtype=None, **kwargs):
        if dtype == torch.uint8 and list(*sizes) != [0]:
            raise torch.OutOfMemoryError("none is left")
        return empty(*sizes, dtype=dtype, **kwargs)

    monkeypatch.setattr(torch, "empty", fail_for_workspace)
    with pytest.raises(torch.OutOfMemoryError, match="none is left"):
        lstm(*(x.detach() for x in args), None, False)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_mixed_precision_on_the_cpu(dtype):
    """What comes from the product has the lower precision there; the kernel for the CPU has only the others."""
    rec = pytest.importorskip("returnn.torch.frontend.rec")
    x, h, c = torch.randn(4, 3, 6), torch.zeros(3, 5), torch.zeros(3, 5)
    weights = torch.randn(20, 6), torch.randn(20, 5)
    expected = rec.RecTorchOps.lstm_raw(x, h, c, *weights, None, None)
    with torch.autocast("cpu", dtype=dtype):
        actual = rec.RecTorchOps.lstm_raw(x, h, c, *weights, None, None)
    for a, b in zip(expected, actual, strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a, b, rtol=0, atol=0.1)
