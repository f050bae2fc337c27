"""All documented flags are there."""

import pytest

from tests.tools.conftest import load_tool
from tests.tools.documented_flags import DOCUMENTED_FLAGS


@pytest.mark.parametrize("name", DOCUMENTED_FLAGS)
def test_documented_flags_are_known(name):
    parser = load_tool(name).make_parser()
    known = {flag for action in parser._actions for flag in action.option_strings}
    assert set(DOCUMENTED_FLAGS[name].split()) <= known
