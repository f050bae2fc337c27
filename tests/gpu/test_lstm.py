"""The LSTM on a GPU, against float64 on the CPU, which is tested against numpy; and against PyTorch's own."""

import numpy
import pytest

import returnn.frontend as rf
from returnn.tensor import Dim, batch_dim
from tests.native import lstm_reference

torch = pytest.importorskip("torch")

SIZES = [(0, 2, 8), (1, 1, 1), (5, 3, 7), (20, 64, 128), (17, 33, 250), (9, 1, 512), (6, 100, 1024)]
TOLERANCE = {"float32": 1e-4, "float16": 5e-3, "bfloat16": 4e-2}
ARGUMENTS = ("x", "weights", "c0", "h0", "lengths", "peepholes")
METHODS = ("stepwise", "persistent")


@pytest.fixture(params=METHODS)
def method(request, native):
    library = native.get_gpu_library()
    library.set_method(1, 1, request.param)
    yield request.param
    library.clear_methods()


def random_case(sizes, *, peepholes):
    """:return: tensors of float64 and int32 on the CPU"""
    random = numpy.random.RandomState(sum(sizes))
    frames, batch, units = sizes
    arrays = lstm_reference.random_inputs(
        random, "float64", frames=frames, batch=batch, units=units, peepholes=peepholes
    )
    return {name: torch.tensor(x) for name, x in arrays.items()}


def on_gpu(tensors, dtype):
    """:return: the same on the GPU, with this type, but for states"""
    types = {"c0": torch.float32, "lengths": torch.int32}
    return {name: x.to("cuda", types.get(name, dtype)) for name, x in tensors.items()}


def as_exact(tensors):
    """:return: the same numbers in float64 on the CPU"""
    return {name: x.cpu().double() if x.is_floating_point() else x.cpu() for name, x in tensors.items()}


def outputs_and_gradients(native, tensors, directions, *, backward):
    """:return: outputs, and gradients of all inputs with them, by name"""
    leaves = {name: x.detach().requires_grad_(x.is_floating_point()) for name, x in tensors.items()}
    args = [leaves.get(name) for name in ARGUMENTS]
    outputs = native.get_operations().lstm(*args, None, backward)
    lengths = tensors["lengths"].to(outputs[0].device)
    mask = torch.arange(len(outputs[0]), device=lengths.device)[:, None, None] < lengths[:, None]
    sums = [torch.where(mask if x.dim() == 3 else mask.new_ones([]), x * d.to(x), 0).double().sum()
            for x, d in zip(outputs[:4], directions, strict=True)]  # fmt: skip
    wanted = [name for name, x in leaves.items() if x.requires_grad]
    grads = torch.autograd.grad(sum(sums), [leaves[name] for name in wanted])
    named = zip(lstm_reference.OUTPUTS, outputs[:4], strict=True)
    return {**dict(named), **{f"d_{name}": grad for name, grad in zip(wanted, grads, strict=True)}}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("options", [(False, False), (True, False), (False, True)], ids=["", "backward", "peepholes"])
def test_values_and_gradients(native, method, dtype, sizes, options):
    backward, peepholes = options
    inputs = on_gpu(random_case(sizes, peepholes=peepholes), getattr(torch, dtype))
    frames, batch, units = sizes
    shapes = [(frames, batch, units)] * 2 + [(batch, units)] * 2
    generator = torch.Generator().manual_seed(1)
    directions = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    results = outputs_and_gradients(native, inputs, directions, backward=backward)
    expected = outputs_and_gradients(native, as_exact(inputs), directions, backward=backward)
    for name, value in expected.items():
        scale = max(1.0, value.abs().max().item() if value.numel() else 1.0)
        difference = (results[name].cpu().double() - value).abs()
        assert difference.max().item() <= TOLERANCE[dtype] * scale if difference.numel() else True, name


def test_both_methods_are_possible_here(native):
    """A GPU on which the persistent method is never taken would pass all other tests."""
    inputs = on_gpu(random_case((5, 8, 128), peepholes=False), torch.float32)
    for method in METHODS:
        native.get_gpu_library().set_method(1, 1, method)
        native.get_operations().lstm(*(inputs.get(name) for name in ARGUMENTS), None, False)
        assert native.get_gpu_library().last_method() == method
    native.get_gpu_library().clear_methods()


def test_same_result_each_time(native, method):
    """What a missing barrier would change now and then."""
    inputs = on_gpu(random_case((50, 64, 256), peepholes=True), torch.float32)
    args = [inputs.get(name) for name in ARGUMENTS]
    first = native.get_operations().lstm(*args, None, False)
    for _ in range(50):
        for expected, actual in zip(first, native.get_operations().lstm(*args, None, False), strict=True):
            assert torch.equal(expected, actual)


def test_operation_keeps_the_rules_of_pytorch(native):
    inputs = on_gpu(random_case((4, 3, 5), peepholes=True), torch.float32)
    inputs["x"] = inputs["x"].nan_to_num()
    args = [x.requires_grad_(x.is_floating_point()) for x in (inputs[name] for name in ARGUMENTS)]
    torch.library.opcheck(native.get_operations().lstm, (*args, None, False))


def test_lengths_have_to_be_on_the_gpu(native):
    inputs = on_gpu(random_case((4, 3, 5), peepholes=False), torch.float32)
    inputs["lengths"] = inputs["lengths"].cpu()
    with pytest.raises(ValueError, match="lstm: lengths should be on cuda:0, as what comes first"):
        native.get_operations().lstm(*(inputs.get(name) for name in ARGUMENTS), None, False)


def test_second_gpu(native):
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one GPU")
    inputs = on_gpu(random_case((5, 8, 64), peepholes=False), torch.float32)
    args = [inputs.get(name) for name in ARGUMENTS]
    expected = native.get_operations().lstm(*args, None, False)[0]
    actual = native.get_operations().lstm(*(x if x is None else x.to("cuda:1") for x in args), None, False)[0]
    assert torch.equal(expected.cpu(), actual.cpu())


def test_other_streams(native):
    inputs = on_gpu(random_case((20, 16, 64), peepholes=False), torch.float32)
    args = [inputs.get(name) for name in ARGUMENTS]
    expected = native.get_operations().lstm(*args, None, False)[0]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        actual = native.get_operations().lstm(*args, None, False)[0]
    stream.synchronize()
    assert torch.equal(expected, actual)


@pytest.mark.parametrize("mode", ["float32", "autocast"])
def test_layer_of_the_frontend_as_without_kernels(native, monkeypatch, mode):
    rf.select_backend_torch()
    time_dim, in_dim, out_dim = (
        Dim(rf.Tensor("time", [batch_dim], "int32", raw_tensor=torch.tensor([7, 0, 3], dtype=torch.int32))),
        Dim(12, name="in"),
        Dim(20, name="out"),
    )
    layer = rf.LSTM(in_dim, out_dim)
    x = torch.randn(7, 3, 12, generator=torch.Generator().manual_seed(1)).cuda()
    for parameter in layer.parameters():
        parameter.raw_tensor.data = parameter.raw_tensor.data.cuda()
    source = rf.Tensor("x", [time_dim, batch_dim, in_dim], "float32", raw_tensor=x)
    results = []
    for is_on in ("1", "0"):
        monkeypatch.setenv("RETURNN_NATIVE", is_on)
        mixed = torch.autocast("cuda", dtype=torch.bfloat16, enabled=mode == "autocast")
        with mixed, rf.set_default_device_ctx("cuda"):
            state = layer.default_initial_state(batch_dims=[batch_dim])
            out, _ = layer(source, state=state, spatial_dim=time_dim)
        results.append(out.copy_transpose([time_dim, batch_dim, out_dim]).raw_tensor.float())
    torch.testing.assert_close(*results, rtol=0, atol=1e-4 if mode == "float32" else 3e-2)


@pytest.mark.parametrize("backward", [False, True])
def test_gradients_of_a_small_case(native, method, backward):
    """Also for compute-sanitizer, under which a large one would take long."""
    inputs = on_gpu(random_case((4, 20, 24), peepholes=True), torch.float32)
    directions = [torch.ones(shape) for shape in [(4, 20, 24)] * 2 + [(20, 24)] * 2]
    results = outputs_and_gradients(native, inputs, directions, backward=backward)
    expected = outputs_and_gradients(native, as_exact(inputs), directions, backward=backward)
    for name, value in expected.items():
        torch.testing.assert_close(results[name].cpu().double(), value, rtol=0, atol=1e-4, msg=name)
