"""Each small demo reaches what its head says, by the commands there; and the table of their README knows them all."""

import re
from pathlib import Path

import pytest

from returnn.engine.learning_rate_file import read_learning_rate_file
from returnn.engine.score_names import find_score

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "demos" / "small"
DEMOS = sorted(
    path.name for path in FOLDER.iterdir() if path.suffix in (".config", ".py") and path.stem != "small_data"
)
LIMIT_S = 900


@pytest.mark.slow
@pytest.mark.parametrize("name", DEMOS)
def test_reaches_what_it_says(name, tmp_path, fork_server):
    head = (FOLDER / name).read_text(encoding="utf8").split('"""')[1]
    commands = re.findall(r"^    python (.*)$", head, re.MULTILINE)
    ((measure, goal),) = re.findall(r"^Reaches: (\w+) <= ([\d.]+)$", head, re.MULTILINE)
    outputs = [run(command.split(), tmp_path, fork_server) for command in commands]
    for value in values_of(measure, tmp_path, outputs):
        assert value <= float(goal)


def run(command, folder, fork_server):
    """:return: what it printed"""
    command = [str(ROOT / part) if part.startswith("demos/") else part for part in command]
    return fork_server.run(folder, command, LIMIT_S, OMP_NUM_THREADS="1")  # for PyTorch: its threads would wait


def values_of(measure, folder, outputs):
    """:return: of the last epoch of each training, or as it was printed"""
    if measure.startswith("dev_"):
        files = list(folder.rglob("learning_rates"))
        epochs = [read_learning_rate_file(str(file)) for file in files]
        assert len(epochs) == sum("finished training" in output for output in outputs)
        last = [of_epoch[max(of_epoch)] for of_epoch in epochs]
        return [data.error[find_score(measure, data.error, data.as_error)] for data in last]
    (value,) = re.findall(rf"^(?:search: )?{measure}:? ([\d.]+)", outputs[-1], re.MULTILINE)
    return [float(value)]


def test_there_is_a_demo_of_each_kind_in_the_table():
    table = (FOLDER / "README.md").read_text(encoding="utf8")
    assert re.findall(r"^\| \[(\S+)\]\(\1\) \|", table, re.MULTILINE) == DEMOS
    for name in DEMOS:
        head = (FOLDER / name).read_text(encoding="utf8").split('"""')[1]
        (goal,) = re.findall(r"^Reaches: (.*)$", head, re.MULTILINE)
        (row,) = re.findall(rf"^\| \[{name}\].*$", table, re.MULTILINE)
        assert goal.replace("_", " ") in row.replace("_", " "), name
