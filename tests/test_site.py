"""The documentation as a site: it is built without a warning, and the code of its pages runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import returnn.frontend as rf
from returnn.config import set_global_config
from returnn.log import log
from returnn.util.backend_engine import BackendEngine

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    "concepts/beams", "concepts/dims", "concepts/loops", "models_in_python", "net_dict_frontend", "running",
    "tutorial/alignments", "tutorial/decoding", "tutorial/finding_errors", "tutorial/first_model",
    "tutorial/your_own_data",
]  # fmt: skip
ELSEWHERE = {"layers", "python", "architecture"}  # they have tests of their own, or, the last one, a sketch


def blocks_of(page):
    """:return: blocks of Python of a page of docs"""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf8")
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture
def run_in_empty_folder(tmp_path, monkeypatch):
    """What runs leave behind in the process is put back."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    before = BackendEngine.selected_engine
    yield
    set_global_config(None)
    BackendEngine.selected_engine = before
    rf.select_backend_numpy()
    log.initialize(verbosity=[5])


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_its_code_runs(page, run_in_empty_folder):
    namespace = {"__name__": page}
    for block in blocks_of(page):
        exec(compile(block, f"docs/{page}.md", "exec", dont_inherit=True), namespace)


def test_all_pages_with_code_are_run():
    pages = {str(path.relative_to(ROOT / "docs").with_suffix("")) for path in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if blocks_of(page)} == {*PAGES, *ELSEWHERE}


@pytest.mark.slow
def test_site_is_built_without_warnings(tmp_path):
    pytest.importorskip("mkdocs")
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # an advertisement of the theme's authors
    result = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    page = (tmp_path / "site" / "reference" / "layers" / "index.html").read_text(encoding="utf8")
    assert 'id="choice"' in page
    assert "https://fonts." not in page
