"""
Recurrent units: forward and backward time of one layer against `torch.nn.LSTM` and `torch.nn.GRU`, and graph ops per
step. Run as `python -m benchmarks.rec_units [--units nativelstm2 gru] [--sizes 128 512] [--batch 32] [--frames 100]`.
On a machine with other load, `--threads 1` gives steadier ratios.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy
import tensorflow as tf

from returnn.config import Config
from returnn.tf.layers.rec.units.registry import unit_names
from returnn.tf.network import TFNetwork
from returnn.util.optional_import import import_optional

tf1 = tf.compat.v1
torch = import_optional("torch", needed_for="the comparison with PyTorch")


Step = Callable[[], object]


def our_step(unit: str, args: argparse.Namespace, size: int) -> tuple[Step, int, int]:
    """:return: step: output, and gradients of all parameters and the input; ops per frame forward, and backward"""
    with tf.Graph().as_default() as graph:
        session = tf1.Session(config=tf1.ConfigProto(intra_op_parallelism_threads=args.threads))
        desc = {"class": "rec", "unit": unit, "n_out": size, "from": "data"}
        config = Config({"extern_data": {"data": {"dim": size}}, "network": {"output": desc}})
        net = TFNetwork(config=config, train_flag=True)
        net.construct_from_dict({"output": desc})
        data, output = net.extern_data.data["data"], net.get_layer("output").output
        inputs = [data.raw_tensor, *net.get_params_list()]
        grads = tf1.gradients(tf.reduce_sum(tf.square(output.raw_tensor)), inputs)
        fetch = [tf.reduce_sum(tf.convert_to_tensor(grad)) for grad in grads]
        value = numpy.random.RandomState(1).normal(size=(args.batch, args.frames, size)).astype("float32")
        lengths = numpy.full([args.batch], args.frames, "int32")
        feed = {data.raw_tensor: value, data.dims[1].dyn_size_ext.raw_tensor: lengths}
        if tf.is_tensor(data.batch.dim):
            feed[data.batch.dim] = args.batch
        session.run(tf1.global_variables_initializer())
        run = session.make_callable(fetch, list(feed))
        return lambda: run(*feed.values()), *ops_in_loops(graph)


def ops_in_loops(graph: tf.Graph) -> tuple[int, int]:
    """:return: ops in the body of the first loop, and of the others together"""
    functions = {f.signature.name: f.node_def for f in graph.as_graph_def().library.function}
    loops = [op for op in graph.get_operations() if op.type in ("While", "StatelessWhile")]
    counts = [
        sum(node.op not in ("Const", "Identity", "NoOp") for node in functions[op.get_attr("body").name])
        for op in loops
    ]
    return counts[0], sum(counts[1:])


def torch_step(name: str, args: argparse.Namespace, size: int) -> Step:
    """:return: the same in PyTorch"""
    torch.set_num_threads(args.threads)
    layer = getattr(torch.nn, name)(size, size)
    x = torch.randn(args.frames, args.batch, size, requires_grad=True)

    def step() -> None:
        layer.zero_grad()
        layer(x)[0].square().sum().backward()

    return step


def median_times(steps: list[Step], repeat: int) -> list[float]:
    """:return: median seconds of each step. They take turns, so that other load on the machine meets all of them"""
    times: list[list[float]] = [[] for _ in steps]
    for i in range(repeat + 2):
        for step, seconds in zip(steps, times, strict=True):
            start = time.perf_counter()
            step()
            if i >= 2:
                seconds.append(time.perf_counter() - start)
    return [statistics.median(seconds) for seconds in times]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--units", nargs="+", default=[name for name in unit_names() if name not in ("lstmblock", "lstmp")]
    )
    parser.add_argument("--sizes", nargs="+", type=int, default=[128, 512])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    print(f"{args.batch} sequences of {args.frames} frames, forward and backward")
    print(f"{'unit':<24}{'size':>6}{'s':>9}{'GFLOP/s':>9}{'/ torch':>9}{'ops fwd':>9}{'ops bwd':>9}")
    for size in args.sizes:
        for unit in args.units:
            ours, forward, backward = our_step(unit, args, size)
            reference = torch_step("GRU" if unit == "gru" else "LSTM", args, size)
            seconds, seconds_torch = median_times([ours, reference], args.repeat)
            gates = {"gru": 3, "basicrnn": 1}.get(unit, 4)
            rate = 3 * 2 * args.frames * args.batch * 2 * size * gates * size / seconds / 1e9
            ratio = seconds / seconds_torch
            print(f"{unit:<24}{size:>6}{seconds:>9.4f}{rate:>9.1f}{ratio:>9.2f}{forward:>9}{backward:>9}", flush=True)


if __name__ == "__main__":
    main()
