"""Values that do not fit to their dims: lengths and labels are compared where they come in."""

from collections.abc import Iterator
from typing import Any

import numpy
import pytest
import torch

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.util.errors import DimError

MAKE = {"numpy": lambda value: value, "torch": torch.tensor}


@pytest.fixture(params=list(MAKE), autouse=True)
def make(request: pytest.FixtureRequest) -> Iterator[Any]:
    with rf.backend_ctx(request.param):
        batch_dim.dyn_size_ext = None
        yield MAKE[request.param]
        batch_dim.dyn_size_ext = None


def time_of(lengths: list[int]) -> Dim:
    return Dim(rf.convert_to_tensor(numpy.array(lengths, "int32"), dims=[batch_dim]), name="time")


@pytest.mark.parametrize(("shape", "is_plain", "text"), [
    ((2, 3), True, None),
    ((1, 3), True, "'x': the value has the shape (1, 3), but batch has 2 sequences.\n  For another batch, say how many "
     "it has: batch_dim.dyn_size_ext = rf.convert_to_tensor(1)."),
    ((3, 3), False, "'x': the value has the shape (3, 3), but batch has 2 sequences."),
    ((2, 4), True, "'x': the value has the shape (2, 4), but time[B] has 3 frames in the longest sequence."),
    ((2, 2), False, "'x': the value has the shape (2, 2), but time[B] has 3 frames in the longest sequence."),
])  # fmt: skip
def test_sizes_of_a_value(shape: tuple[int, ...], is_plain: bool, text: str | None, make: Any) -> None:
    batch_dim.dyn_size_ext = rf.convert_to_tensor(2)
    dims, value = [batch_dim, time_of([3, 2])], numpy.zeros(shape, "float32")
    value = value if is_plain else make(value)
    if text is None:
        assert rf.convert_to_tensor(value, dims=dims, name="x").raw_tensor.shape == shape
        return
    with pytest.raises(DimError) as caught:
        rf.convert_to_tensor(value, dims=dims, name="x")
    assert str(caught.value).startswith(f"convert_to_tensor: {text}")


def test_a_batch_of_another_size_comes_next() -> None:
    for number in (2, 1, 3):
        batch_dim.dyn_size_ext = rf.convert_to_tensor(number)
        x = rf.convert_to_tensor(numpy.zeros((number, 4), "float32"), dims=[batch_dim, time_of([4] * number)])
        assert x.raw_tensor.shape == (number, 4)


def test_without_a_number_of_sequences_each_is_fine() -> None:
    for number in (2, 1):
        value = numpy.zeros((number,), "float32")
        assert isinstance(rf.convert_to_tensor(value, dims=[batch_dim]), Tensor)


def test_what_is_longer_in_memory() -> None:
    batch_dim.dyn_size_ext = rf.convert_to_tensor(2)
    time = time_of([5, 2])
    x = rf.zeros([batch_dim, time])
    shorter, out_dim = rf.slice(x, axis=time, end=rf.convert_to_tensor(numpy.array([3, 2], "int32"), dims=[batch_dim]))
    again = rf.convert_to_tensor(shorter.raw_tensor, dims=shorter.dims)
    assert again.dims == (batch_dim, out_dim)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
@pytest.mark.parametrize("function", [
    rf.one_hot, lambda x: rf.label_smoothing(x, 0.1), lambda x: rf.sparse_to_dense(x, label_value=1.0, other_value=0.0),
])  # fmt: skip
def test_labels_that_are_not_in_the_dim(function: Any, dtype: str) -> None:
    labels = Dim(5, name="labels")
    for last in (4, 7, -1):
        value = numpy.array([0, last], "int64").astype(dtype)
        x = rf.convert_to_tensor(value, dims=[Dim(2, name="frames")], sparse_dim=labels)
        if last == 4:
            assert function(x).raw_tensor.shape == (2, 5)
            continue
        with pytest.raises(DimError, match=rf"there is no label {value[-1]} in labels\(5\)\.\n  Possible are 0 to 4\."):
            function(x)
        with pytest.raises(DimError, match=f"there is no index {value[-1]} in labels"):
            rf.Embedding(labels, Dim(3, name="out"))(rf.cast(x, "int32"))


def test_what_is_in_padding_is_no_label() -> None:
    batch_dim.dyn_size_ext = rf.convert_to_tensor(2)
    value = numpy.array([[4, 0, 1], [2, -1, 9]], "int32")
    x = rf.convert_to_tensor(value, dims=[batch_dim, time_of([3, 1])], sparse_dim=Dim(5, name="labels"))
    assert rf.one_hot(x).copy_masked(0.0).raw_tensor.sum() == 4


def test_cross_entropy_of_labels_that_are_not_in_the_dim() -> None:
    frames, labels = Dim(2, name="frames"), Dim(5, name="labels")
    x = rf.convert_to_tensor(numpy.array([0, 7], "int32"), dims=[frames], sparse_dim=labels)
    with pytest.raises(DimError) as caught:
        rf.cross_entropy(estimated=rf.zeros([frames, labels]), target=x, axis=labels, estimated_type="logits")
    assert "cross_entropy: the targets 'const' [frames(2)] int32" in str(caught.value)
    assert "have a label that is not in labels(5)" in str(caught.value)
    assert str(caught.value).endswith("  Possible are 0 to 4.")


def test_concat_of_what_are_no_pairs() -> None:
    x = rf.zeros([Dim(2, name="frames")])
    with pytest.raises(DimError) as caught:
        rf.concat(x, x)
    assert str(caught.value).splitlines() == [
        "concat: 'full' [frames(2)] is no pair.", "  Each source comes with its dim: rf.concat((a, dim), (b, dim)).",
    ]  # fmt: skip
