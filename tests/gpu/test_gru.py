"""The GRU on a GPU, against float64 on the CPU, which is tested against numpy."""

import pytest

from tests.native.test_gru import DIFFERENTIABLE, random_case

torch = pytest.importorskip("torch")

SIZES = [(0, 2, 8), (1, 1, 1), (5, 3, 7), (20, 64, 128), (17, 33, 250), (9, 1, 512), (6, 100, 1024)]
TOLERANCE = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 6e-2}


@pytest.fixture(params=["stepwise", "persistent"])
def method(request, native):
    library = native.get_gpu_library()
    library.set_method(1, 1, request.param)
    yield request.param
    library.clear_methods()


def outputs_and_gradients(native, inputs, grads, *, backward):
    """:return: outputs, and gradients of all inputs, by name"""
    leaves = {name: x.detach().requires_grad_(x.is_floating_point()) for name, x in inputs.items()}
    h, last_h, _, _ = native.get_operations().gru(*leaves.values(), backward)
    sums = [(h * grads["d_h"].to(h)).double().sum(), (last_h * grads["d_last_h"].to(h)).double().sum()]
    found = torch.autograd.grad(sum(sums), [leaves[name] for name in DIFFERENTIABLE])
    return {"h": h, "last_h": last_h, **{f"d_{name}": x for name, x in zip(DIFFERENTIABLE, found, strict=True)}}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("backward", [False, True])
def test_values_and_gradients(native, method, dtype, sizes, backward):
    inputs, grads = (
        {name: torch.tensor(x).nan_to_num() for name, x in arrays.items()} for arrays in random_case(sizes, "float64")
    )
    rounded = {name: x.to(getattr(torch, dtype)) if x.is_floating_point() else x for name, x in inputs.items()}
    exact = {name: x.double() if x.is_floating_point() else x for name, x in rounded.items()}
    on_gpu = {name: x.cuda() for name, x in rounded.items()}
    results = outputs_and_gradients(native, on_gpu, grads, backward=backward)
    expected = outputs_and_gradients(native, exact, grads, backward=backward)
    for name, value in expected.items():
        scale = max(1.0, value.abs().max().item() if value.numel() else 1.0)
        torch.testing.assert_close(
            results[name].cpu().double() / scale, value / scale, rtol=0, atol=TOLERANCE[dtype], msg=name
        )
