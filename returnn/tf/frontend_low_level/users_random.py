"""
Random operations of TensorFlow that keep a state in the session, such as those of `tf.random.normal`, `tf.nn.dropout`
and samplers of classes, in the code of a config or our own. In `without_state`, they become operations of the same
distribution that follow from the seed of the run, as all others do (see `raw_random`).

In a loop that is not one of the toolkit, they stay as they are: nothing tells the rounds of the loop apart there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_callbacks  # has no public name

from returnn.tf.frontend_low_level import loop_counter
from returnn.tf.frontend_low_level.candidate_samplers import SAMPLERS, distribution_of, sample_candidates
from returnn.tf.frontend_low_level.raw_random import is_of_run_seed, operation_seed

_Make = Callable[[tf.Operation, Any, tf.Tensor], tf.Tensor]  # from operation, its inputs, and the seed

_WITHOUT_STATE: dict[str, _Make] = {
    "RandomUniform": lambda op, x, seed: tf.raw_ops.StatelessRandomUniform(
        shape=x[0], seed=seed, dtype=op.get_attr("dtype")
    ),
    "RandomStandardNormal": lambda op, x, seed: tf.raw_ops.StatelessRandomNormal(
        shape=x[0], seed=seed, dtype=op.get_attr("dtype")
    ),
    "TruncatedNormal": lambda op, x, seed: tf.raw_ops.StatelessTruncatedNormal(
        shape=x[0], seed=seed, dtype=op.get_attr("dtype")
    ),
    "RandomUniformInt": lambda op, x, seed: tf.raw_ops.StatelessRandomUniformInt(
        shape=x[0], seed=seed, minval=x[1], maxval=x[2]
    ),
    "Multinomial": lambda op, x, seed: tf.raw_ops.StatelessMultinomial(
        logits=x[0], num_samples=x[1], seed=seed, output_dtype=op.get_attr("output_dtype")
    ),
    "RandomGamma": lambda op, x, seed: tf.random.stateless_gamma(
        tf.concat([x[0], tf.shape(x[1], x[0].dtype)], axis=0), seed=seed, alpha=x[1], dtype=x[1].dtype
    ),
    "RandomPoissonV2": lambda op, x, seed: tf.random.stateless_poisson(
        tf.concat([x[0], tf.shape(x[1], x[0].dtype)], axis=0), seed=seed, lam=x[1], dtype=op.get_attr("dtype")
    ),
    "ParameterizedTruncatedNormal": lambda op, x, seed: tf.random.stateless_parameterized_truncated_normal(
        x[0], seed, *x[1:]
    ),
    "RandomShuffle": lambda op, x, seed: tf.random.experimental.stateless_shuffle(x[0], seed=seed),
}


@contextlib.contextmanager
def without_state() -> Iterator[None]:
    """For code that adds operations to a graph."""
    op_callbacks.add_op_callback(_replaced)
    try:
        yield
    finally:
        op_callbacks.remove_op_callback(_replaced)


def _replaced(
    op_type: str, inputs: Any, attrs: Any, outputs: Any, op_name: str | None = None, graph: Any = None
) -> list[tf.Tensor] | None:
    """:return: what is taken in place of the outputs of an operation that was just made; None: the outputs"""
    if op_type not in _WITHOUT_STATE and op_type not in SAMPLERS:
        return None
    op = outputs[0].op
    if not loop_counter.are_known() or is_of_run_seed(op):
        return None
    if op_type in SAMPLERS:
        return _candidates(op)
    result = _WITHOUT_STATE[op_type](op, inputs, operation_seed(op.get_attr("seed2") or None))
    result.set_shape(outputs[0].shape)
    return [result]


def _candidates(op: tf.Operation) -> list[tf.Tensor] | None:
    num, unique, num_classes = (op.get_attr(name) for name in ("num_sampled", "unique", "range_max"))
    distribution = distribution_of(op)
    if distribution is None or (unique and num > (distribution.num_possible or num_classes)):
        return None  # TensorFlow says what is wrong
    seed = operation_seed(op.get_attr("seed2") or None)
    return sample_candidates(distribution, op.inputs[0], seed, num=num, unique=unique, num_classes=num_classes)
