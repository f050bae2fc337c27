"""Runs an optimizer over some steps, here and in the library that it is compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy
import tensorflow as tf

NUM_STEPS = 5
SHAPES = {"output/W": (5, 4), "output/b": (4,)}


@dataclass(frozen=True)
class Problem:
    """Initial values of variables, and their gradients in each step; a pair is a sparse gradient: values, indices."""

    initial: dict[str, numpy.ndarray]
    gradients: Sequence[dict[str, numpy.ndarray | tuple[numpy.ndarray, numpy.ndarray]]]
    dtype: str


def make_problem(dtype: str = "float32", *, is_sparse: bool = False, num_steps: int = NUM_STEPS) -> Problem:
    random = numpy.random.default_rng(42)
    initial = {name: random.normal(size=shape).astype(dtype) for name, shape in SHAPES.items()}
    gradients = [{n: random.normal(size=shape).astype(dtype) for n, shape in SHAPES.items()} for _ in range(num_steps)]
    if is_sparse:
        for step in gradients:
            step["output/W"] = (random.normal(size=(3, 4)).astype(dtype), numpy.array([3, 0, 3]))  # row 3 twice
    return Problem(initial, gradients, dtype)


def densify(problem: Problem) -> Problem:
    def dense(name: str, grad: numpy.ndarray | tuple) -> numpy.ndarray:
        if not isinstance(grad, tuple):
            return grad
        result = numpy.zeros(SHAPES[name], problem.dtype)
        numpy.add.at(result, grad[1], grad[0])
        return result

    gradients = [{name: dense(name, grad) for name, grad in step.items()} for step in problem.gradients]
    return Problem(problem.initial, gradients, problem.dtype)


def run_in_graph(make_optimizer: Callable[[], object], problem: Problem) -> dict[str, numpy.ndarray]:
    """:return: values of all variables after the last step, with what the optimizer keeps"""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variables = {
            n: tf.compat.v1.get_variable(n, initializer=v, use_resource=True) for n, v in problem.initial.items()
        }
        feeds, pairs = {}, []
        for name, example in problem.gradients[0].items():
            parts = [tf.compat.v1.placeholder(part.dtype, part.shape) for part in _parts(example)]
            feeds[name] = parts
            grad = tf.IndexedSlices(*parts, tf.constant(SHAPES[name])) if len(parts) == 2 else parts[0]
            pairs.append((grad, variables[name]))
        with tf.compat.v1.variable_scope("optimize"):
            update = make_optimizer().apply_gradients(pairs)
        session.run(tf.compat.v1.global_variables_initializer())
        for step in problem.gradients:
            session.run(update, {p: x for n, grad in step.items() for p, x in zip(feeds[n], _parts(grad), strict=True)})
        return {var.op.name: session.run(var) for var in tf.compat.v1.global_variables()}


def _parts(grad: numpy.ndarray | tuple) -> Sequence[numpy.ndarray]:
    return grad if isinstance(grad, tuple) else (grad,)


def run_keras(make_optimizer: Callable[[], object], problem: Problem) -> dict[str, numpy.ndarray]:
    variables = {name: tf.keras.Variable(value, dtype=problem.dtype) for name, value in problem.initial.items()}
    optimizer = make_optimizer()
    optimizer.build(list(variables.values()))
    for step in densify(problem).gradients:
        optimizer.apply([tf.constant(step[name]) for name in variables], list(variables.values()))
    return {name: var.numpy() for name, var in variables.items()}


def run_torch(make_optimizer: Callable[[list], object], problem: Problem) -> dict[str, numpy.ndarray]:
    import torch  # noqa: PLC0415 - it takes seconds to load, and few tests need it

    variables = {name: torch.nn.Parameter(torch.tensor(value)) for name, value in problem.initial.items()}
    optimizer = make_optimizer(list(variables.values()))
    for step in densify(problem).gradients:
        for name, var in variables.items():
            var.grad = torch.tensor(step[name])
        optimizer.step()
    return {name: var.detach().numpy() for name, var in variables.items()}


def assert_same(actual: dict[str, numpy.ndarray], expected: dict[str, numpy.ndarray], rtol: float = 1e-5) -> None:
    for name, value in expected.items():
        numpy.testing.assert_allclose(actual[name], value, rtol=rtol, atol=rtol, err_msg=name)
