"""Bliss files, as they are read by data sets and tools."""

import gzip

import pytest

from returnn.datasets.util.bliss import iter_bliss
from returnn.util.errors import UserError

BLISS = """<?xml version="1.0" encoding="{encoding}"?>
<corpus name="c"><recording name="r" audio="r.wav">
<segment name="s" start="0" end="1"><orth>grüße</orth></segment>
</recording></corpus>
"""


@pytest.mark.parametrize("name", ["c.xml", "c.xml.gz"])
@pytest.mark.parametrize("encoding", ["utf8", "UTF8", "utf-8", "UTF-8", "latin1", "iso-8859-1", "cp1252"])
def test_names_of_encodings(tmp_path, encoding, name):
    content = BLISS.format(encoding=encoding).encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    (segment,) = iter_bliss(str(tmp_path / name))
    assert segment.orth == "grüße"


def test_another_encoding_than_it_says(tmp_path):
    path = tmp_path / "c.xml"
    path.write_bytes(BLISS.format(encoding="utf8").encode("latin1"))
    with pytest.raises(UserError) as info:
        list(iter_bliss(str(path)))
    assert str(info.value) == f"Bliss file {str(path)!r}, line 3: not well-formed (invalid token), in column 44."
