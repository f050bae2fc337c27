from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from returnn.datasets.util import tag_index
from returnn.datasets.util.tag_index import TagIndex

tag_lists = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=5), max_size=20
)


def make_index(tags, block_size=7):
    encoded = [tag.encode("utf8") for tag in tags]
    blocks = [np.array(encoded[start : start + block_size]) for start in range(0, len(tags), block_size)]
    return TagIndex(blocks, tags.__getitem__)


@given(tag_lists, st.text(max_size=3))
def test_finds_all_sequences_with_a_tag(tags, other):
    index = make_index(tags)
    for tag in [*tags, other]:
        assert index.find(tag) == [i for i, candidate in enumerate(tags) if candidate == tag]


@given(tag_lists)
def test_guess_is_right_where_it_is_unique(tags):
    index = make_index(tags)
    for tag, guess in zip(tags, index.guess(np.array([tag.encode() for tag in tags])), strict=True):
        assert guess == (tags.index(tag) if tags.count(tag) == 1 else -1)


def test_collisions_do_not_matter(monkeypatch):
    monkeypatch.setattr(tag_index, "_hash", lambda tags: np.zeros(len(tags), np.uint64))
    tags = ["a", "b", "c", "b"]
    index = make_index(tags)
    assert index.find("b") == [1, 3]
    assert index.find("x") == []
