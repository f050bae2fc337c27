"""All documented flags are there."""

import pytest

from returnn.tools.registry import tool_modules
from returnn.util.system.command_parser import CommandParser
from tests.tools.conftest import load_tool
from tests.tools.documented_flags import DOCUMENTED_FLAGS


@pytest.mark.parametrize("name", DOCUMENTED_FLAGS)
def test_documented_flags_are_known(name):
    parser = load_tool(name).make_parser()
    known = {flag for action in parser._actions for flag in action.option_strings}
    assert set(DOCUMENTED_FLAGS[name].split()) <= known


@pytest.mark.parametrize("name", tool_modules())
def test_a_mistake_is_said_in_two_lines(name, capsys):
    parser = load_tool(name).make_parser()
    assert isinstance(parser, CommandParser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--no-such-option"])
    assert capsys.readouterr().err.count("\n") == 2
