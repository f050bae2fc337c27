"""Scripts about corpora and lexica."""

import string

import pytest

from returnn.datasets.util.lexicon import Lexicon

BLISS = """<?xml version="1.0" encoding="utf8"?>
<corpus name="c">
  <recording name="1A" audio="1.wav">
    <segment name="a" start="0" end="1.5"><orth> hello world </orth></segment>
    <segment name="b" start="4" end="5"><orth>hello</orth></segment>
  </recording>
  <recording name="1B" audio="1.wav">
    <segment name="a" start="1.5" end="3"><orth>new world</orth></segment>
  </recording>
</corpus>
"""


@pytest.fixture
def bliss(tmp_path):
    path = tmp_path / "corpus.xml"
    path.write_text(BLISS, encoding="utf8")
    return path


def test_texts(tool, bliss):
    assert tool("bliss-dump-text", bliss) == (0, "hello world\nhello\nnew world\n", "")
    bliss.write_text("<corpus>")
    assert tool("bliss-dump-text", bliss)[2].startswith(f"error: Bliss file '{bliss}', line 1: ")


def test_durations(tool, bliss, tmp_path):
    out = tmp_path / "lens.py"
    assert tool("bliss-collect-seq-lens", bliss, "--output", out)[0] == 0
    assert eval(out.read_text()) == {"c/1A/a": 1.5, "c/1A/b": 1.0, "c/1B/a": 1.5}
    bliss.write_text(BLISS.replace('end="5"', 'end="inf"'))
    assert tool("bliss-collect-seq-lens", bliss, "--output", out)[2] == (
        "error: Bliss segment 'c/1A/b': has no 'end', so its duration is not known.\n"
    )


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ([], ["c/1A/a", "c/1A/b", "c/1B/a"]),
        (["--merge_segs_up_to_time", 10], ["c/1A/a;c/1A/b", "c/1B/a"]),
        (["--merge_segs_up_to_time", 2], ["c/1A/a", "c/1A/b", "c/1B/a"]),
        (["--merge_swb_ab", "--sort_by_time"], ["c/1A/a", "c/1B/a", "c/1A/b"]),
        (["--merge_swb_ab", "--merge_segs_up_to_time", 3], ["c/1A/a;c/1B/a", "c/1A/b"]),
    ],
)
def test_segment_names(tool, bliss, options, names):
    assert tool("bliss-get-segment-names", bliss, *options)[1].split() == names
    assert eval(tool("bliss-get-segment-names", bliss, *options, "--output_type", "py")[1]) == names


def test_subset_of_segments(tool, bliss, tmp_path):
    (tmp_path / "subset").write_text("c/1B/a\n")
    assert tool("bliss-get-segment-names", bliss, "--subset_segment_file", tmp_path / "subset")[1] == "c/1B/a\n"


def test_bpe_lexicon(tool, tmp_path):
    words, labels, out = tmp_path / "words", tmp_path / "labels", tmp_path / "lexicon.xml.gz"
    words.write_text("{'abc': 0, '[NOISE]': 1, 'C': 2}")
    labels.write_text("{'a@@': 0, 'b@@': 1, 'c': 2, 'ab@@': 3, 'bc': 4, '<unk>': 5}")
    options = ["--word_vocab", words, "--bpe_vocab", labels]
    assert tool("bpe-create-lexicon", *options)[2] == (
        "error: the word '[NOISE]' cannot be made of the BPE labels.\n  '--unk LABEL' gives such words a label.\n"
    )
    assert tool("bpe-create-lexicon", *options, "--skip_special", "--lower_case", "--output", out)[0] == 0
    lexicon = Lexicon(str(out))
    phons = {orth: [phon["phon"] for phon in lemma["phons"]] for orth, lemma in lexicon.lemmas.items()}
    assert phons == {"abc": ["a@@ bc", "ab@@ c", "a@@ b@@ c"], "C": ["c"]}
    assert "<phon>&lt;unk&gt;</phon>" in tool("bpe-create-lexicon", *options, "--unk", "<unk>")[1]


def test_words(tool, bliss, tmp_path):
    assert tool("collect-words", bliss)[1] == "2\thello\n2\tworld\n1\tnew\n5 words, 3 different ones\n"
    (tmp_path / "text").write_text("a b a\n")
    assert tool("collect-words", tmp_path / "text", "--dump_orth")[1].startswith("a b a\n2\ta\n1\tb\n")
    lexicon = tmp_path / "lexicon.xml"
    phoneme = "<phoneme-inventory><phoneme><symbol>h</symbol></phoneme></phoneme-inventory>"
    lemmas = "".join(f"<lemma><orth>{word}</orth><phon>h</phon></lemma>" for word in ("hello", "world"))
    lexicon.write_text(f"<lexicon>{phoneme}{lemmas}</lexicon>")
    out = tool("collect-words", bliss, "--lexicon", lexicon)[1]
    assert "1\tnew\tnot in the lexicon\n" in out
    assert out.endswith("not in the lexicon: 1 different word, 20.00% of all\n")


def test_symbols(tool, bliss, tmp_path):
    out = tmp_path / "symbols"
    bliss.write_text(BLISS.replace("new", "(n3w)"))
    none = ["--add_numbers", 0, "--add_lower_alphabet", 0, "--add_upper_alphabet", 0]
    status, shown, err = tool("collect-orth-symbols", bliss, "--output", out, *none)
    assert (status, err) == (0, "")
    assert shown.startswith("6\tl\n4\to\n")
    assert shown.endswith("3 texts, 0 left out; 27 symbols, 12 different ones\ntime: 0:00:04\n")
    assert out.read_text() == " \n3\nd\ne\nh\nl\nn\no\nr\nw\n"
    tool("collect-orth-symbols", bliss, "--output", out, "--remove_symbols", "( A")
    assert set(out.read_text().splitlines()) == {*string.digits, *string.ascii_letters, ")"} - {"A"}


def test_symbols_of_some_texts(tool, bliss, tmp_path):
    shown = tool("collect-orth-symbols", bliss, "--max_seq_frame_len", 100, "--dump_orth_syms")[1]
    assert shown.startswith("h e l l o\n2\tl\n")
    assert "1 text, 2 left out; " in shown
    shown = tool("collect-orth-symbols", bliss, "--max_seq_frame_len", 75, "--frame_time", 20)[1]
    assert "3 texts, 0 left out; " in shown
    options = ["--filter_orth_sym", "nh", "--filter_orth_syms_seq", "o w", "--max_seq_orth_len", 9]
    shown = tool("collect-orth-symbols", bliss, *options, "--collect_time", 0)[1]
    assert shown.startswith("found symbol: hello\nfound symbol: new world\n")
    assert "time" not in shown
    text = tmp_path / "text"
    text.write_text("hello world\n")
    shown = tool("collect-orth-symbols", text, *options[:4])[1]
    assert shown.startswith("found symbol: hello world\nfound sequence: hello world\n")
    assert "time" not in shown
    assert tool("collect-orth-symbols", text, "--max_seq_frame_len", 75)[2] == (
        f"error: option '--max_seq_frame_len': '{text}' is text, and says nothing about time.\n"
    )
    assert tool("collect-orth-symbols", bliss, "--frame_time", 0)[2] == (
        "error: option '--frame_time': 0 is no time; expected 1 or more milliseconds.\n"
    )
    bliss.write_text(BLISS.replace('end="5"', 'end="inf"'))
    assert tool("collect-orth-symbols", bliss)[2].startswith("error: Bliss segment 'c/1A/b': has no 'end'")
    assert tool("collect-orth-symbols", bliss, "--collect_time", 0)[0] == 0
