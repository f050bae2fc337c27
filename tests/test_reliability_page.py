"""The page of promises names the tests that hold them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf8")
PROMISES = [row.split("|")[1:-1] for row in re.findall(r"^\|.*\|$", PAGE, flags=re.M) if not set(row) <= set("|- ")]
PROMISES = [cells for cells in PROMISES if cells[0].strip() != "promise"]


def test_there_are_promises():
    assert len(PROMISES) > 30


@pytest.mark.parametrize(("promise", "tests"), PROMISES, ids=[cells[0].strip()[:40] for cells in PROMISES])
def test_each_promise_has_a_test(promise, tests):
    paths = re.findall(r"`(tests/[\w/.]+)`", tests)
    assert paths, f"no test is named for: {promise.strip()}"
    for path in paths:
        assert (ROOT / path).exists(), path
    for name, path in re.findall(r"`(test_\w+)` in `(tests/[\w/.]+)`", tests):
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf8"), name


def test_all_files_are_there():
    for path in re.findall(r"`((?:tests|benchmarks|docs)/[\w/.]+\.\w+)`", PAGE):
        assert (ROOT / path).exists(), path
