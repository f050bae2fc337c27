"""What all scripts have: they start from anywhere, and each option has a sentence of help."""

import argparse
import subprocess
import sys

import pytest

from returnn.__main__ import main
from returnn.tools.registry import tool_modules
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


def test_each_tool_has_a_script():
    assert sorted(name.replace("_", "-") for name in NAMES) == list(tool_modules())


DATA = "Task12AXDataset:num_seqs=2"
WAYS = {
    "argument": [DATA],
    "option --config": ["--config", DATA],
    "option --dataset": ["--dataset", DATA],
    "option of the config": ["{config}", "++train", DATA_DICT := "{'class': 'Task12AXDataset', 'num_seqs': 2}"],
    "dict": ["--dataset", DATA_DICT],
}


@pytest.mark.parametrize("way", WAYS)
def test_data_is_given_in_the_same_way_to_all_tools(way, tool, config_file, tmp_path):
    config = config_file(num_epochs=1)
    given = [part.replace("{config}", str(config)) for part in WAYS[way]]
    num = next((i for i, part in enumerate(given) if part.startswith("++")), len(given))
    wanted, options = given[:num], given[num:]
    assert tool("dump-dataset", *wanted, "--get_num_seqs", "--verbosity", "1", *options)[:2] == (0, "2\n")
    out = [tmp_path / "out.hdf"]
    wanted = out + wanted if way.startswith("option --") else wanted + out
    assert tool("hdf_dump", *wanted, *options)[0] == 0
    status, shown, _ = tool("dump-dataset", tmp_path / "out.hdf", "--get_num_seqs", "--verbosity", "1")
    assert (status, shown) == (0, "2\n")


def test_config_that_is_missing_or_given_twice(tool):
    assert tool("compile_tf_graph")[2] == "error: a config is required: as the first argument, or with '--config'.\n"
    assert tool("compile_tf_graph", "a.config", "--config", "b.config")[2] == (
        "error: option '--config': 'b.config' and 'a.config' are given. One of them is enough.\n"
        "  To join both: --config a.config --config b.config\n"
    )
    assert tool("tf_inspect_checkpoint")[2] == (
        "error: a checkpoint is required: as the first argument, or with '--file_name'.\n"
    )
    assert tool("bliss-dump-text", "a.xml", "++num_epochs", "1")[2] == (
        "error: ++num_epochs 1: this tool has no config that could have an option.\n"
    )


def test_several_configs_are_joined(tool, config_file, tmp_path):
    first = config_file(train={"class": "Task12AXDataset", "num_seqs": 3}, batch_size=1000)
    second = tmp_path / "second.config"
    second.write_text("#!rnn.py\ntrain['num_seqs'] = 5\n", encoding="utf8")
    third = tmp_path / "third.config"
    third.write_text("#!rnn.py\ndev = {**train, 'num_seqs': 7}\n", encoding="utf8")
    configs = ("--config", first, "--config", second, "--config", third)
    for data, num in (("train", 5), ("dev", 7)):
        status, out, err = tool("analyze-dataset-batches", *configs, "--dataset", data)
        assert (status, err) == (0, "")
        assert f"{num} sequences" in out
    status, _, err = tool("analyze-dataset-batches", "--config", first, "--config", tmp_path / "none.config")
    assert status == 1
    assert "none.config" in err


def test_list_of_tools(capsys):
    assert main(["rnn.py", "tool", "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[3:]] == list(tool_modules())
    assert main(["rnn.py", "tool", "scor"]) == 1
    assert capsys.readouterr().err == "error: returnn tool: there is no tool 'scor'.\n  Did you mean 'score'?\n"


def test_all_scripts_are_documented():
    lines = (TOOLS.parent / "docs" / "tools.md").read_text(encoding="utf8").split("\n")
    documented = {
        line.split("|")[1].strip(" `"): line.split("|")[2].strip() for line in lines if line.startswith("| `")
    }
    assert documented == {f"{name}.py": load_tool(name).__doc__.split("\n")[0] for name in NAMES}


def test_a_config_that_would_be_taken_for_another_argument(tool, tmp_path):
    (tmp_path / "my.config").write_text("#!rnn.py\n")
    status, _, err = tool("torch_export_to_onnx", tmp_path / "my.config", tmp_path / "new.onnx")
    assert status == 1
    assert err.startswith(f"error: too few arguments: {str(tmp_path / 'my.config')!r} would be 'checkpoint'.")
