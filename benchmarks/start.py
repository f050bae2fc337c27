"""
From the command to the end of the first training steps: which part takes how long.

    python -m benchmarks.start [CONFIG] [--repeat 3] [++option value ...]

Each run is a process of its own. Processor time says what there is to compute, whatever else the machine does; the
time that passes is shorter where several cores compute. The median of all runs counts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
CONFIG = ROOT / "demos" / "g2p" / "attention.config"
NUM_STEPS = 3
_CHILD = """
import json, os, sys, time
_marks = [("interpreter", time.time(), time.process_time())]

def mark(name):
    _marks.append((name, time.time(), time.process_time()))

import returnn.__main__ as main
mark("import of the toolkit")
import returnn.tf
import tensorflow
mark("import of TensorFlow")
import returnn.tf.engine
mark("import of layers and engine")
from returnn.tf.engine.passes.data_pass import DataPass
from returnn.tf.engine.session import network_session

def measured(function, before, after):
    def wrapper(*args, **kwargs):
        mark(before)
        result = function(*args, **kwargs)
        mark(after)
        return result
    return wrapper

network_session.build_network = measured(
    network_session.build_network, "config, data sets", "network, losses, gradients"
)
step, steps = DataPass._step, []

def measured_step(*args, **kwargs):
    if not steps:
        mark("session, initial values, first batch")
    result = step(*args, **kwargs)
    steps.append(None)
    mark("step %i" % len(steps))
    if len(steps) == %(num_steps)i:
        with open(sys.argv[1], "w") as file:
            json.dump(_marks, file)
        os._exit(0)
    return result

DataPass._step = measured_step
main.main(["rnn.py", *sys.argv[2:]])
"""


def run(config: str, options: list[str]) -> dict[str, tuple[float, float]]:
    """:return: seconds and processor seconds of each part"""
    with tempfile.TemporaryDirectory() as folder:
        marks_file = Path(folder, "marks.json")
        child = _CHILD.replace("%(num_steps)i", str(NUM_STEPS))
        command = [sys.executable, "-c", child, str(marks_file), config]
        fixed = ["++task", "train", "++model", f"{folder}/model/net", "++learning_rate_file", f"{folder}/rates"]
        begin = time.time()
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT)}
        result = subprocess.run(
            [*command, *fixed, *options], env=environment, cwd=folder, capture_output=True, text=True, check=False
        )
        if not marks_file.exists():
            raise SystemExit(f"{config}: there were no {NUM_STEPS} steps.\n{result.stdout}\n{result.stderr}")
        marks = json.loads(marks_file.read_text())
    parts: dict[str, tuple[float, float]] = {}
    before = (begin, 0.0)
    for name, wall, processor in marks:
        parts[name] = wall - before[0], processor - before[1]
        before = wall, processor
    return parts


def main() -> None:
    """Prints a row for each part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", nargs="?", default=str(CONFIG))
    parser.add_argument("--repeat", type=int, default=3)
    args, options = parser.parse_known_args()
    runs = [run(os.path.abspath(args.config), options) for _ in range(args.repeat)]
    print(f"{'part':<40}{'processor':>12}{'seconds':>10}{'sum':>8}")
    total = 0.0
    for name in runs[0]:
        wall, processor = (statistics.median(parts[name][i] for parts in runs) for i in range(2))
        total += wall
        print(f"{name:<40}{processor:>12.2f}{wall:>10.2f}{total:>8.2f}")


if __name__ == "__main__":
    main()
