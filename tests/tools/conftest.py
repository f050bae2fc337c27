"""Scripts of the folder `tools`, run in this process."""

import importlib.util
import sys
from pathlib import Path

import pytest

from returnn.config import set_global_config
from returnn.log import log
from returnn.tools.command_line import run_tool
from returnn.util.behavior_version import BehaviorVersion

TOOLS = Path(__file__).parent.parent.parent / "tools"


def load_tool(name):
    """:return: the module of a script"""
    sys.path.insert(0, str(TOOLS))
    try:
        spec = importlib.util.spec_from_file_location(f"tool_{name.replace('-', '_')}", TOOLS / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(TOOLS))
    return module


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
