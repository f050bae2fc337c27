"""
What it costs to train in several processes: seconds per step of one process, and of 2 and 4 with the same work each.

    python -m benchmarks.distributed [--processes 2 4] [--hidden 512]

All processes share the cores of this machine, so their computation takes as long as that of one process with the
batches of all. What is more than that is the cost of the exchange. Bytes are those of all gradients; in a ring, each
worker sends and receives 2 (N - 1) / N times as much.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FRAMES, SEQS, STEPS, WARM_UP = 50, 16, 30, 5


def train(hidden: int, batch: int, num_processes: int) -> dict[str, float]:
    """:return: of this process: seconds per step, and bytes of all gradients"""
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
            "distributed_tf": {"timeout_s": 120} if num_processes > 1 else None,
            "network": {
                "fw": {"class": "rec", "unit": "nativelstm2", "n_out": hidden, "from": "data"},
                "ff": {"class": "linear", "activation": "relu", "n_out": hidden, "from": "fw"},
                "output": {"class": "softmax", "loss": "ce", "from": "ff"},
            },
        }
    )
    data = init_dataset(
        {
            "class": "DummyDataset",
            "input_dim": 40,
            "output_dim": 100,
            "num_seqs": batch * num_processes * (STEPS + WARM_UP),
            "seq_len": FRAMES,
        }
    )
    engine = Engine(config)
    engine.init_train_from_config(config, train_data=data)
    engine.init_train_epoch()
    times: list[float] = []
    data_pass = DataPass(
        engine.session,
        dataset_name="train",
        dataset=data,
        batches=engine.batches_of(data, train=True),
        train=True,
        on_step=lambda agreed: times.append(time.perf_counter()),
    )
    data_pass.run("train", raise_exception=True)
    num_bytes = 4 * engine.network.get_num_params()
    seconds = (times[-1] - times[WARM_UP - 1]) / (len(times) - WARM_UP)
    return {"seconds": seconds, "bytes": num_bytes}


def measure(hidden: int, batch: int, num_processes: int) -> dict[str, float]:
    """:return: of the first of the processes"""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        command = [
            sys.executable,
            "-m",
            "benchmarks.distributed",
            "--train",
            str(hidden),
            str(batch),
            str(num_processes),
        ]
        command += ["--out", str(out)]
        if num_processes > 1:
            command = [sys.executable, "-m", "returnn.launch", "-n", str(num_processes), *command]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        result: dict[str, float] = json.loads(out.read_text())
        return result


def main(argv: Sequence[str] | None = None) -> None:
    """:param argv: without the name of the program"""
    parser = argparse.ArgumentParser(description=__doc__.strip().split("\n")[0])
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--train", type=int, nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    args: Any = parser.parse_args(argv)
    if args.train:
        result = train(*args.train)
        task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {"index": 0})
        if task["index"] == 0:
            Path(args.out).write_text(json.dumps(result))
        return
    for number in args.processes:
        alone = measure(args.hidden, SEQS * number, 1)
        together = measure(args.hidden, SEQS, number)
        print(
            f"{number} processes, batches of {SEQS}: {together['seconds']:.4f} s per step; one process, batches of "
            f"{SEQS * number}: {alone['seconds']:.4f} s; ratio {together['seconds'] / alone['seconds']:.2f}; gradients "
            f"{alone['bytes'] / 1e6:.1f} MB"
        )


if __name__ == "__main__":
    main()
