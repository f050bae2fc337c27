"""
Random faults of one of two workers, and what comes of each: the training has to end as the undisturbed one, bit for
bit.

    python -m tests.soak.workers --faults 30 --seed 1 --backend torch

A fault is a signal to one worker in one step: killed, stopped, or asked to end. The launcher starts all again; after
being asked to end, the same command does.
"""

from __future__ import annotations

import argparse
import importlib
import random
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.faulty_step import plan_fault
from tests.launched import Launched, scores

_SIGNALS = (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM)
_MAX_RUNS = 3


def outcome(folder: Path, config: str, wanted: str) -> str:
    """:return: of a training with a fault, in a few words; begins with "same" if all is well"""
    text, status = "", None
    for _ in range(_MAX_RUNS):
        status, output = Launched(folder, config, restarts=1).end()
        text += output
        if status == 0:
            break
    if status != 0:
        return f"FAILED with status {status}, see {folder}/out"
    if scores(folder) != wanted:
        return f"OTHER scores, see {folder}/out"
    starts = re.findall(r"start training at (epoch \d+ of \d+(?:, after step \d+)?)", text)
    is_hit = len(starts) > 1
    return f"same, went on at {starts[-1]}" if is_hit else "same, the fault came behind the last step"


def main() -> int:
    """:return: 0 if all trainings ended as the undisturbed one"""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", choices=["torch", "tf"], default="torch")
    args = parser.parse_args()
    module = importlib.import_module(f"tests.{args.backend}.distributed.test_faults")
    rng = random.Random(args.seed)
    folder = Path(tempfile.mkdtemp(prefix="workers-"))
    status, text = Launched(folder / "undisturbed", module.CONFIG).end()
    assert status == 0, text
    wanted = scores(folder / "undisturbed")
    num_bad = 0
    for i in range(args.faults):
        number, rank, step = rng.choice(_SIGNALS), rng.randrange(2), rng.randrange(1, 34)
        plan_fault(folder / str(i), rank=rank, step=step, number=number, after_file="my.config")
        start = time.monotonic()
        result = outcome(folder / str(i), module.CONFIG, wanted)
        num_bad += not result.startswith("same")
        seconds = time.monotonic() - start
        print(f"{i:3} {number.name} of worker {rank} in its step {step:2}: {result}, {seconds:.0f} s", flush=True)
    print(f"{args.faults} faults, {num_bad} with another end")
    return 1 if num_bad else 0


if __name__ == "__main__":
    sys.exit(main())
