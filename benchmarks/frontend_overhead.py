"""
What the frontend costs on top of the framework, in Python time.

    python benchmarks/frontend_overhead.py [--repeat 5] [--ops 1000]

Mixed operations (matrix products, bias, activations, reductions, masks, softmax) are written once with named dims and
once with raw tensors: `tf` measures the time to build a TensorFlow graph of them, `torch` the time to run them eagerly
on small tensors. The ratio of both is printed (aims: 2 for graphs, 1.5 for eager code), and how many operations on
templates run in a second.

The two take turns. Of each round of operations, the fastest time of several turns counts: that is least disturbed by
what else the machine does.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

import numpy
import tensorflow as tf
import torch

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor

NUM_SEQS, NUM_FRAMES, NUM_FEATURES, NUM_HIDDEN = 3, 7, 8, 9
LENGTHS = numpy.array([7, 5, 2], "int32")
OPS_PER_ROUND = 15

Run = Callable[[], Iterator[None]]  # all rounds, one after the other

batch = Dim(None, name="batch", kind=Dim.Types.Batch)
time_dim = Dim(None, name="time", kind=Dim.Types.Spatial)
feature = Dim(NUM_FEATURES, name="feature", kind=Dim.Types.Feature)
hidden = Dim(NUM_HIDDEN, name="hidden", kind=Dim.Types.Feature)


def frontend_round(x: Tensor, weights: Tensor, bias: Tensor, weights_back: Tensor) -> Tensor:
    """:return: x, [T, B, F], after `OPS_PER_ROUND` operations"""
    y = rf.matmul(x, weights, reduce=feature)
    y = y + bias
    y = rf.tanh(y)
    y = y * 0.5
    y = rf.matmul(y, weights_back, reduce=hidden)
    y = y + x
    mean = rf.reduce_mean(y, axis=feature)
    y = y - mean
    y = rf.relu(y)
    y = rf.where(y > 1.0, 1.0, y)
    y = rf.softmax(y, axis=feature)
    y = rf.maximum(y, 0.01)
    total = rf.reduce_max(y, axis=feature)
    return y / total


def tf_round(
    x: tf.Tensor, weights: tf.Tensor, bias: tf.Tensor, weights_back: tf.Tensor, sizes: list[tf.Tensor]
) -> tf.Tensor:
    """:return: the same with raw TensorFlow"""
    y = tf.reshape(tf.matmul(tf.reshape(x, [-1, NUM_FEATURES]), weights), [*sizes, NUM_HIDDEN])
    y = y + bias
    y = tf.tanh(y)
    y = y * 0.5
    y = tf.reshape(tf.matmul(tf.reshape(y, [-1, NUM_HIDDEN]), weights_back), [*sizes, NUM_FEATURES])
    y = y + x
    y = y - tf.expand_dims(tf.reduce_mean(y, axis=2), 2)
    y = tf.nn.relu(y)
    y = tf.where(y > 1.0, 1.0, y)
    y = tf.nn.softmax(y, axis=2)
    y = tf.maximum(y, 0.01)
    return y / tf.expand_dims(tf.reduce_max(y, axis=2), 2)


def torch_round(x: torch.Tensor, weights: torch.Tensor, bias: torch.Tensor, weights_back: torch.Tensor) -> torch.Tensor:
    """:return: the same with raw PyTorch"""
    y = torch.matmul(x, weights)
    y = y + bias
    y = torch.tanh(y)
    y = y * 0.5
    y = torch.matmul(y, weights_back)
    y = y + x
    y = y - torch.mean(y, dim=2).unsqueeze(2)
    y = torch.relu(y)
    y = torch.where(y > 1.0, 1.0, y)
    y = torch.softmax(y, dim=2)
    y = torch.clamp(y, min=0.01)
    return y / torch.amax(y, dim=2).unsqueeze(2)


def main() -> None:
    """Prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5, help="number of turns")
    parser.add_argument("--ops", type=int, default=1000, help="number of operations")
    args = parser.parse_args()
    rounds = -(-args.ops // OPS_PER_ROUND)
    num_ops = rounds * OPS_PER_ROUND
    template = best_of(args.repeat, template_run(rounds))[0]
    print(f"template: {template / num_ops * 1e6:5.1f} us/op, {num_ops / template:.0f} ops/s")
    for name, (raw, frontend), aim in (("tf", tf_runs(rounds), 2.0), ("torch", torch_runs(rounds), 1.5)):
        raw_s, frontend_s = best_of(args.repeat, raw, frontend)
        print(
            f"{name + ':':9} raw {raw_s / num_ops * 1e6:5.1f} us/op, frontend {frontend_s / num_ops * 1e6:5.1f} us/op,"
            f" ratio {frontend_s / raw_s:.2f} (aim {aim})"
        )


def best_of(repeat: int, *runs: Run) -> list[float]:
    """:return: for each run, the sum over its rounds of the shortest time of the round, in seconds"""
    best: list[list[float]] = [[] for _ in runs]
    for _ in range(repeat + 1):  # the first turn warms up
        for i, run in enumerate(runs):
            times = list(times_of_rounds(run()))
            best[i] = [min(pair) for pair in zip(best[i] or times, times, strict=True)]
    return [sum(times) for times in best]


def times_of_rounds(rounds: Iterator[None]) -> Iterator[float]:
    """:return: seconds"""
    start = time.perf_counter()
    for _ in rounds:
        yield time.perf_counter() - start
        start = time.perf_counter()


def frontend_run(rounds: int, make_raw: Callable[[numpy.ndarray, list[int | None]], object]) -> Iterator[None]:
    """Runs the rounds on tensors of a backend."""
    batch.dyn_size_ext = Tensor("size", [], "int32", raw_tensor=make_raw(numpy.array(NUM_SEQS, "int32"), []))
    time_dim.dyn_size_ext = Tensor("lengths", [batch], "int32", raw_tensor=make_raw(LENGTHS, [None]))
    dims = {
        "x": [time_dim, batch, feature],
        "weights": [feature, hidden],
        "bias": [hidden],
        "weights_back": [hidden, feature],
    }
    x, weights, bias, weights_back = (
        Tensor(name, dims[name], "float32", raw_tensor=make_raw(value, [dim.size for dim in dims[name]]))
        for name, value in values().items()
    )
    for _ in range(rounds):
        x = frontend_round(x, weights, bias, weights_back)
        yield


def template_run(rounds: int) -> Run:
    """:return: the rounds on templates"""
    return lambda: frontend_run(rounds, lambda value, shape: None)


def tf_runs(rounds: int) -> tuple[Run, Run]:
    """:return: raw, frontend"""

    def placeholder(value: numpy.ndarray, shape: list[int | None]) -> tf.Tensor:
        return tf.compat.v1.placeholder(value.dtype, shape)

    def raw() -> Iterator[None]:
        with tf.Graph().as_default():
            x, *params = (
                placeholder(value, [None, None, NUM_FEATURES] if name == "x" else list(value.shape))
                for name, value in values().items()
            )
            sizes = [tf.shape(x)[0], tf.shape(x)[1]]
            for _ in range(rounds):
                x = tf_round(x, *params, sizes)
                yield

    def frontend() -> Iterator[None]:
        with tf.Graph().as_default(), rf.backend_ctx("tf"):
            yield from frontend_run(rounds, placeholder)

    return raw, frontend


def torch_runs(rounds: int) -> tuple[Run, Run]:
    """:return: raw, frontend"""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)

    def raw() -> Iterator[None]:
        x, *params = (torch.tensor(value) for value in values().values())
        for _ in range(rounds):
            x = torch_round(x, *params)
            yield

    def frontend() -> Iterator[None]:
        with rf.backend_ctx("torch"):
            yield from frontend_run(rounds, lambda value, shape: torch.tensor(value))

    return raw, frontend


def values() -> dict[str, numpy.ndarray]:
    """:return: (T, B, F), (F, H), (H,), (H, F)"""
    random = numpy.random.RandomState(1)
    shapes = {
        "x": (NUM_FRAMES, NUM_SEQS, NUM_FEATURES),
        "weights": (NUM_FEATURES, NUM_HIDDEN),
        "bias": (NUM_HIDDEN,),
        "weights_back": (NUM_HIDDEN, NUM_FEATURES),
    }
    return {name: random.normal(size=shape).astype("float32") for name, shape in shapes.items()}


if __name__ == "__main__":
    main()
