"""What the README says can be done."""

import os
import re

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@pytest.fixture(scope="module")
def readme():
    with open(os.path.join(ROOT, "README.md"), encoding="utf8") as file:
        return file.read()


def test_its_files_and_tasks_exist(readme):
    names = re.findall(r"\]\(([\w/.]+)\)|`((?:demos|docs|benchmarks)/[\w/.-]*)`", readme)
    assert names
    for name in (link or code for link, code in names):
        assert os.path.exists(os.path.join(ROOT, name)), name


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "demos/README.md", "demos/small/README.md"])
def test_links_lead_somewhere(page):
    folder = os.path.dirname(os.path.join(ROOT, page))
    with open(os.path.join(ROOT, page), encoding="utf8") as file:
        names = re.findall(r"\]\((?!https?:)([^)#]+)", file.read())
    assert names
    for name in names:
        assert os.path.exists(os.path.join(folder, name)), name


@pytest.mark.slow
def test_first_config_trains_and_its_commands_work(readme, tmp_path, fork_server):
    (config,) = re.findall(r"```python\n(#!rnn\.py.*?)```", readme, flags=re.DOTALL)
    (tmp_path / "first.config").write_text(config.replace("num_epochs = 5", "num_epochs = 1"))
    commands = re.findall(r"^    python rnn\.py (first\.config.*?)(?: *#.*)?$", readme, flags=re.MULTILINE)
    assert len(commands) == 4
    for command in [commands[1], commands[0], *commands[2:]]:
        fork_server.run(tmp_path, ["rnn.py", *command.split()], has_curve=True)
    assert (tmp_path / "first" / "learning_curve.png").exists()
    assert (tmp_path / "first.hdf").exists()
