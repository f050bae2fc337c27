"""Types, where they are checked; see `[tool.mypy]` of `pyproject.toml`."""

import subprocess
import sys
from pathlib import Path


def test_types(tmp_path):
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
