from __future__ import annotations

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from returnn.util.bpe import (
    BpeOpts,
    CharSyncSearch,
    DepthFirstSearch,
    PrefixTree,
    SamplingBytePairEncoder,
    StandardBytePairEncoder,
)
from returnn.util.errors import UserError

POSTFIX = BpeOpts(label_postfix_merge_symbol="@@")
PREFIX = BpeOpts(word_prefix_symbol="▁")
POSTFIX_LABELS = [char + end for char in "abc" for end in ("", "@@")] + ["ab@@", "abc", "bc@@", "ca", "aab"]
PREFIX_LABELS = ["▁", "▁a", "▁ab", "a", "b", "c", "bc", "cab"]
words = st.text(alphabet="abc", min_size=1, max_size=7)


def write_codes(path, *merges, version="0.2"):
    head = [f"#version: {version}"] if version else []
    path.write_text("\n".join([*head, *merges]) + "\n", encoding="utf-8")
    return str(path)


def joined(labels):
    return " ".join(labels).replace("@@ ", "")


def test_merges_are_applied_by_rank(tmp_path):
    encoder = StandardBytePairEncoder(write_codes(tmp_path / "codes", "l o", "lo w</w>", "e r</w>"))
    assert encoder.segment_sentence("low lower") == ["low", "lo@@", "w@@", "er"]


def test_version_0_1_has_the_word_end_as_a_symbol(tmp_path):
    encoder = StandardBytePairEncoder(write_codes(tmp_path / "codes", "l o", "w </w>", "lo w</w>", version=None))
    assert encoder.segment_sentence("low lo") == ["low", "lo"]


def test_labels_outside_of_the_vocabulary_are_split_back(tmp_path):
    codes = write_codes(tmp_path / "codes", "l o", "lo w</w>")
    encoder = StandardBytePairEncoder(codes, labels={"lo@@", "w"})
    assert encoder.segment_sentence("low") == ["lo@@", "w"]


@given(sentence=st.lists(words, max_size=5).map(" ".join), data=st.data())
def test_standard_split_joined_is_the_sentence(tmp_path_factory, sentence, data):
    merges = data.draw(st.lists(st.sampled_from(["a b", "b c</w>", "ab c", "c a", "ab c</w>", "a a"]), unique=True))
    path = write_codes(tmp_path_factory.mktemp("bpe") / "codes", *merges)
    assert joined(StandardBytePairEncoder(path).segment_sentence(sentence)) == sentence


def test_line_that_is_no_merge_is_an_error_with_its_number(tmp_path):
    path = write_codes(tmp_path / "codes", "l o", "low")
    with pytest.raises(UserError, match=r"codes', line 3: expected two symbols, got 'low'"):
        StandardBytePairEncoder(path)


def tree(labels, opts):
    root = PrefixTree(opts=opts)
    for label in labels:
        root.add(label)
    return root


@pytest.mark.parametrize(("labels", "opts"), [(POSTFIX_LABELS, POSTFIX), (PREFIX_LABELS, PREFIX)])
@given(word=words, seed=st.integers(0, 9))
def test_every_split_is_made_of_labels_and_joins_to_the_word(labels, opts, word, seed):
    splits = CharSyncSearch(tree(labels, opts), word).search()
    for split in splits:
        assert set(split) <= set(labels)
        assert "".join(split).replace("@@", "").replace("▁", "") == word
    assert len({tuple(split) for split in splits}) == len(splits)
    rnd = numpy.random.RandomState(seed)
    assert DepthFirstSearch(tree(labels, opts), word, sampler=lambda: rnd.uniform() < 0.5).search() in splits


def test_breadth_prob_goes_from_long_to_short_labels():
    def split(breadth_prob):
        rnd = numpy.random.RandomState(1)
        return SamplingBytePairEncoder(labels=POSTFIX_LABELS, breadth_prob=breadth_prob, rnd=rnd, opts=POSTFIX)

    assert split(0.0).segment_sentence("abc ca") == ["abc", "ca"]
    assert split(1.0).segment_sentence("abc ca") == ["a@@", "b@@", "c", "c@@", "a"]


def test_search_takes_another_way_where_the_preferred_one_ends():
    assert DepthFirstSearch(tree(["ab@@", "a@@", "bc"], POSTFIX), "abc").search() == ["a@@", "bc"]


def test_long_word_without_split_ends_soon():
    assert DepthFirstSearch(tree(["a@@", "aa@@", "aaa@@"], POSTFIX), "a" * 200).search() is None


def test_word_that_cannot_be_made_is_unknown_or_an_error():
    opts = {"labels": POSTFIX_LABELS, "breadth_prob": 0.0, "rnd": numpy.random.RandomState(1), "opts": POSTFIX}
    assert SamplingBytePairEncoder(**opts, unknown_label="<unk>").segment_sentence("xa b") == ["<unk>", "b"]
    with pytest.raises(UserError, match="cannot make the word 'xa', and there is no 'unknown_label'"):
        SamplingBytePairEncoder(**opts).segment_sentence("xa b")


def test_options_need_one_kind_of_mark():
    with pytest.raises(UserError, match="give one of 'label_postfix_merge_symbol'"):
        BpeOpts()
    assert BpeOpts("@@") == POSTFIX


def test_special_labels_stay_as_they_are(tmp_path):
    codes = write_codes(tmp_path / "codes", "< u", "l o")
    encoder = StandardBytePairEncoder(codes, special_labels=["<unk>"])
    assert encoder.segment_sentence("<unk> <unk lo") == ["<unk>", "<u@@", "n@@", "k", "l@@", "o"]
    sampling = SamplingBytePairEncoder(
        labels=["<@@", "unk@@", ">"],
        breadth_prob=0.0,
        rnd=numpy.random.RandomState(1),
        special_labels=["<unk>"],
        opts=POSTFIX,
    )
    assert sampling.segment_sentence("<unk> <unkunk>") == ["<unk>", "<@@", "unk@@", "unk@@", ">"]
