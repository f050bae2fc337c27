"""What `docs/behavior_version.md` says, and that whatever people copy from has the newest version."""

import re
from pathlib import Path

import pytest

from returnn.util.behavior_version import BehaviorVersion

ROOT = Path(__file__).resolve().parent.parent
NEWEST = BehaviorVersion._latest_behavior_version
PAGE = (ROOT / "docs" / "behavior_version.md").read_text(encoding="utf8")


def test_each_version_that_changes_something_is_on_the_page():
    text = "".join(path.read_text(encoding="utf8") for path in (ROOT / "returnn").rglob("*.py"))
    used = {int(number) for number in re.findall(r"BehaviorVersion\.get\(\) (?:>=|<) (\d+)(?! .*or says)", text)}
    used |= {int(number) + 1 for number in re.findall(r"BehaviorVersion\.get\(\) <= (\d+)", text)}
    used |= {int(number) + 1 for number in re.findall(r"default_false_for_behavior_version_up_to=(\d+)", text)}
    used |= {int(number) for number in re.findall(r"BehaviorVersion\.require\(.*, (\d+)\)", text)}
    assert len(used) > 8
    assert {int(number) for number in re.findall(r"^\| (\d+) \|", PAGE, flags=re.MULTILINE)} == used
    assert f"behavior_version = {NEWEST}\n" in PAGE


def configs():
    """:return: name -> text of each config that people begin with"""
    found = {path.name: path.read_text(encoding="utf8") for path in (ROOT / "demos").rglob("*.config")}
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        blocks = re.findall(r"^```python\n(#!rnn\.py.*?)^```", page.read_text("utf8"), flags=re.DOTALL | re.MULTILINE)
        found.update({f"{page.name} {number}": block for number, block in enumerate(blocks)})
    return found


@pytest.mark.parametrize("name", configs())
def test_new_configs_have_the_newest(name):
    assert re.findall(r"^behavior_version = (\d+)", configs()[name], flags=re.MULTILINE) == [str(NEWEST)]
