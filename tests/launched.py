"""A config or a program in a folder, run by `returnn.launch` with several workers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE_S

ROOT = Path(__file__).parent.parent


class Launched:
    """`returnn.launch`, by default with two workers."""

    def __init__(self, folder: Path, config: str, *options: str, restarts: int = 0, workers: int = 2) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "my.config").write_text(config)
        end_s = 3 if restarts else PATIENCE_S  # those that wait for one that was killed do not end soon
        launch = [sys.executable, "-m", "returnn.launch", "-n", str(workers), "--max-restarts", str(restarts)]
        launch += ["--end-s", str(end_s)]
        environ = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
        environ.update(PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1")  # threads that wait for each other take all cores
        self.log = folder / "out"
        self._out = self.log.open("w")
        self.process = subprocess.Popen(
            [*launch, str(ROOT / "rnn.py"), "my.config", *options],
            cwd=folder,
            env=environ,
            stdout=self._out,
            stderr=subprocess.STDOUT,
        )

    def end(self) -> tuple[int, str]:
        """:return: exit status, output"""
        try:
            status = self.process.wait(timeout=2 * PATIENCE_S)
        finally:
            self.process.kill()  # and with it its workers, which would slow down what comes next
            self.process.wait()
            self._out.close()
        return status, self.log.read_text()


def results_of_program(program: str, cases: Iterable[str], folder: Path) -> dict[str, tuple[Any, Any, Any]]:
    """
    :param program: a module that gets a folder, and writes "CASE.RANK.json"
    :param cases: what it writes
    :param folder: for its files
    :return: by case: of one process, and of the workers 0 and 1
    """
    alone, workers = folder / "alone", folder / "workers"
    alone.mkdir()
    workers.mkdir()
    launch = [sys.executable, "-m", "returnn.launch", "-n", "2"]
    environ = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
    environ["OMP_NUM_THREADS"] = "1"
    for command in ([sys.executable, "-m", program, alone], [*launch, sys.executable, "-m", program, workers]):
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stderr[-2000:]

    def read(path: Path, rank: int, case: str) -> Any:
        return json.loads((path / f"{case}.{rank}.json").read_text())

    return {case: (read(alone, 0, case), read(workers, 0, case), read(workers, 1, case)) for case in cases}


def scores(folder: Path) -> str:
    """:return: the learning-rate file, without times"""
    return re.sub(r"':meta:[^,]*,\n", "", (folder / "rates").read_text())
