"""
The recorded cases: what a net dict means, as numbers.

`pending.txt` lists the cases which do not pass yet. A case that passes must not stand there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import golden

FOLDER = Path(__file__).parent
PENDING = set((FOLDER / "pending.txt").read_text().split())


def _cases():
    for path in golden.iter_cases([str(FOLDER / "cases")]):
        name = str(Path(path).relative_to(FOLDER / "cases").with_suffix(""))
        marks = [pytest.mark.xfail(strict=True, reason="pending")] if name in PENDING else []
        yield pytest.param(path, id=name, marks=marks)


@pytest.mark.filterwarnings("ignore")  # the cases are recorded as they are, also with names that TensorFlow deprecates
@pytest.mark.parametrize("path", list(_cases()))
def test_recorded_case(path):
    golden.check_case(path)


def test_pending_cases_exist():
    names = {str(Path(p).relative_to(FOLDER / "cases").with_suffix("")) for p in golden.iter_cases([str(FOLDER / "cases")])}
    assert names >= PENDING
