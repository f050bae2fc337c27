"""What `docs/layers.md` says: its code runs, and its map of the modules is complete."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def page():
    return (ROOT / "docs" / "layers.md").read_text(encoding="utf8")


def test_its_code_runs(page):
    blocks = re.findall(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    assert blocks
    namespace = {"__name__": "layers_page"}
    for block in blocks:
        exec(compile(block, "docs/layers.md", "exec", dont_inherit=True), namespace)


def test_every_folder_is_on_the_map(page):
    folder = ROOT / "returnn" / "tf" / "layers"
    folders = {path.parent.name for path in folder.glob("*/__init__.py")}
    _, _, table = page.partition("## Where things are")
    named = re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)
    assert sorted(named) == sorted(folders)


def test_files_exist(page):
    for name in re.findall(r"`((?:returnn|tests)/[\w/.]+)`", page):
        assert (ROOT / name).exists(), name
