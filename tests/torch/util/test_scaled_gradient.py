"""Gradients of raw tensors of PyTorch that change on their way back, as those of the frontend do."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import returnn.frontend as rf
from returnn.tensor import Dim
from returnn.torch.util.scaled_gradient import scaled_gradient, scaled_gradient_ext

WEIGHTS = torch.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])


def test_scale() -> None:
    x = torch.zeros(2, 3, requires_grad=True)
    y = scaled_gradient(x, -1.0)
    assert y.tolist() == x.tolist()
    (y * WEIGHTS).sum().backward()
    torch.testing.assert_close(x.grad, -WEIGHTS)


@pytest.mark.parametrize("options", [{"scale": 0.5}, {"shift": 2.0}, {"scale": 3.0, "shift": 0.5, "axis": 1}])
def test_as_in_the_frontend(options: dict[str, Any]) -> None:
    options = {"scale": 1.0, **options}
    axis = options.pop("axis", None)
    x = torch.zeros(2, 3, requires_grad=True)
    (scaled_gradient_ext(x, scale_shift_by_sum_over_axis=axis, **options) * WEIGHTS).sum().backward()
    dims = [Dim(2, name="a"), Dim(3, name="b")]
    with rf.backend_ctx("torch"):
        raw = torch.zeros(2, 3, requires_grad=True)
        tensor = rf.convert_to_tensor(raw, dims=dims)
        over = None if axis is None else dims[axis]
        changed = rf.scaled_gradient_ext(tensor, scale_shift_by_sum_over_axis=over, **options)
    (changed.raw_tensor * WEIGHTS).sum().backward()
    torch.testing.assert_close(x.grad, raw.grad)
