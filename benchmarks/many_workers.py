"""
How long a step would take with 1,000 workers: a model of parts that can be measured with few.

    python -m benchmarks.many_workers [--workers 1 8 64 1000]

- Computation: its backward pass is two thirds of it; gradients are ready one bucket after the other in there.
- Exchange: one bucket at a time. A ring of N workers has 2 (N - 1) hops for a bucket, each with 1 / N of its bytes; a
  tree has 2 log2 N hops, each with all of them, in chunks that follow each other.
- Stragglers: times of steps are normal. The slowest of N is sqrt(2 ln N) deviations above the mean.
- Saving inside of an epoch: copying stops the training, writing does not.
- Faults: each worker has one in so many hours. It costs the timeout, a start, and half of the interval of saving.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Parts:
    """Of one worker and one connection, measured or assumed. Here: a GPU of a cluster, 100 million parameters."""

    compute_s: float = 0.3  # of a step
    gradient_bytes: float = 400e6
    bucket_bytes: float = 4 << 20
    hop_s: float = 10e-6  # until the first byte is at the next worker
    bytes_per_s: float = 25e9  # of a connection
    deviation: float = 0.03  # of the times of steps, as part of them
    copy_s: float = 0.5  # of all values, to save them
    save_interval_s: float = 600.0
    start_s: float = 120.0  # of all workers, until the first step: imports, graph, data
    timeout_s: float = 300.0
    hours_to_fault: float = 20_000.0  # of one worker
    tree: bool = False


@dataclass(frozen=True)
class Step:
    """Seconds of a step, by cause."""

    compute: float
    stragglers: float
    exchange: float  # all of it
    visible: float  # the part of the exchange after the computation
    saving: float
    faults: float

    @property
    def total(self) -> float:
        """All together."""
        return self.compute + self.stragglers + self.visible + self.saving + self.faults


def bucket_s(parts: Parts, num_workers: int) -> float:
    """:return: until a bucket is summed up"""
    if num_workers == 1:
        return 0.0
    if parts.tree:
        return 2 * (math.log2(num_workers) * parts.hop_s + parts.bucket_bytes / parts.bytes_per_s)
    hops = 2 * (num_workers - 1)
    return hops * (parts.hop_s + parts.bucket_bytes / num_workers / parts.bytes_per_s)


def slowest_of(num_workers: int) -> float:
    """:return: how many deviations the slowest is above the mean, of normal times"""
    return math.sqrt(2 * math.log(num_workers))


def step_of(parts: Parts, num_workers: int) -> Step:
    """:return: mean over a long training"""
    num_buckets = max(math.ceil(parts.gradient_bytes / parts.bucket_bytes), 1)
    parts = replace(parts, bucket_bytes=parts.gradient_bytes / num_buckets)
    of_bucket = bucket_s(parts, num_workers)
    backward = parts.compute_s * 2 / 3
    end = 0.0
    for i in range(num_buckets):
        ready = parts.compute_s - backward * (1 - (i + 1) / num_buckets)
        end = max(end, ready) + of_bucket
    stragglers = parts.compute_s * parts.deviation * slowest_of(num_workers)
    visible = max(end - parts.compute_s, 0.0)
    running = parts.compute_s + stragglers + visible
    saving = running * parts.copy_s / parts.save_interval_s
    faults_per_s = num_workers / (parts.hours_to_fault * 3600)
    faults = running * faults_per_s * (parts.timeout_s + parts.start_s + parts.save_interval_s / 2)
    return Step(parts.compute_s, stragglers, num_buckets * of_bucket, visible, saving, faults)


def main(argv: Sequence[str] | None = None) -> None:
    """:param argv: without the name of the program"""
    parser = argparse.ArgumentParser(description=__doc__.strip().split("\n")[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 8, 64, 1000])
    args = parser.parse_args(argv)
    cases = {
        "ring, 4 MB": Parts(),
        "ring, 100 MB": Parts(bucket_bytes=100e6),
        "tree, 4 MB": Parts(tree=True),
        "tree, 25 MB": Parts(bucket_bytes=25e6, tree=True),
    }
    print("| exchange | workers | stragglers | exchange | visible | saving | faults | step | efficiency |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, parts in cases.items():
        for number in args.workers:
            step = step_of(parts, number)
            seconds = (step.stragglers, step.exchange, step.visible, step.saving, step.faults, step.total)
            columns = " | ".join(f"{value:.3f}" for value in seconds)
            print(f"| {name} | {number} | {columns} | {step.compute / step.total:.0%} |")


if __name__ == "__main__":
    main()
