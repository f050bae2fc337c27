"""Gradients as values, and operations which change them on their way back."""

from __future__ import annotations

import returnn.frontend as rf
from returnn.tensor import Tensor
from tests.frontend.op_case import Inputs, op_case


@op_case("gradient", "set_requires_gradient", backends=("torch", "tf", "template"), differentiable=False)
def gradient(inputs: Inputs) -> list[Tensor]:
    time, feature = inputs.dynamic(), inputs.static("feature")
    x = inputs.floats([inputs.batch, time, feature])
    other = inputs.floats([feature])
    rf.set_requires_gradient(other)
    loss = rf.reduce_sum(rf.tanh(x), axis=x.dims)
    return [rf.gradient(loss, x), rf.gradient(loss, other)]


@op_case("stop_gradient")
def stop_gradient(inputs: Inputs) -> Tensor:
    x = inputs.floats(inputs.dims())
    return x * rf.stop_gradient(rf.tanh(x))


@op_case("stop_gradient_scope")
def stop_gradient_scope(inputs: Inputs) -> Tensor:
    x = inputs.floats(inputs.dims())
    with rf.stop_gradient_scope():
        y = rf.tanh(x)
    return x * y


@op_case("gradient_checkpoint_scope")
def gradient_checkpoint_scope(inputs: Inputs) -> Tensor:
    x = inputs.floats(inputs.dims())
    with rf.gradient_checkpoint_scope():
        y = rf.tanh(x) * 2.0
    return x * y


@op_case("scaled_gradient")
def scaled_gradient(inputs: Inputs) -> list[Tensor]:
    dims = inputs.dims(low=1)
    x = inputs.floats(dims)
    factor = rf.stop_gradient(inputs.floats(inputs.subset(dims)))
    return [rf.scaled_gradient(x, -0.5), rf.scaled_gradient(x * 2.0, factor)]


@op_case("scaled_gradient_ext")
def scaled_gradient_ext(inputs: Inputs) -> list[Tensor]:
    time, feature = inputs.dynamic(), inputs.static("feature")
    x = inputs.floats([inputs.batch, time, feature])
    return [
        rf.scaled_gradient_ext(x, scale=0.5, shift=0.1),
        rf.scaled_gradient_ext(x, scale=0.5, shift=0.1, scale_shift_by_sum_over_axis=feature),
        rf.scaled_gradient_ext(x, scale=-1.0),
    ]
