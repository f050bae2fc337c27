"""What is proposed in place of a file that is not there."""

import pytest

from returnn.util.files.near_files import hint_for_missing_file


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my").mkdir()
    for name in ("train.config", "data.py", "README"):
        (tmp_path / "my" / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("filename", "hint"),
    [
        ("my/trian.config", "\n  Did you mean 'my/train.config'?"),
        ("my/conformer.config", "\n  There is 'my/train.config'."),
        ("my/other.txt", ""),
        ("my/x", ""),
        ("my/train.config", ""),  # which cannot be read, then
        ("mine/train.config", "\n  There is no folder 'mine'."),
        ("my", "\n  Files in it: 'my/README', 'my/data.py', 'my/train.config'."),
    ],
)
def test_hint(folder, filename, hint):
    assert hint_for_missing_file(filename) == hint


def test_only_what_is_wanted_is_proposed(folder):
    assert hint_for_missing_file("my/conformer.config", is_wanted=lambda name: name.endswith(".py")) == ""
