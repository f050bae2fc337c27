"""
What it costs to train in several processes: seconds per step of one process, and of 2 and 4 with the same work each.

    python -m benchmarks.distributed [--processes 2 4] [--hidden 512] [--layers 1] [--rounds 3]

All processes share the cores of this machine, so their computation takes as long as that of one process with the
batches of all. Measured are, by turns in each round, of which the median counts:

- one: one process with the batches of all
- apart: as many processes as there are workers, each with its own batches, which do not know each other
- together: the same as workers
- exchange: workers that sum up gradients of that size, and compute nothing

What is not hidden behind the computation is `together - apart`; the share of overlap is the rest of `exchange`. Bytes
are those that TCP counts for the connections of a worker; a ring sends 2 (N - 1) / N times the gradients.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.many_workers import slowest_of

FRAMES, SEQS, STEPS, WARM_UP = 50, 16, 30, 5
MODES = ("one", "apart", "together", "exchange")
_ACKED = 120  # where `tcpi_bytes_acked` is in Linux' `struct tcp_info`


def network(hidden: int, num_layers: int) -> dict[str, Any]:
    """:return: LSTMs, one on top of the other, and what comes behind them"""
    names = ["data", *(f"fw{i}" for i in range(num_layers))]
    return {
        **{
            name: {"class": "rec", "unit": "nativelstm2", "n_out": hidden, "from": before}
            for before, name in pairwise(names)
        },
        "ff": {"class": "linear", "activation": "relu", "n_out": hidden, "from": names[-1]},
        "output": {"class": "softmax", "loss": "ce", "from": "ff"},
    }


def train(hidden: int, num_layers: int, batch: int, num_processes: int, mode: str) -> dict[str, float]:
    """
    :param hidden: features of the layers
    :param num_layers: LSTMs
    :param batch: sequences in a batch
    :param num_processes: there are so many
    :param mode: see above
    :return: of this process: seconds per step, bytes of all gradients, bytes sent per step
    """
    from returnn.config import Config  # noqa: PLC0415 - only the processes that train need it
    from returnn.datasets.core.registry import init_dataset  # noqa: PLC0415
    from returnn.tf.engine import Engine  # noqa: PLC0415
    from returnn.tf.engine.passes.data_pass import DataPass  # noqa: PLC0415

    config = Config(
        {
            "task": "train",
            "log_verbosity": [0],
            "num_inputs": 40,
            "num_outputs": 100,
            "batch_size": FRAMES * batch,
            "max_seqs": batch,
            "optimizer": {"class": "adam"},
            "learning_rate": 1e-6,
            "distributed_tf": {"timeout_s": 300, "local_only": mode in ("one", "apart")},
            "network": network(hidden, num_layers),
        }
    )
    num_seqs = batch * (STEPS + WARM_UP) * (num_processes if mode == "together" else 1)
    data = init_dataset(
        {"class": "DummyDataset", "input_dim": 40, "output_dim": 100, "num_seqs": num_seqs, "seq_len": FRAMES}
    )
    engine = Engine(config)
    engine.init_train_from_config(config, train_data=data)
    num_bytes = 4 * engine.network.get_num_params()
    times: list[float] = []
    sent: list[int] = []

    def note(_: object = None) -> None:
        times.append(time.perf_counter())
        sent.append(bytes_sent())

    if mode == "exchange":
        exchange(engine, note)
    else:
        engine.init_train_epoch()
        batches = engine.batches_of(data, train=True)
        data_pass = DataPass(
            engine.session, dataset_name="train", dataset=data, batches=batches, train=True, on_step=note
        )
        data_pass.run("train", raise_exception=True)
    steps = len(times) - WARM_UP
    of_steps = [b - a for a, b in zip(times[WARM_UP - 1 :], times[WARM_UP:], strict=False)]
    return {
        "deviation": statistics.pstdev(of_steps) / statistics.mean(of_steps),
        "seconds": (times[-1] - times[WARM_UP - 1]) / steps,
        "bytes": num_bytes,
        "sent": (sent[-1] - sent[WARM_UP - 1]) / steps,
    }


def exchange(engine: Any, note: Callable[[], None]) -> None:
    """
    Sums up gradients of all parameters, as a step does.

    :param engine: of a worker
    :param note: called after each time
    """
    import tensorflow as tf  # noqa: PLC0415

    from returnn.tf.util.collectives import sum_gradients  # noqa: PLC0415

    workers, params = engine.session.workers, engine.network.get_trainable_params()
    with tf.Graph().as_default():
        ones = [tf.compat.v1.placeholder_with_default(tf.ones(var.shape), var.shape) for var in params]
        variables = [tf.TensorSpec(var.shape, tf.float32) for var in params]
        total = tf.group(*sum_gradients(ones, variables, mean=False))
        session = tf.compat.v1.Session(
            workers.session_target, config=tf.compat.v1.ConfigProto(**workers.session_options())
        )
        for _ in range(STEPS + WARM_UP):
            session.run(total)
            note()


def bytes_sent() -> int:
    """:return: by this process, over all TCP connections that it has now"""
    total = 0
    for number in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(number))) as sock:
                info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        except OSError:  # another kind of socket, or closed meanwhile
            continue
        total += struct.unpack_from("Q", info, _ACKED)[0]
    return total


def measure(hidden: int, num_layers: int, batch: int, num_processes: int, mode: str) -> dict[str, float]:
    """:return: of the first of the processes"""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        own = ["--train", *map(str, (hidden, num_layers, batch, num_processes)), "--mode", mode, "--out", str(out)]
        command = [sys.executable, "-m", "benchmarks.distributed", *own]
        if mode != "one":
            command = [sys.executable, "-m", "returnn.launch", "-n", str(num_processes), *command]
        done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        result: dict[str, float] = json.loads(out.read_text())
        return result


def compare(hidden: int, num_layers: int, num_processes: int, rounds: int) -> str:
    """:return: for people: all modes with so many processes"""
    found: dict[str, list[float]] = {mode: [] for mode in MODES}
    deviations: list[float] = []
    last: dict[str, float] = {}
    for _ in range(rounds):
        for mode in MODES:
            batch = SEQS * num_processes if mode == "one" else SEQS
            result = measure(hidden, num_layers, batch, num_processes, mode)
            found[mode].append(result["seconds"])
            deviations += [result["deviation"]] if mode == "apart" else []
            last = result if mode == "together" else last
    seconds = {mode: statistics.median(times) for mode, times in found.items()}
    visible = max(seconds["together"] - seconds["apart"], 0.0)
    overlap = max(1 - visible / seconds["exchange"], 0.0)
    deviation = statistics.median(deviations)
    # As if nothing of the exchange was hidden, which is so if the gradients fill one bucket alone.
    expected = seconds["apart"] * (1 + slowest_of(num_processes) * deviation) + seconds["exchange"]
    return (
        f"{num_processes} processes, batches of {SEQS}: one {seconds['one']:.4f} s per step, apart"
        f" {seconds['apart']:.4f}, together {seconds['together']:.4f}, exchange {seconds['exchange']:.4f};"
        f" together / one {seconds['together'] / seconds['one']:.2f}; overlap {overlap:.0%};"
        f" deviation of steps {deviation:.0%}, so expected together {expected:.4f};"
        f" gradients {last['bytes'] / 1e6:.2f} MB, sent {last['sent'] / 1e6:.2f} MB per step and worker,"
        f" ring {2 * (num_processes - 1) / num_processes * last['bytes'] / 1e6:.2f} MB"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """:param argv: without the name of the program"""
    parser = argparse.ArgumentParser(description=__doc__.strip().split("\n")[0])
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--layers", type=int, default=1, help="LSTMs; gradients of several fill several buckets")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--train", type=int, nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--mode", choices=MODES, help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    args: Any = parser.parse_args(argv)
    if args.train:
        result = train(*args.train, args.mode)
        task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {"index": 0})
        if task["index"] == 0:
            Path(args.out).write_text(json.dumps(result))
        return
    for number in args.processes:
        print(compare(args.hidden, args.layers, number, args.rounds), flush=True)


if __name__ == "__main__":
    main()
