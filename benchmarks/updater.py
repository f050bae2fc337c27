"""
The update of many variables: graph ops per variable and time per step, against `tf.compat.v1.train` where that has the
same optimizer. Run as `python -m benchmarks.updater [--variables 300] [--size 64]`.
"""

from __future__ import annotations

import argparse
import io
import statistics
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial

import numpy
import tensorflow as tf

from returnn.config import Config
from returnn.tf.optimizers.registry import get_optimizer_class
from returnn.tf.updater import Updater

OPTIMIZERS = {
    "GradientDescentOptimizer": {},
    "MomentumOptimizer": {"momentum": 0.9},
    "AdagradOptimizer": {},
    "AdadeltaOptimizer": {},
    "RMSPropOptimizer": {},
    "FtrlOptimizer": {},
    "AdamOptimizer": {},
    "NadamOptimizer": {},
    "AMSGradOptimizer": {},
    "AdamW": {},
    "Adamax": {},
    "nadamkeras": {},
    "Lamb": {},
    "Lion": {},
    "SGD": {"momentum": 0.9},
    "Adafactor": {},
    "ScheduleFreeAdamW": {},
    "Muon": {},
}
GRADIENT_OPTIONS = (
    {},
    {"gradient_clip": 1.0},
    {"gradient_clip_norm": 1.0},
    {"gradient_clip_global_norm": 1.0},
    {"gradient_noise": 0.1},
    {"gradient_nan_inf_filter": True},
    {"accum_grad_multiple_step": 4},
)


class Update:
    """A graph with some variables, and the update of all of them."""

    def __init__(self, make_update: Callable[[list], tf.Operation], num_variables: int, size: int):
        """:param make_update: pairs of gradient and variable -> op"""
        with tf.Graph().as_default() as graph:
            value = numpy.full((size, size), 0.5, "float32")
            pairs = []
            for i in range(num_variables):
                var = tf.compat.v1.get_variable(f"layer{i}/W", initializer=value, use_resource=True)
                pairs.append((tf.compat.v1.placeholder_with_default(value, value.shape), var))
            self.op = make_update(pairs)
            self.session = tf.compat.v1.Session(graph=graph)
            self.session.run(tf.compat.v1.global_variables_initializer())
        self.ops_per_variable = _num_running_ops(self.op) / num_variables
        self.times_s: list[float] = []

    def step(self) -> None:
        """Runs it once."""
        start = time.perf_counter()
        self.session.run(self.op)
        self.times_s.append(time.perf_counter() - start)

    def ms_per_step(self) -> float:
        """:return: median"""
        return 1000 * statistics.median(self.times_s)


def _num_running_ops(op: tf.Operation) -> int:
    """:return: of those that run when `op` runs, without variables, constants and the given gradients"""
    seen, todo = {op}, [op]
    while todo:
        current = todo.pop()
        before = {*(tensor.op for tensor in current.inputs), *current.control_inputs} - seen
        seen |= before
        todo.extend(before)
    return sum(op.type not in ("VarHandleOp", "Const", "PlaceholderWithDefault", "NoOp") for op in seen)


def compare(*updates: Update, num_steps: int = 40) -> None:
    """Runs them by turns, so that other load on the machine concerns all of them."""
    for _ in range(num_steps):
        for update in updates:
            update.step()


def main() -> None:
    """Prints two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variables", type=int, default=300)
    parser.add_argument("--size", type=int, default=64, help="each variable is a matrix of size x size")
    args = parser.parse_args()

    print(f"{'optimizer':28} {'ops/variable':>12} {'ms/step':>9}   tf.compat.v1.train: ops, ms, ratio of times")
    for name, options in OPTIMIZERS.items():
        classes = [get_optimizer_class(name), getattr(tf.compat.v1.train, name, None)]
        updates = [
            Update(partial(_optimizer_op, cls, options), args.variables, args.size)
            for cls in classes
            if cls is not None
        ]
        compare(*updates)
        line = f"{name:28} {updates[0].ops_per_variable:12.2f} {updates[0].ms_per_step():9.2f}"
        if len(updates) == 2:
            ours, theirs = updates
            ratio = ours.ms_per_step() / theirs.ms_per_step()
            line += f"   {theirs.ops_per_variable:.2f}, {theirs.ms_per_step():.2f}, {ratio:.2f}"
        print(line)

    print(f"\n{'Adam with':40} {'ops/variable':>12} {'ms/step':>9}   (a backward pass of few ops is part of it)")
    for options in GRADIENT_OPTIONS:
        with redirect_stdout(io.StringIO()):
            update = Update(partial(_updater_op, options), args.variables, args.size)
        compare(update)
        print(f"{options or 'nothing else'!s:40} {update.ops_per_variable:12.2f} {update.ms_per_step():9.2f}")


def _optimizer_op(cls: type, options: dict, pairs: list) -> tf.Operation:
    return cls(learning_rate=1e-3, **options).apply_gradients(pairs)


def _updater_op(options: dict, pairs: list) -> tf.Operation:
    objective = tf.add_n([tf.reduce_sum(grad * var) for grad, var in pairs])
    updater = Updater(Config({"adam": True, **options}), objective=objective, initial_learning_rate=1e-3)
    updater.set_trainable_vars([var for _, var in pairs])
    return updater.get_optim_op()


if __name__ == "__main__":
    main()
