"""Random values, of which only the dims can be compared; and conditions."""

from __future__ import annotations

import returnn.frontend as rf
from returnn.tensor import Tensor
from tests.frontend.op_case import Inputs, op_case


@op_case("random", random=True)
def random(inputs: Inputs) -> list[Tensor]:
    dims = inputs.dims()
    labels = inputs.static("labels")
    return [
        rf.random_uniform(dims, minval=-1.0, maxval=2.0),
        rf.random_normal(dims, mean=1.0, stddev=0.5),
        rf.random_truncated_normal(dims),
        rf.random_uniform(dims, minval=0, maxval=3, dtype="int32", sparse_dim=labels),
        rf.random(dims, distribution="bernoulli", mean=0.5),
    ]


@op_case("random", random=True)
def random_choice(inputs: Inputs) -> Tensor:
    classes, samples = inputs.static("classes", 4), inputs.static("samples", 3)
    log_probs = rf.log_softmax(inputs.floats([inputs.batch, classes]), axis=classes)
    return rf.random_choice_without_replacement(log_probs=log_probs, axis=classes, num_samples_dim=samples)


@op_case("random_choice_with_replacement", random=True)
def random_choice_with_replacement(inputs: Inputs) -> Tensor:
    classes = inputs.static("classes", 4)
    probabilities = rf.softmax(inputs.floats([inputs.batch, classes]), axis=classes)
    dims = [inputs.batch, inputs.dynamic(), inputs.static("samples")]
    return rf.random_choice_with_replacement(dims, probs=probabilities, axis=classes)


@op_case("cond")
def cond(inputs: Inputs) -> list[Tensor]:
    dims = inputs.dims(low=1)
    x, y = inputs.floats(dims), inputs.floats(dims)
    scalar = inputs.ints([])
    chosen = rf.cond(scalar > 2, lambda: {"a": x * 2.0, "b": y}, lambda: {"a": rf.tanh(y), "b": x + 1.0})
    return [chosen["a"], chosen["b"], rf.cond(True, lambda: x, lambda: y)]
