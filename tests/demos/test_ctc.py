"""The demo with CTC, by its commands: it trains, evaluates, decodes, scores and exports."""

import os
import re
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.mark.slow
def test_commands_of_the_config(tmp_path):
    with open(os.path.join(ROOT, "demos", "ctc", "ctc.config"), encoding="utf8") as file:
        commands = re.findall(r"^    python (.*?)(?: +#.*)?$", file.read(), flags=re.MULTILINE)
    assert len(commands) == 5
    outputs = [run(command.split(), tmp_path) for command in commands]
    assert "finished training at epoch 10" in outputs[0]
    assert "dev: error output " in outputs[1]
    for output in outputs[2:4]:
        (rate,) = re.findall(r"^(?:search: )?WER ([\d.]+)% \(.*; 108 words\)", output, flags=re.MULTILINE)
        assert float(rate) < 5
    assert "output decision: " in outputs[4]
    assert (tmp_path / "ctc" / "graph.pb").exists()


def run(command, folder):
    is_file = [part.startswith(("rnn.py", "demos/", "tools/")) for part in command]
    command = [os.path.join(ROOT, part) if is_ours else part for part, is_ours in zip(command, is_file, strict=True)]
    result = subprocess.run(
        [sys.executable, *command], cwd=folder, timeout=600, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout
    return result.stdout
