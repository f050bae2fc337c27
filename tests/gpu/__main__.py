"""
Runs all that needs a GPU: tests, compute-sanitizer on some of them where it is installed, and benchmarks. What they
print goes to a file, too.

    python -m tests.gpu [--report FILE] [--full] [--tune]

It needs PyTorch with CUDA, nvcc, a C++ compiler and pytest; no TensorFlow.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).parent.parent.parent
# Without the plugins and the set-up of other tests, of which some are for TensorFlow.
PYTEST = (sys.executable, "-m", "pytest", "--noconftest", "-p", "tests.gpu.conftest", "-p", "no:cacheprovider", "-v")
SMALL = "tests/gpu/test_lstm.py::test_gradients_of_a_small_case"
VERSIONS = "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.get_device_name())"


def steps(*, full: bool, tune: bool) -> dict[str, list[str]]:
    """
    :param full: all sizes in the benchmark
    :param tune: measure the methods before it
    :return: commands by title
    """
    benchmark = [sys.executable, "-m", "benchmarks.rec_units_gpu"]
    commands = {
        "GPUs": ["nvidia-smi"],
        "PyTorch": [sys.executable, "-c", VERSIONS],
        "compiler": ["nvcc", "--version"],
        "tests": [*PYTEST, "-rs", "tests/gpu"],
    }
    if shutil.which("compute-sanitizer"):
        for tool in ("memcheck", "racecheck", "synccheck", "initcheck"):
            commands[f"sanitizer: {tool}"] = [
                "compute-sanitizer", f"--tool={tool}", "--error-exitcode=9", *PYTEST, SMALL,
            ]  # fmt: skip
    if tune:
        commands["tuning"] = [*benchmark, "--tune"]
    commands["benchmark"] = [*benchmark, "--full" if full else "--quick"]
    return commands


def run(title: str, command: list[str], report: TextIO) -> bool:
    """
    :param title: is printed before the output
    :param command: to run
    :param report: gets the output, too
    :return: whether it succeeded
    """
    _tell(f"\n== {title}: {' '.join(command)}\n", report)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    try:
        process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    except OSError as exc:
        _tell(f"{exc}\n", report)
        return False
    with process:
        for line in process.stdout or ():
            _tell(line, report)
    return process.returncode == 0


def _tell(text: str, report: TextIO) -> None:
    for file in (sys.stdout, report):
        file.write(text)
        file.flush()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", default="gpu_report.txt", help="the file")
    parser.add_argument("--full", action="store_true", help="all sizes in the benchmark")
    parser.add_argument("--tune", action="store_true", help="write which methods are the best ones on this GPU")
    args = parser.parse_args()
    with open(args.report, "w", encoding="utf8") as report:
        commands = steps(full=args.full, tune=args.tune)
        failed = [title for title, command in commands.items() if not run(title, command, report)]
        _tell(f"\n== failed: {', '.join(failed) or 'nothing'}\n", report)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
