"""
Recurrent units: forward and backward time of one layer against `torch.nn.LSTM` and `torch.nn.GRU`, against the same
unit as a loop of TensorFlow, and against matrix products of the same sizes alone. All of them take turns, so that other
load on the machine meets all; the fastest of some runs counts.

    python -m benchmarks.rec_units [--units nativelstm2 gru] [--sizes 128 512] [--batches 1 64] [--threads 1 2]
    python -m benchmarks.rec_units --quick    # the LSTM, some sizes, in a minute
    python -m benchmarks.rec_units --full     # the LSTM, all sizes
    python -m benchmarks.rec_units --units twod_lstm --frames 20

Units that PyTorch has not are compared with its LSTM of the same sizes; the one of two dimensions has no such peer, and
one source frame less than target frames.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy
import tensorflow as tf

from benchmarks.cpus import use_cpus
from returnn.config import Config
from returnn.tf.layers.rec.units.registry import unit_names
from returnn.tf.network import TFNetwork
from returnn.util.python.optional_import import import_optional

tf1 = tf.compat.v1
torch = import_optional("torch", needed_for="the comparison with PyTorch")


Step = Callable[[], object]
QUICK = [(1, 256, 20), (8, 256, 50), (64, 256, 20), (64, 512, 20)]  # batch, size, frames
FULL = list(itertools.product((1, 8, 64, 256), (128, 256, 512, 1024), (20, 50, 500)))
TWOD = "twod_lstm"  # a layer
NUM_GATES = {"gru": 3, "basicrnn": 1, "rhn": 2, TWOD: 5}


@dataclass(frozen=True)
class Case:
    """One layer."""

    unit: str
    batch: int
    size: int
    frames: int
    threads: int

    @property
    def num_operations(self) -> float:
        """Floating point operations of its matrix products, forward and backward."""
        return 3 * 2 * self.num_rows * 2 * self.size * NUM_GATES.get(self.unit, 4) * self.size

    @property
    def num_rows(self) -> int:
        """Of the matrices that are multiplied."""
        return self.batch * self.frames * (self.frames - 1 if self.unit == TWOD else 1)


@contextmanager
def kernels(is_on: bool) -> Iterator[None]:
    """Layers that are made meanwhile have kernels, or not."""
    before = os.environ.get("RETURNN_NATIVE", "1")
    os.environ["RETURNN_NATIVE"] = str(int(is_on))
    yield
    os.environ["RETURNN_NATIVE"] = before


def our_step(case: Case) -> tuple[Step, bool]:
    """:return: step: output, and gradients of all parameters and the input; whether it is a loop"""
    with tf.Graph().as_default() as graph:
        session = tf1.Session(config=tf1.ConfigProto(intra_op_parallelism_threads=case.threads))
        desc = {"class": "rec", "unit": case.unit, "n_out": case.size, "from": "data"}
        if case.unit == TWOD:
            desc = {"class": "twod_lstm", "n_out": case.size, "from": ["other_data", "data"]}
        other = {"class": "slice", "axis": "T", "slice_start": 1, "from": "data"}  # with frames of its own
        net_dict = {"output": desc, **({"other_data": other} if case.unit == TWOD else {})}
        config = Config({"extern_data": {"data": {"dim": case.size}}, "network": net_dict})
        net = TFNetwork(config=config, train_flag=True)
        net.construct_from_dict(net_dict)
        data, output = net.extern_data.data["data"], net.get_layer("output").output
        inputs = [data.raw_tensor, *net.get_params_list()]
        grads = tf1.gradients(tf.reduce_sum(tf.square(output.raw_tensor)), inputs)
        fetch = [tf.reduce_sum(tf.convert_to_tensor(grad)) for grad in grads]
        value = numpy.random.RandomState(1).normal(size=(case.batch, case.frames, case.size)).astype("float32")
        lengths = numpy.full([case.batch], case.frames, "int32")
        feed = {data.raw_tensor: value, data.dims[1].dyn_size_ext.raw_tensor: lengths}
        if tf.is_tensor(data.batch.dim):
            feed[data.batch.dim] = case.batch
        session.run(tf1.global_variables_initializer())
        run = session.make_callable(fetch, list(feed))
        is_loop = any("While" in op.type for op in graph.get_operations())
        return lambda: run(*feed.values()), is_loop


def torch_step(case: Case) -> Step:
    """:return: the same in PyTorch"""
    layer = getattr(torch.nn, "GRU" if case.unit == "gru" else "LSTM")(case.size, case.size)
    x = torch.randn(case.frames, case.batch, case.size, requires_grad=True)

    def step() -> None:
        torch.set_num_threads(case.threads)
        layer.zero_grad()
        layer(x)[0].square().sum().backward()

    return step


def matmul_step(case: Case) -> Step:
    """:return: as many operations in one product as a third of the layer has, for all frames at once; PyTorch's"""
    x = torch.randn(case.num_rows, 2 * case.size)
    weights = torch.randn(2 * case.size, NUM_GATES.get(case.unit, 4) * case.size)

    def step() -> None:
        torch.set_num_threads(case.threads)
        torch.mm(x, weights)

    return step


def best_times(steps: list[Step], repeat: int) -> list[float]:
    """:return: seconds of the fastest run of each step"""
    best = [math.inf for _ in steps]
    for i in range(repeat + 1):
        for number, step in enumerate(steps):
            start = time.perf_counter()
            step()
            if i >= 1:
                best[number] = min(best[number], time.perf_counter() - start)
    return best


def measure(case: Case, repeat: int) -> dict[str, float]:
    """:return: seconds of the layer, and how often as fast it is as others are"""
    use_cpus(case.threads)
    step, is_loop = our_step(case)
    with kernels(False):
        loop = step if is_loop else our_step(case)[0]
    seconds, of_torch, of_matmul, of_loop = best_times([step, torch_step(case), matmul_step(case), loop], repeat)
    return {
        "s": seconds,
        "GFLOP/s": case.num_operations / seconds / 1e9,
        "torch": math.nan if case.unit == TWOD else of_torch / seconds,
        "loop": of_loop / seconds,
        "products": 3 * of_matmul / seconds,
    }


def all_cases(args: argparse.Namespace) -> Iterator[Case]:
    """:return: in the order in which they are printed"""
    grid = QUICK if args.quick else FULL if args.full else itertools.product(args.batches, args.sizes, args.frames)
    units = ["nativelstm2"] if args.quick or args.full else args.units
    for threads, (batch, size, frames), unit in itertools.product(args.threads, list(grid), units):
        yield Case(unit, batch, size, frames, threads)


def _geometric_mean(ratios: list[float]) -> float:
    logs = [math.log(ratio) for ratio in ratios if not math.isnan(ratio)]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--units", nargs="+", default=[name for name in unit_names() if name not in ("lstmblock", "lstmp")]
    )
    parser.add_argument("--sizes", nargs="+", type=int, default=[128, 512])
    parser.add_argument("--batches", nargs="+", type=int, default=[32])
    parser.add_argument("--frames", nargs="+", type=int, default=[100])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="the LSTM, some sizes")
    parser.add_argument("--full", action="store_true", help="the LSTM, all sizes")
    args = parser.parse_args()
    print("forward and backward; how often as fast as torch, as the loop of TensorFlow, as matrix products alone")
    print(f"{'threads':<8}{'unit':<22}{'batch':>6}{'size':>6}{'frames':>7}{'s':>9}{'GFLOP/s':>9}", end="")
    print(f"{'/ torch':>9}{'/ loop':>9}{'/ products':>12}")
    results = []
    use_cpus(max(args.threads))
    for case in all_cases(args):
        found = measure(case, args.repeat)
        results.append(found)
        print(
            f"{case.threads:<8}{case.unit:<22}{case.batch:>6}{case.size:>6}{case.frames:>7}{found['s']:>9.4f}", end=""
        )
        print(
            f"{found['GFLOP/s']:>9.1f}{found['torch']:>9.2f}{found['loop']:>9.2f}{found['products']:>12.2f}", flush=True
        )
    means = [_geometric_mean([found[key] for found in results]) for key in ("torch", "loop", "products")]
    print(f"{'geometric mean':<67}{means[0]:>9.2f}{means[1]:>9.2f}{means[2]:>12.2f}")


if __name__ == "__main__":
    main()
