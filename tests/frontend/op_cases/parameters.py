"""Parameters: what they begin with, and what is assigned to them."""

from __future__ import annotations

import numpy

import returnn.frontend as rf
from returnn.tensor import Tensor
from tests.frontend.op_case import Inputs, op_case


@op_case("create_parameter_raw", "set_parameter_initial_value", differentiable=False)
def parameter_with_initial_value(inputs: Inputs) -> list[Tensor]:
    feature, out = inputs.static("feature", 3), inputs.static("out", 2)
    zeros, number, array = (rf.Parameter([feature, out]) for _ in range(3))
    number.initial = 0.5
    array.initial = numpy.arange(6).reshape([3, 2]).astype("float32")
    x = inputs.floats([inputs.batch, feature])
    return [rf.matmul(x, parameter, reduce=feature) for parameter in (zeros, number, array)]


@op_case("parameter_assign", differentiable=False)
def parameter_assign(inputs: Inputs) -> list[Tensor]:
    feature, out = inputs.static("feature"), inputs.static("out")
    parameter = rf.Parameter([feature, out])
    before = parameter + 1.0
    parameter.assign(inputs.floats([out, feature]))
    assigned = parameter * 1.0
    parameter.assign_add(inputs.floats([feature]))
    added = parameter * 1.0
    parameter.assign(3.0)
    return [before, assigned, added, parameter + 0.0]


@op_case("parameter_assign_key", differentiable=False)
def parameter_assign_key(inputs: Inputs) -> list[Tensor]:
    rows, columns, part = inputs.static("rows", 5), inputs.static("columns", 3), inputs.static("part", 2)
    parameter = rf.Parameter([rows, columns])
    parameter.assign(inputs.floats([rows, columns]))
    parameter.assign_key(rows, 1, None, inputs.floats([columns]))
    one = parameter * 1.0
    parameter.assign_key(rows, slice(2, 4), part, inputs.floats([columns, part]))
    piece = parameter * 1.0
    parameter.assign_key([rows, columns], [4, 0], None, 7.0)
    return [one, piece, parameter * 1.0]


@op_case("set_parameter_trainable", "parameter_move_to", differentiable=False)
def parameter_options(inputs: Inputs) -> Tensor:
    parameter = rf.Parameter([inputs.static("feature")])
    parameter.trainable = False
    parameter.to(device="cpu")
    parameter.initial = 2.0
    return inputs.floats([inputs.batch, *parameter.dims]) * parameter
