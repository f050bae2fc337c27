"""Single numbers in binary files."""

import io

import pytest

from returnn.util.errors import UserError
from returnn.util.files.binary_numbers import BinaryNumbers


class InMemory(BinaryNumbers):
    filename = "numbers"

    def __init__(self):
        self.f = io.BytesIO()


NUMBERS = {"char": -3, "u32": 2**32 - 1, "U32": 2**31, "u64": 2**64 - 1, "f32": 0.25, "f64": 0.1}


def test_single_numbers_are_read_as_they_were_written():
    archive = InMemory()
    begin = archive.f.tell()
    for name, value in NUMBERS.items():
        getattr(archive, f"write_{name}")(value)
    archive.write_str("grün", "utf8")
    archive.f.seek(begin)
    assert {name: getattr(archive, f"read_{name}")() for name in NUMBERS} == NUMBERS
    assert archive.read_str(5, "utf8") == "grün"
    archive.f.seek(begin)
    assert archive.read_U8() == 256 - 3
    assert archive.read_v("B", 3) == (255, 255, 255)
    archive.f.seek(begin + 1)
    assert archive.read_S16() == -1
    assert archive.read_bytes(2) == b"\xff\xff"
    with pytest.raises(UserError, match="bytes too early"):
        archive.read_bytes(100)
