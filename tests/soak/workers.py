"""
Random faults of one of several workers, and what comes of each: the training has to end as the undisturbed one, bit for
bit.

    python -m tests.soak.workers --faults 30 --seed 1 --backend torch --workers 2 3

A fault is of one worker, in one step or when it starts: it is killed, stopped, asked to end, slow for some seconds, or
raises an exception. The launcher starts all again; after being asked to end, the same command does.
"""

from __future__ import annotations

import argparse
import importlib
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.faulty_step import Fault, plan_faults
from tests.launched import Launched, scores

_FAULTS = ("SIGKILL", "SIGSTOP", "SIGTERM", "exception", "slow")
_CONFIGS = {
    "torch": ("tests.torch.distributed.test_faults", "CONFIG"),
    "tf": ("tests.tf.distributed.test_faults", "CONFIG"),
    "tf_model": ("tests.tf.distributed.test_faults", "CONFIG_OF_MODEL"),  # in Python
}
_MAX_RUNS = 3
_LOAD = "from tests.faulty_step import note_start\nnote_start()\n"


def config_of(text: str, *, timeout_s: int) -> str:
    """:return: the config of the test of faults, which also looks for faults at its start"""
    assert '"timeout_s": 300' in text
    return text.replace('"timeout_s": 300', f'"timeout_s": {timeout_s}') + _LOAD


def outcome(folder: Path, config: str, wanted: str, *, workers: int) -> str:
    """:return: of a training with a fault, in a few words; begins with "same" if all is well"""
    text, status = "", None
    for _ in range(_MAX_RUNS):
        try:
            status, output = Launched(folder, config, restarts=9, workers=workers).end()
        except subprocess.TimeoutExpired:
            return f"FAILED, did not end, see {folder}/out"
        text += output
        if status == 0:
            break
    if status != 0:
        return f"FAILED with status {status}, see {folder}/out"
    if scores(folder) != wanted:
        return f"OTHER scores, see {folder}/out"
    if (folder / "fault").exists():
        return "same, the fault came behind the last step"
    starts = re.findall(r"start training at (epoch \d+ of \d+(?:, after step \d+)?)", text)
    restarts = text.count("returnn.launch: starts all again")
    return f"same, {restarts} restarts, went on at {starts[-1]}" if len(starts) > 1 else f"same, {restarts} restarts"


def main() -> int:
    """:return: 0 if all trainings ended as the undisturbed one"""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", choices=list(_CONFIGS), default="torch")
    parser.add_argument("--workers", type=int, nargs="+", default=[2], help="each fault is with one of these numbers")
    parser.add_argument("--timeout-s", type=int, default=20, help="how long workers wait for each other")
    args = parser.parse_args()
    module, name = _CONFIGS[args.backend]
    config = config_of(getattr(importlib.import_module(module), name), timeout_s=args.timeout_s)
    rng = random.Random(args.seed)
    folder = Path(tempfile.mkdtemp(prefix="workers-"))
    wanted = {}
    for workers in args.workers:
        undisturbed = folder / f"undisturbed{workers}"
        status, text = Launched(undisturbed, config, workers=workers, restarts=9).end()
        assert status == 0, text
        wanted[workers] = scores(undisturbed)
    num_bad = 0
    for i in range(args.faults):
        workers = rng.choice(args.workers)
        rank, step = rng.randrange(workers), rng.randrange(66 // workers)
        fault = rng.choice(_FAULTS if step else _FAULTS[:2])
        plan_faults(folder / str(i), Fault(rank, step, fault))
        start = time.monotonic()
        result = outcome(folder / str(i), config, wanted[workers], workers=workers)
        num_bad += not result.startswith("same")
        seconds = time.monotonic() - start
        print(f"{i:3} {fault} of worker {rank} of {workers} in its step {step}: {result}, {seconds:.0f} s", flush=True)
    print(f"{args.faults} faults, {num_bad} with another end")
    return 1 if num_bad else 0


if __name__ == "__main__":
    sys.exit(main())
