"""What a file is that should be a text."""

import zipfile

import pytest

from returnn.util.errors import UserError
from returnn.util.files.file_kind import is_checkpoint
from returnn.util.files.text_file import iter_lines, read_text


def test_a_zip_archive_is_no_text(tmp_path):
    path = tmp_path / "train.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.txt", bytes(range(256)) * 10)
    for read in (read_text, lambda name: list(iter_lines(name))):
        with pytest.raises(UserError, match=r"train.zip' is no text, but a zip archive\.$"):
            read(str(path))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x1f\x8b\x08\0", "is no text, but one that is compressed by gzip; then its name has to end with .gz."),
        ("ä".encode("utf-16"), "is no text, but UTF-16. Convert it"),
        (b"a\0\xff", "is no text, but a binary file."),
        ("ä".encode("latin1"), "line 1: not UTF-8, byte 0xe4"),
    ],
)
def test_other_files(content, said, tmp_path):
    path = tmp_path / "file.txt"
    path.write_bytes(content)
    with pytest.raises(UserError) as info:
        read_text(str(path))
    assert said in str(info.value)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        (b"a cat\0 sat\n", r"Without them: `tr -d '\000' < FILE`."),
        ("a cat".encode("utf-16le"), "It looks like UTF-16."),
    ],
)
def test_a_text_has_no_nul(line, hint, tmp_path):
    path = tmp_path / "file.txt"
    path.write_bytes(b"first\n" + line)
    with pytest.raises(UserError) as info:
        list(iter_lines(str(path)))
    assert f"line 2: has a NUL character in {line!r}, as no text has.\n  {hint}" in str(info.value)


def test_names_of_checkpoints(tmp_path):
    for name in ("net.001.index", "net.002.pt", "conformer", "conformer.pt"):
        (tmp_path / name).write_text("")
    assert is_checkpoint(str(tmp_path / "net.001.index"))
    assert is_checkpoint(str(tmp_path / "net.001"))
    assert is_checkpoint(str(tmp_path / "net.002"))
    assert not is_checkpoint(str(tmp_path / "net.003"))
    assert not is_checkpoint(str(tmp_path / "conformer"))  # a file with a name of its own
    assert not is_checkpoint(str(tmp_path))
