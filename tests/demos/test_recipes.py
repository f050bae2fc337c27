"""The demos by the commands in the heads of their configs: each trains, evaluates, decodes, scores and exports."""

import os
import re
from dataclasses import dataclass

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT_S = 900


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
def test_commands_of_the_config(recipe, tmp_path, fork_server):
    with open(os.path.join(ROOT, "demos", recipe.config), encoding="utf8") as file:
        commands = [line.split() for line in re.findall(r"^    python (.*?)(?: +#.*)?$", file.read(), re.MULTILINE)]
    assert len(commands) == 5
    commands[0] += ["++num_epochs", str(recipe.num_epochs)]
    outputs = [fork_server.run(tmp_path, with_paths(command), LIMIT_S) for command in commands]
    assert f"finished training at epoch {recipe.num_epochs}" in outputs[0]
    assert "dev: error " in outputs[1]
    assert "search: wrote " in outputs[2]
    (rate,) = re.findall(rf"^WER ([\d.]+)% \(.*; {recipe.num_words} words\)", outputs[3], flags=re.MULTILINE)
    assert float(rate) < recipe.highest_wer
    assert "Each reference ends with" not in outputs[2] + outputs[3]
    assert "output decision: " in outputs[4]
    assert (tmp_path / recipe.folder / "graph.pb").exists()


def with_paths(command):
    """:return: whose configs are those of the checkout"""
    return [os.path.join(ROOT, part) if part.startswith("demos/") else part for part in command]
