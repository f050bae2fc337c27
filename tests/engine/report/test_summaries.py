"""Curves for TensorBoard."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import sys
from returnn.engine.report.summaries import Summaries

summaries = Summaries(sys.argv[1])
summaries.write_evaluation("dev", {"loss:output": 1.0}, step=2)
summaries.close()
print("tensorflow" in sys.modules)
"""


def test_curves_do_not_import_tensorflow(tmp_path):
    pytest.importorskip("tensorboard")
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path], capture_output=True, text=True, check=True, timeout=300
    )
    assert (run.stdout, run.stderr) == ("False\n", "")
    assert len(os.listdir(tmp_path / "dev")) == 1
