"""
How long it takes until the first sequence of an epoch is there, and how much memory: two sets of many sequences, found
by their tags, in shuffled order, in several workers at once.

    python -m benchmarks.data_start --num-seqs 40000000 --workers 2

The files are sparse: lengths and frames are never written, so they take no disk; both files have the same tags, once.
Seconds and CPU seconds are those of the slowest worker; memory is the peak of all workers together, imports included.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from returnn.datasets import init_dataset

_BLOCK = 1 << 20
_FRAMES = 3  # of a sequence


def write_files(folder: Path, num_seqs: int, *, same_order: bool) -> None:
    """
    :param folder: gets "audio.hdf" and "text.hdf"
    :param num_seqs: of each file
    :param same_order: whether both have their sequences in the same order; else, one has them backwards
    """
    names = {"audio": 1, "text": 1 if same_order else -1}
    for name, step in names.items():
        with h5py.File(folder / f"{name}.hdf", "w") as file:
            file.attrs["inputPattSize"] = 100
            file.create_dataset("seqLengths", (num_seqs, 1), "int32", chunks=(_BLOCK, 1), fillvalue=_FRAMES)
            file.create_dataset("inputs", (num_seqs * _FRAMES,), "uint8", chunks=(_BLOCK,), fillvalue=7)
            if name == "text" and same_order:
                file["seqTags"] = h5py.ExternalLink("audio.hdf", "seqTags")
                continue
            tags = file.create_dataset("seqTags", (num_seqs,), "S12")
            for start in range(0, num_seqs, _BLOCK):
                numbers = np.arange(start, min(start + _BLOCK, num_seqs))
                tags[start : start + _BLOCK] = tags_of(numbers if step > 0 else num_seqs - 1 - numbers)


def tags_of(numbers: np.ndarray) -> np.ndarray:
    """:return: "seq000000007" for 7"""
    letters = np.empty((len(numbers), 12), np.uint8)
    letters[:, :3] = np.frombuffer(b"seq", np.uint8)
    for i in range(9):
        letters[:, 11 - i] = numbers // 10**i % 10 + ord("0")
    return letters.view("S12")[:, 0]


def options(folder: Path, seq_ordering: str, *, shard: int, num_shards: int) -> dict[str, Any]:
    """:return: of the data set of one worker"""
    audio = {
        "class": "HDFDataset",
        "files": [str(folder / "audio.hdf")],
        "seq_ordering": seq_ordering,
        "_num_shards": num_shards,
        "_shard_index": shard,
    }
    return {
        "class": "MetaDataset",
        "datasets": {"audio": audio, "text": {"class": "HDFDataset", "files": [str(folder / "text.hdf")]}},
        "data_map": {"data": ("audio", "data"), "classes": ("text", "data")},
        "seq_order_control_dataset": "audio",
    }


def start(made: dict[str, Any], queue: multiprocessing.Queue[tuple[float, float, int]]) -> None:
    """In a worker: until the first sequence is there."""
    began, cpu = time.perf_counter(), time.process_time()
    dataset = init_dataset(made)
    assert dataset is not None
    dataset.init_seq_order(1)
    dataset.load_seqs(0, 1)
    assert dataset.get_data(0, "classes").shape == (_FRAMES,)
    peak = next(line for line in Path("/proc/self/status").read_text("utf8").splitlines() if line.startswith("VmHWM"))
    queue.put((time.perf_counter() - began, time.process_time() - cpu, int(peak.split()[1]) * 1024))


def measure(folder: Path, seq_ordering: str, *, workers: int, shards: bool) -> tuple[float, float, int]:
    """:return: seconds, CPU seconds, bytes"""
    context = multiprocessing.get_context("spawn")
    queue: Any = context.Queue()
    processes = []
    for rank in range(workers):
        made = options(folder, seq_ordering, shard=rank if shards else 0, num_shards=workers if shards else 1)
        processes.append(context.Process(target=start, args=(made, queue)))
        processes[-1].start()
    results = [queue.get() for _ in processes]
    for process in processes:
        process.join()
    return max(r[0] for r in results), max(r[1] for r in results), sum(r[2] for r in results)


def main() -> None:
    """Prints a line per case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-seqs", type=int, default=40_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--orders", nargs="+", default=["random", "laplace:.1000"])
    parser.add_argument("--backwards", action="store_true", help="the second set has another order")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, args.num_seqs, same_order=not args.backwards)
        used = sum(path.stat().st_blocks * 512 for path in folder.iterdir())
        print(f"two sets of {args.num_seqs:,} sequences, {used / 2**20:.0f} MB on disk, {args.workers} workers")
        for order in args.orders:
            for shards in (False, True):
                seconds, cpu, num_bytes = measure(folder, order, workers=args.workers, shards=shards)
                what = "a part each" if shards else "all each"
                print(
                    f"{order:15} {what:12} {seconds:7.1f} s, CPU {cpu:6.1f} s, {num_bytes / 2**30:6.2f} GB", flush=True
                )


if __name__ == "__main__":
    main()
