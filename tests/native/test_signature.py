import pytest

from returnn.native.signature import parse_signature
from returnn.util.errors import UserError
from tests.native.kernels import library

TEXT = "x: real[T, N, 4F], i: int32[N+1, 2], d: real[N, F]?; backward: bool, scale: float -> y: real[T, 2N+3]"


def test_parts():
    signature = parse_signature(TEXT)
    assert [(x.name, x.dtype, x.optional) for x in signature.inputs] == [
        ("x", "real", False),
        ("i", "int32", False),
        ("d", "real", True),
    ]
    assert signature.options == {"backward": "bool", "scale": "float"}
    assert [str(dim) for x in (*signature.inputs, *signature.outputs) for dim in x.dims] == [
        "T", "N", "4F", "N+1", "2", "N", "F", "T", "2N+3"
    ]  # fmt: skip


def test_sizes_follow_from_inputs():
    signature, known = parse_signature(TEXT), {}
    for spec, shape in zip(signature.inputs, [(5, 2, 12), (3, 2), (0,)], strict=True):
        spec.match(shape, known, where="test")
    assert known == {"T": 5, "N": 2, "F": 3}
    assert [dim.value(known) for dim in signature.outputs[0].dims] == [5, 7]


@pytest.mark.parametrize(("number", "shape"), [(0, (5, 2, 13)), (0, (5, 2)), (1, (3, 1)), (1, (4, 2)), (2, (2, 4))])
def test_shapes_that_do_not_fit(number, shape):
    signature = parse_signature(TEXT)
    known = {"T": 5, "N": 2} if number == 0 else {"T": 5, "N": 2, "F": 3}
    with pytest.raises(UserError, match=rf"^test: {signature.inputs[number].name} has the shape \({shape[0]}, "):
        signature.inputs[number].match(shape, known, where="test")


def test_each_gradient_is_one_of_its_kernel():
    """Bindings find its inputs and results by name."""
    kernels = library().kernels
    pairs = [
        (kernels[name.removesuffix("_grad")], kernel) for name, kernel in kernels.items() if name.endswith("_grad")
    ]
    assert pairs
    for kernel, grad in pairs:
        inputs = {spec.name for spec in kernel.signature.inputs}
        outputs = {spec.name for spec in kernel.signature.outputs}
        known = inputs | outputs | {f"d_{name}" for name in outputs}
        assert {spec.name for spec in grad.signature.inputs} <= known
        assert {spec.name for spec in grad.signature.outputs} <= {f"d_{name}" for name in inputs}
        assert grad.signature.options.keys() <= kernel.signature.options.keys()
