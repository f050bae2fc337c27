from __future__ import annotations

import gzip
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from returnn.datasets.util.allophone import AllophoneState, StateTying
from returnn.datasets.util.lexicon import Lexicon, PhoneSeqGenerator
from returnn.util.errors import ConfigError, UserError

LEXICON = """<?xml version="1.0" encoding="utf-8"?>
<lexicon>
  <phoneme-inventory>
    <phoneme><symbol>SIL</symbol><variation>none</variation></phoneme>
    <phoneme><symbol>a</symbol></phoneme>
    <phoneme><symbol>b</symbol></phoneme>
    <phoneme><symbol>c</symbol></phoneme>
  </phoneme-inventory>
  <lemma special="silence"><orth>[SILENCE]</orth><orth/><phon>SIL</phon></lemma>
  <lemma><orth>ab</orth><phon score="0.1">a b</phon><phon score="3">b a</phon></lemma>
  <lemma><orth>c</orth><phon>c</phon></lemma>
</lexicon>
"""
NO_SILENCE = {"add_silence_beginning": 0, "add_silence_between_words": 0, "add_silence_end": 0}
NO_CHANCE = {**NO_SILENCE, "repetition": 0, "silence_repetition": 0, "phon_pick_strategy": "first"}


def write(path, content):
    path.write_text(content, encoding="utf-8")
    return str(path)


@pytest.fixture
def lexicon_file(tmp_path):
    return write(tmp_path / "lexicon.xml", LEXICON)


@pytest.mark.parametrize("is_compressed", [False, True])
def test_lexicon(tmp_path, lexicon_file, is_compressed):
    if is_compressed:
        lexicon_file = tmp_path / "lexicon.xml.gz"
        lexicon_file.write_bytes(gzip.compress(LEXICON.encode()))
    lexicon = Lexicon(str(lexicon_file))
    assert lexicon.phoneme_list == ["SIL", "a", "b", "c"]
    assert lexicon.phonemes["SIL"] == {"index": 0, "symbol": "SIL", "variation": "none"}
    assert lexicon.lemmas["ab"] == {
        "orth": "ab",
        "phons": [{"phon": "a b", "score": 0.1}, {"phon": "b a", "score": 3.0}],
    }


def test_states_in_context(lexicon_file):
    generator = PhoneSeqGenerator(lexicon_file=lexicon_file, allo_num_states=2, **NO_CHANCE)
    seq = generator.generate_seq("ab c")
    assert [phone.format() for phone in seq] == [
        "a{#+b}@i.0",
        "a{#+b}@i.1",
        "b{a+c}@f.0",
        "b{a+c}@f.1",
        "c{b+#}@i@f.0",
        "c{b+#}@i@f.1",
    ]
    labels = generator.get_class_labels()
    assert [labels[i] for i in generator.seq_to_class_idxs(seq)] == ["a.0", "a.1", "b.0", "b.1", "c.0", "c.1"]


def test_silence_has_one_state_and_is_no_context(lexicon_file):
    opts = {**NO_CHANCE, "add_silence_between_words": 1}
    seq = PhoneSeqGenerator(lexicon_file=lexicon_file, allo_num_states=1, **opts).generate_seq("c c")
    assert [phone.format() for phone in seq] == ["c{#+#}@i@f.0", "SIL{#+#}@i@f.0", "c{#+#}@i@f.0"]


def test_same_seed_same_sequence(lexicon_file):
    generator = PhoneSeqGenerator(lexicon_file=lexicon_file)

    def draw(seed):
        generator.random_seed(seed)
        return [generator.generate_seq("ab c ab"), generator.generate_garbage_seq(23), generator.orth_to_phones("ab c")]

    assert draw(1) == draw(1) != draw(2)
    assert len(draw(1)[1]) == 23


def test_random_words_are_those_with_a_pronunciation(tmp_path):
    more = "<lemma special='unknown'><orth>[UNKNOWN]</orth></lemma><lemma><orth>c ab</orth><phon>c a b</phon></lemma>"
    lexicon_file = write(tmp_path / "lexicon.xml", LEXICON.replace("</lexicon>", f"{more}</lexicon>"))
    generator = PhoneSeqGenerator(lexicon_file=lexicon_file, allo_num_states=1, allo_context_len=0, **NO_CHANCE)
    names = "".join(state.id for state in generator.generate_garbage_seq(400))
    assert {"cab", "SIL"} <= set(re.findall("cab|SIL|ab|c", names))


def test_likely_pronunciations_are_drawn_more_often(lexicon_file):
    generator = PhoneSeqGenerator(lexicon_file=lexicon_file, **NO_SILENCE)
    drawn = [generator.orth_to_phones("ab") for _ in range(200)]
    assert 1 <= drawn.count("b a") < 40


def test_extra_lemmas(lexicon_file):
    lemma = {"phons": [{"phon": "b b"}]}
    generator = PhoneSeqGenerator(
        lexicon_file=lexicon_file, extra_begin_lemma=lemma, extra_end_lemma=lemma, **NO_CHANCE
    )
    assert generator.orth_to_phones("c") == "b b c b b"


def test_phoneme_vocab_gives_phones_alone(tmp_path, lexicon_file):
    vocab = write(tmp_path / "vocab", "c\na\nb\nSIL\n")
    generator = PhoneSeqGenerator(lexicon_file=lexicon_file, phoneme_vocab_file=vocab, **NO_CHANCE)
    assert generator.seq_to_class_idxs(generator.generate_seq("ab c"), dtype="int8").tolist() == [1, 2, 0]


def test_state_tying_gives_classes(tmp_path, lexicon_file):
    tying = write(tmp_path / "tying", "a{#+b}@i.0 0\nb{a+#}@f.0 1\nSIL{#+#}@i@f.0 1\n")
    generator = PhoneSeqGenerator(lexicon_file=lexicon_file, state_tying_file=tying, allo_num_states=1, **NO_CHANCE)
    assert generator.seq_to_class_idxs(generator.generate_seq("ab")).tolist() == [0, 1]
    assert generator.get_class_labels() == ["a{#+b}@i.0", "SIL{#+#}@i@f.0|b{a+#}@f.0"]
    with pytest.raises(UserError, match=r"no class for the state 'c\{#\+#\}@i@f.0'"):
        generator.seq_to_class_idxs(generator.generate_seq("c"))


def test_wrong_input_is_named(tmp_path, lexicon_file):
    generator = PhoneSeqGenerator(lexicon_file=lexicon_file)
    with pytest.raises(UserError, match="The lexicon has no lemma 'xyz'"):
        generator.generate_seq("ab xyz")
    with pytest.raises(ConfigError, match="there is no phon_pick_strategy 'rand'"):
        PhoneSeqGenerator(lexicon_file=lexicon_file, phon_pick_strategy="rand")
    with pytest.raises(UserError, match=r"lexicon '.*broken', line 1: "):
        Lexicon(write(tmp_path / "broken", "<lexicon>"))
    with pytest.raises(UserError, match=r"lemma \['c'\]: there is no phoneme 'd'"):
        Lexicon(write(tmp_path / "phoneme", LEXICON.replace("<phon>c<", "<phon>d<")))
    with pytest.raises(UserError, match=r"empty': it has 0 lemmas and 0 phonemes"):
        Lexicon(write(tmp_path / "empty", "<lexicon/>"))
    with pytest.raises(UserError, match=r"tying', line 1: expected a state and its class, got 'a b c'"):
        StateTying(write(tmp_path / "tying", "a b c"))
    with pytest.raises(UserError, match="there is no state in the class 1"):
        StateTying(write(tmp_path / "tying", "a 0\nb 2"))


phones = st.sampled_from("abc")


@st.composite
def allophone_states(draw, context_length):
    allophone = AllophoneState(draw(phones), state=draw(st.integers(0, 2)))
    allophone.context_history = tuple(draw(st.lists(phones, max_size=context_length)))
    allophone.context_future = tuple(draw(st.lists(phones, max_size=context_length)))
    allophone.boundary = draw(st.integers(0, 3))
    return allophone


@pytest.mark.parametrize("context_length", [0, 1, 2])
@given(data=st.data())
def test_index_there_and_back(context_length, data):
    allophone = data.draw(allophone_states(context_length))
    index = allophone.index({"a": 0, "b": 1, "c": 2}, context_length=context_length)
    assert AllophoneState.from_index(index, {0: "a", 1: "b", 2: "c"}, context_length=context_length) == allophone
    assert allophone.copy() == allophone


def test_classic_index():
    allophones = {0: AllophoneState("a"), 1: AllophoneState("b")}
    assert AllophoneState.from_classic_index(3, allophones) == AllophoneState("b", state=1)
    with pytest.raises(UserError, match="Allophone state 12 is out of range: 2 with 6 states each"):
        AllophoneState.from_classic_index(12, allophones)
