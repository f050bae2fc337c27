"""A config in a folder, run by `returnn.launch` with two workers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent


class Launched:
    """`returnn.launch` with two workers."""

    def __init__(self, folder: Path, config: str, *options: str, restarts: int = 0) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "my.config").write_text(config)
        launch = [sys.executable, "-m", "returnn.launch", "-n", "2", "--max-restarts", str(restarts), "--end-s", "12"]
        environ = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
        environ["PYTHONPATH"] = str(ROOT)
        self.log = folder / "out"
        self._out = self.log.open("w")
        self.process = subprocess.Popen(
            [*launch, str(ROOT / "rnn.py"), "my.config", *options],
            cwd=folder,
            env=environ,
            stdout=self._out,
            stderr=subprocess.STDOUT,
        )

    def wait_for(self, text: str) -> None:
        end = time.monotonic() + 120
        while text not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.05)

    def worker(self, rank: int) -> int:
        """:return: its process"""
        for path in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                environ = (path / "environ").read_bytes().decode()
            except OSError:
                continue
            if parent == self.process.pid:
                task = next(line for line in environ.split("\0") if line.startswith("TF_CONFIG="))
                if json.loads(task.partition("=")[2])["task"]["index"] == rank:
                    return int(path.name)
        raise AssertionError(f"there is no worker {rank}: {self.log.read_text()}")

    def end(self, *, within_s: float = 100) -> tuple[int, str]:
        """:return: exit status, output"""
        status = self.process.wait(timeout=within_s)
        self._out.close()
        return status, self.log.read_text()


def scores(folder: Path) -> str:
    """:return: the learning-rate file, without times"""
    return re.sub(r"':meta:[^,]*,\n", "", (folder / "rates").read_text())
