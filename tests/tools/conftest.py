"""Scripts of the folder `tools`, run in this process."""

import importlib
from pathlib import Path

import pytest

from returnn.config import set_global_config
from returnn.log import log
from returnn.tools.command_line import run_tool
from returnn.tools.registry import tool_modules
from returnn.util.behavior_version import BehaviorVersion

TOOLS = Path(__file__).parent.parent.parent / "tools"


def load_tool(name):
    """:return: the module of a tool"""
    return importlib.import_module(tool_modules()[name.replace("_", "-")])


@pytest.fixture
def tool(capsys):
    """Runs a script with arguments: exit status, stdout, stderr."""

    def run(name, *args):
        module = load_tool(name)
        capsys.readouterr()
        status = run_tool(module.main, module.make_parser(), [str(arg) for arg in args])
        out, err = capsys.readouterr()
        return status, out, err

    BehaviorVersion.reset()
    yield run
    BehaviorVersion.reset()
    set_global_config(None)
    log.initialize(verbosity=[5])


@pytest.fixture
def config_file(tmp_path):
    """Writes a config."""

    def write(**options):
        path = tmp_path / "my.config"
        lines = [f"{key} = {value!r}\n" for key, value in options.items()]
        path.write_text("#!rnn.py\n" + "".join(lines), encoding="utf8")
        return path

    return write
