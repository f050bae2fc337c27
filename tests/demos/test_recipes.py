"""The demos by the commands in the heads of their configs: each trains, evaluates, decodes, scores and exports."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@dataclass(frozen=True)
class Recipe:
    """What a demo has to reach, and where."""

    config: str
    folder: str
    num_epochs: int
    num_words: int
    highest_wer: float  # percent


RECIPES = [
    Recipe("ctc/ctc.config", "ctc", 10, 108, 5.0),
    Recipe("attention_speech/attention.config", "attention", 20, 108, 20.0),
    Recipe("translation/translation.config", "translation", 6, 1917, 5.0),
]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.folder)
def test_commands_of_the_config(recipe, tmp_path):
    with open(os.path.join(ROOT, "demos", recipe.config), encoding="utf8") as file:
        commands = [line.split() for line in re.findall(r"^    python (.*?)(?: +#.*)?$", file.read(), re.MULTILINE)]
    assert len(commands) == 5
    outputs = [run([*commands[0], "++num_epochs", str(recipe.num_epochs)], tmp_path)]
    outputs += [run(command, tmp_path) for command in commands[1:]]
    assert f"finished training at epoch {recipe.num_epochs}" in outputs[0]
    assert "dev: error " in outputs[1]
    assert "search: wrote " in outputs[2]
    (rate,) = re.findall(rf"^WER ([\d.]+)% \(.*; {recipe.num_words} words\)", outputs[3], flags=re.MULTILINE)
    assert float(rate) < recipe.highest_wer
    assert "Each reference ends with" not in outputs[2] + outputs[3]
    assert "output decision: " in outputs[4]
    assert (tmp_path / recipe.folder / "graph.pb").exists()


def run(command, folder):
    is_file = [part.startswith(("rnn.py", "demos/", "tools/")) for part in command]
    command = [os.path.join(ROOT, part) if is_ours else part for part, is_ours in zip(command, is_file, strict=True)]
    result = subprocess.run(
        [sys.executable, *command], cwd=folder, timeout=900, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout
    return result.stdout
