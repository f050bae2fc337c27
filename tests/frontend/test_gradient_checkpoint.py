"""Gradient checkpoints of PyTorch: same gradients, less memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor

feature = Dim(4, name="feature")
hidden = Dim(5, name="hidden")
frames = Dim(3, name="frames")


@pytest.fixture(autouse=True)
def torch_backend() -> Any:
    with rf.backend_ctx("torch"):
        yield


def _parameter(*dims: Dim) -> Tensor:
    value = torch.randn([dim.size for dim in dims], generator=torch.Generator().manual_seed(len(dims)))
    return Tensor("param", dims, "float32", raw_tensor=value.requires_grad_(True))


def _mlp(x: Tensor, weights: Tensor) -> Tensor:
    return rf.tanh(rf.relu(rf.matmul(x, weights, reduce=feature)) * 2.0)


def _mlp_with_dropout(x: Tensor, weights: Tensor) -> Tensor:
    return rf.dropout(_mlp(x, weights), 0.5, axis=hidden, on_forward=True)


def _loss(function: Callable[[Tensor, Tensor], Tensor], scope: Any, weights: Tensor) -> torch.Tensor:
    torch.manual_seed(1)
    with scope:
        y = function(_parameter(frames, feature), weights)
    return (y.raw_tensor**2).sum()


@pytest.mark.parametrize("function", [_mlp, _mlp_with_dropout])
def test_gradients_are_the_same(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    weights = _parameter(feature, hidden)
    gradients = []
    for scope in (nullcontext(), rf.gradient_checkpoint_scope()):
        (gradient,) = torch.autograd.grad(_loss(function, scope, weights), [weights.raw_tensor])
        gradients.append(gradient)
        gradients.append(torch.rand(3))  # computing again leaves the random generator alone
    torch.testing.assert_close(gradients[2:], gradients[:2], rtol=0, atol=0)


def test_gradient_twice() -> None:
    weights = _parameter(feature, hidden)
    loss = _loss(_mlp_with_dropout, rf.gradient_checkpoint_scope(), weights)
    first = torch.autograd.grad(loss, [weights.raw_tensor], retain_graph=True)
    second = torch.autograd.grad(loss, [weights.raw_tensor])
    torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_only_the_result_is_kept() -> None:
    weights, x = _parameter(feature, hidden), _parameter(frames, feature)
    made = []
    kept: list[bool] = []
    for scope in (nullcontext(), rf.gradient_checkpoint_scope()):
        with scope:
            y = rf.exp(rf.matmul(x, weights, reduce=feature))  # the gradient of exp needs its result
            made.append(torch.multiprocessing.reductions.StorageWeakRef(y.raw_tensor.untyped_storage()))
            y = y + 1.0
        loss = y.raw_tensor.sum()
        kept.append(not made[-1].expired())
        torch.autograd.grad(loss, [weights.raw_tensor])
    assert kept == [True, False]


def test_change_of_an_operand_before_the_gradient_is_an_error() -> None:
    weights = _parameter(feature, hidden)
    loss = _loss(_mlp, rf.gradient_checkpoint_scope(), weights)
    with torch.no_grad():
        weights.raw_tensor.add_(1.0)
    with pytest.raises(RuntimeError, match="was changed in place after it was used"):
        torch.autograd.grad(loss, [weights.raw_tensor])
