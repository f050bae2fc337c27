"""Label smoothing of targets, and of gradients."""

from __future__ import annotations

import numpy
import pytest
import torch

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DimError

LABELS, TIME = Dim(5, name="labels"), Dim(3, name="time")
TARGETS = [1, 4, 0]


@pytest.fixture(autouse=True)
def torch_backend():
    with rf.backend_ctx("torch"):
        yield


def targets() -> Tensor:
    return rf.convert_to_tensor(numpy.array(TARGETS, "int32"), dims=[TIME], sparse_dim=LABELS)


def expected() -> numpy.ndarray:
    return numpy.eye(5)[TARGETS] * (0.8 - 0.05) + 0.05


def test_sparse_and_dense_targets():
    smooth = rf.label_smoothing(targets(), 0.2)
    dense = rf.label_smoothing(rf.one_hot(targets()), 0.2, axis=LABELS)
    for x in (smooth, dense):
        assert x.feature_dim == LABELS
        numpy.testing.assert_allclose(x.copy_compatible_to_dims_raw([TIME, LABELS]).numpy(), expected(), rtol=1e-6)


@pytest.mark.parametrize("exclude", [None, [4]])
def test_gradient_is_that_of_smoothed_targets(exclude):
    raw = torch.randn(3, 5, requires_grad=True)
    log_prob = Tensor("log_prob", [TIME, LABELS], "float32", raw_tensor=raw, feature_dim=LABELS)
    changed = rf.label_smoothed_log_prob_gradient(log_prob, 0.2, exclude_labels=exclude)
    assert torch.equal(changed.raw_tensor, raw)
    loss = rf.cross_entropy(estimated=changed, target=targets(), axis=LABELS, estimated_type="log-probs")
    rf.reduce_sum(loss, axis=TIME).raw_tensor.backward()
    wanted = expected()
    if exclude:
        wanted = numpy.array([[1, 12, 1, 1, 0], [0, 0, 0, 0, 15], [12, 1, 1, 1, 0]]) / 15
    numpy.testing.assert_allclose(raw.grad.numpy(), -wanted, rtol=1e-5, atol=1e-7)


def test_error_texts():
    with pytest.raises(DimError) as info:
        rf.smooth_one_hot(rf.zeros([TIME]), label_prob=0.9)
    assert str(info.value).endswith("has neither a sparse nor a feature dim.\n  Give the axis.")
    single = Dim(1, name="single")
    with pytest.raises(DimError) as info:
        rf.label_smoothing(rf.ones([single]), 0.1, axis=single)
    assert str(info.value) == "label smoothing: the labels single(1) should be of a fixed number, of at least 2."


@pytest.mark.parametrize("function", [rf.label_smoothing, rf.label_smoothed_log_prob_gradient])
def test_it_is_a_part_of_the_probability(function):
    with pytest.raises(DimError, match=r"smoothing is 2.\n  It is a part of the probability, from 0 to 1"):
        function(rf.one_hot(targets()), 2, axis=LABELS)
