"""The core operations: elementwise, constants, reductions, matrix products."""

from __future__ import annotations

import returnn.frontend as rf
from returnn.tensor import Tensor
from tests.frontend.op_case import Inputs, op_case


@op_case("matmul")
def matmul_with_weights(inputs: Inputs) -> Tensor:
    feature, out = inputs.static("feature"), inputs.static("out")
    x = inputs.floats([inputs.batch, inputs.dynamic("time"), feature])
    return rf.matmul(x, inputs.floats([feature, out]), reduce=feature)
