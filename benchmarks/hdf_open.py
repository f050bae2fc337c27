"""
How long it takes to open a large HDF file with `HDFDataset`, and how much memory it takes.

    python benchmarks/hdf_open.py --num-seqs 10000000

The reference is the same file read in the simplest way: all lengths and all tags into memory.
Each measurement runs in a process of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

from returnn.datasets import init_dataset

_BLOCK = 1 << 20


def write_file(filename: str, num_seqs: int) -> None:
    """Writes sequences of 1 to 3 labels, with tags of 20 letters."""
    rng = np.random.RandomState(1)
    with h5py.File(filename, "w") as file:
        file.attrs.update({"inputPattSize": 100, "numLabels": 100, "numSeqs": num_seqs})
        lengths = file.create_dataset("seqLengths", (num_seqs, 1), "int32")
        tags = file.create_dataset("seqTags", (num_seqs,), "S20")
        num_frames = 0
        for start in range(0, num_seqs, _BLOCK):
            end = min(start + _BLOCK, num_seqs)
            lens = rng.randint(1, 4, size=(end - start, 1))
            lengths[start:end] = lens
            num_frames += int(lens.sum())
            tags[start:end] = np.char.mod(b"corpus/seq-%09d", np.arange(start, end))
        inputs = file.create_dataset("inputs", (num_frames,), "uint8")
        for start in range(0, num_frames, _BLOCK):
            inputs[start : start + _BLOCK] = start // _BLOCK % 100


def open_file(filename: str) -> None:
    """Until the data set knows its size."""
    init_dataset({"class": "HDFDataset", "files": [filename]})


def first_seq(filename: str) -> None:
    """Until the first sequence of an epoch is there."""
    dataset = init_dataset({"class": "HDFDataset", "files": [filename]})
    assert dataset is not None
    dataset.init_seq_order(1)
    dataset.load_seqs(0, 1)
    dataset.get_data(0, "data")


def first_seq_random(filename: str) -> None:
    """The same in random order."""
    dataset = init_dataset({"class": "HDFDataset", "files": [filename], "seq_ordering": "random"})
    assert dataset is not None
    dataset.init_seq_order(1)
    dataset.load_seqs(0, 1)


def first_seq_laplace(filename: str) -> None:
    """The same sorted by length within bins."""
    dataset = init_dataset({"class": "HDFDataset", "files": [filename], "seq_ordering": "laplace:.1000"})
    assert dataset is not None
    dataset.init_seq_order(1)
    dataset.load_seqs(0, 1)


def first_tag(filename: str) -> None:
    """Until a sequence is found by its tag."""
    dataset = init_dataset({"class": "HDFDataset", "files": [filename]})
    assert dataset is not None
    dataset.init_seq_order(1, seq_list=["corpus/seq-000000007"])
    dataset.load_seqs(0, 1)


def read_all_tables(filename: str) -> None:
    """The reference: lengths and tags into memory."""
    with h5py.File(filename, "r") as file:
        lengths = file["seqLengths"][...]
        tags = [tag.decode("utf8") for tag in file["seqTags"][...].tolist()]
        assert len(lengths) == len(tags)


def _measure(func: Callable[[str], None], filename: str, queue: multiprocessing.Queue) -> None:
    before = _memory_kb("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # starts the peak anew
    start = time.perf_counter()
    func(filename)
    seconds = time.perf_counter() - start
    queue.put((seconds, (_memory_kb("VmHWM") - before) / 1024))


def _memory_kb(field: str) -> int:
    lines = Path("/proc/self/status").read_text("utf8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def measure(func: Callable[[str], None], filename: str) -> tuple[float, float]:
    """:return: seconds, and megabytes of memory at its peak beyond the imports"""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_measure, args=(func, filename, queue))
    process.start()
    result = queue.get()
    process.join()
    return result


def main() -> None:
    """Prints one line per case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-seqs", type=int, default=10_000_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        filename = os.path.join(folder, "large.hdf")
        write_file(filename, args.num_seqs)
        print(f"{args.num_seqs} sequences, file of {os.path.getsize(filename) / 2**20:.0f} MB")
        reference_s, reference_mb = measure(read_all_tables, filename)
        print(f"{'reference: read all tables':30} {reference_s:7.2f} s {reference_mb:8.1f} MB")
        for func in (open_file, first_seq, first_seq_random, first_seq_laplace, first_tag):
            seconds, megabytes = measure(func, filename)
            print(
                f"{func.__name__:30} {seconds:7.2f} s {megabytes:8.1f} MB"
                f"   ratio of time {seconds / reference_s:.2f}, of memory {megabytes / reference_mb:.3f}"
            )


if __name__ == "__main__":
    main()
