"""What all scripts have: they start from anywhere, and each option has a sentence of help."""

import argparse
import subprocess
import sys

import pytest

from tests.tools.conftest import TOOLS, load_tool

NAMES = sorted(path.stem for path in TOOLS.glob("*.py") if not path.stem.startswith("_"))


@pytest.mark.parametrize("name", NAMES)
def test_help(name, capsys):
    parser = load_tool(name).make_parser()
    with pytest.raises(SystemExit) as raised:
        parser.parse_args(["--help"])
    assert raised.value.code == 0
    assert load_tool(name).__doc__.split("\n")[0][:40] in capsys.readouterr().out
    without_help = [action.dest for action in parser._actions if not action.help]
    assert not without_help
    assert isinstance(parser, argparse.ArgumentParser)


def test_a_script_starts_in_another_folder(tmp_path):
    command = [sys.executable, str(TOOLS / "dump-dataset.py"), "Task12AXDataset:num_seqs=2", "--get_num_seqs"]
    shown = subprocess.run([*command, "--verbosity", "1"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert shown.stdout == "2\n"


def test_all_scripts_are_documented():
    lines = (TOOLS.parent / "docs" / "tools.md").read_text(encoding="utf8").split("\n")
    documented = {
        line.split("|")[1].strip(" `"): line.split("|")[2].strip() for line in lines if line.startswith("| `")
    }
    assert documented == {f"{name}.py": load_tool(name).__doc__.split("\n")[0] for name in NAMES}
