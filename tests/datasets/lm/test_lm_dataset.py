from __future__ import annotations

import gzip
import json

import numpy
import pytest

from returnn.config import Config, global_config_ctx
from returnn.datasets.lm import LmDataset, iter_corpus, read_corpus
from returnn.util.errors import ConfigError, UserError
from tests.datasets.corpus_checks import check_corpus_dataset, seqs_of_epoch
from tests.datasets.util.test_lexicon import LEXICON

TEXT = "a house\nthe house is a house\n\nis the\n  \na\nhouse the a\n"
LINES = ["a house", "the house is a house", "is the", "a", "house the a"]
WORDS = ["[START]", "[END]", "[UNKNOWN]", "a", "house", "is", "the"]
BLISS = """<?xml version="1.0"?>
<corpus name="c">
  <recording name="r1" audio="r1.wav">
    <segment name="s" start="0" end="1.5"><orth> a  house </orth></segment>
    <segment start="1.5" end="inf"><orth>is the</orth></segment>
  </recording>
  <subcorpus name="x"><recording name="r2" audio="r2.wav"><segment><orth>a</orth></segment></recording></subcorpus>
</corpus>
"""


def write(path, content):
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return str(path)


@pytest.fixture
def text(tmp_path):
    return write(tmp_path / "text", TEXT)


@pytest.fixture
def symbols(tmp_path):
    return write(tmp_path / "symbols", "\n".join(WORDS))


def words_of_epoch(dataset, key="data", epoch=1):
    dataset.init_seq_order(epoch=epoch)
    labels = dataset.labels["data"]
    return [" ".join(labels[i] for i in data[key]) for _, data in seqs_of_epoch(dataset)]


def test_only_the_first_lines_for_a_quick_test(text, symbols):
    with global_config_ctx(Config({"lm_dataset_debug_limit_line_count": 2})):
        dataset = LmDataset([text, text], orth_symbols_file=symbols, word_based=True)
    assert words_of_epoch(dataset) == [line + " [END]" for line in [*LINES[:2], *LINES[:2]]]


def test_words_from_a_symbol_file(text, symbols):
    dataset = LmDataset(text, orth_symbols_file=symbols, word_based=True, add_delayed_seq_data=True)
    assert words_of_epoch(dataset) == [line + " [END]" for line in LINES]
    assert words_of_epoch(dataset, "delayed") == ["[START] " + line for line in LINES]
    assert dataset.get_all_tags() == [f"line-{i}" for i in range(5)]
    assert dataset.num_outputs == {"data": (7, 1), "delayed": (7, 1)}
    assert dataset.get_data_dtype("data") == "int8"
    assert dataset.get_target_list() == ["delayed"]


def test_properties(text, symbols):
    check_corpus_dataset(
        lambda **opts: LmDataset(text, orth_symbols_file=symbols, word_based=True, add_delayed_seq_data=True, **opts)
    )


def test_properties_with_a_sampling_vocabulary(text, tmp_path):
    labels = sorted(
        {"a@@", "h@@", "o@@", "u@@", "s@@", "e@@", "t@@", "i@@", "ho@@", "us@@", *"aeshoutei", "house", "the"}
    )
    vocab = {"class": "SamplingBytePairEncoding", "breadth_prob": 0.5, "unknown_label": None}
    vocab["vocab_file"] = write(tmp_path / "vocab", "\n".join(labels))
    check_corpus_dataset(lambda **opts: LmDataset(text, orth_vocab=vocab, **opts), is_random=True)
    dataset = LmDataset(text, orth_vocab=vocab)
    assert words_of_epoch(dataset) == words_of_epoch(dataset) != words_of_epoch(dataset, epoch=2)
    assert [line.replace("@@ ", "") for line in words_of_epoch(dataset)] == LINES


@pytest.mark.parametrize("kind", ["plain", "gzip", "crlf", "bom", "several", "function"])
def test_all_kinds_of_files_have_the_same_lines(kind, tmp_path, text):
    files = {
        "plain": lambda: text,
        "gzip": lambda: write(tmp_path / "text.gz", gzip.compress(TEXT.encode())),
        "crlf": lambda: write(tmp_path / "crlf", TEXT.replace("\n", "\r\n")),
        "bom": lambda: write(tmp_path / "bom", "\ufeff" + TEXT),
        "several": lambda: [
            write(tmp_path / "1", TEXT[:10]),
            write(tmp_path / "2.gz", gzip.compress(TEXT[10:].encode())),
        ],
        "function": lambda: lambda: [text],
    }
    dataset = LmDataset(files[kind](), orth_vocab={"class": "Utf8ByteTargets"})
    dataset.init_seq_order(epoch=1)
    lines = [bytes(data["data"]).decode() for _, data in seqs_of_epoch(dataset)]
    if kind == "several":
        assert lines == [*LINES[:1], "th", "e house is a house", *LINES[2:]]
    else:
        assert lines == LINES


@pytest.mark.parametrize("is_compressed", [False, True])
def test_bliss(tmp_path, is_compressed):
    if is_compressed:
        path = write(tmp_path / "c.xml.gz", gzip.compress(BLISS.encode()))
    else:
        path = write(tmp_path / "c.xml", BLISS)
    dataset = LmDataset(path, orth_vocab={"class": "Utf8ByteTargets"})
    dataset.init_seq_order(epoch=1)
    assert [bytes(data["data"]).decode() for _, data in seqs_of_epoch(dataset)] == ["a house", "is the", "a"]


def test_empty_lines_can_count(text, symbols):
    opts = {"orth_symbols_file": symbols, "word_based": True, "tag_prefix": "t-", "skip_empty_lines": False}
    dataset = LmDataset(text, **opts)
    assert words_of_epoch(dataset)[2:5] == ["[END]", "is the [END]", "[END]"]
    assert dataset.get_tag(0) == "t-0"


def test_tags_from_a_file(text, symbols, tmp_path):
    tags = write(tmp_path / "tags", "\n".join("vwxyz"))
    dataset = LmDataset(text, orth_symbols_file=symbols, word_based=True, seq_list_file=tags)
    dataset.init_seq_order(seq_list=["z", "v"])
    assert [tag for tag, _ in seqs_of_epoch(dataset)] == ["z", "v"]
    with pytest.raises(UserError, match="'seq_list_file' has 5 tags, but there are 7 lines of text"):
        LmDataset(text, orth_symbols_file=symbols, seq_list_file=tags, skip_empty_lines=False)


def test_characters_with_word_ends_and_replacements(tmp_path):
    text = write(tmp_path / "text", "ab a\n")
    symbols = write(tmp_path / "map", "a 0\nb 1\n<w> 2\n[END] 3\n")
    replace = write(tmp_path / "replace", json.dumps({"b": "aa"}))
    opts = {"orth_symbols_map_file": symbols, "word_end_symbol": "<w>"}
    assert words_of_epoch(LmDataset(text, **opts)) == ["a b <w> a <w> [END]"]
    assert words_of_epoch(LmDataset(text, **opts, orth_replace_map_file=replace)) == ["a a a <w> a <w> [END]"]
    assert words_of_epoch(LmDataset(text, **opts, seq_end_symbol=None)) == ["a b <w> a <w>"]


def test_unknown_symbols_are_replaced_counted_and_logged(text, tmp_path, caplog):
    symbols = write(tmp_path / "symbols.py", repr({"[UNKNOWN]": 0, "[END]": 1, "house": 2}))
    opts = {"orth_symbols_map_file": symbols, "word_based": True, "auto_replace_unknown_symbol": True}
    dataset = LmDataset(text, **opts, log_auto_replace_unknown_symbols=2)
    with caplog.at_level("INFO", "returnn"):
        assert words_of_epoch(dataset)[0] == "[UNKNOWN] house [END]"
    assert dataset.num_unknown == 9
    assert [record.message for record in caplog.records] == [
        "LmDataset: unknown symbol 'a' becomes '[UNKNOWN]'",
        "LmDataset: unknown symbol 'the' becomes '[UNKNOWN]', no more of them are logged",
    ]


def test_invalid_sequences_can_be_left_out(text, tmp_path, caplog):
    symbols = write(tmp_path / "symbols", "[END]\na\nhouse\nthe")
    opts = {"orth_symbols_file": symbols, "word_based": True}
    dataset = LmDataset(text, **opts, error_on_invalid_seq=False)
    with caplog.at_level("INFO", "returnn"):
        assert words_of_epoch(dataset) == ["a house [END]", "a [END]", "house the a [END]"]
    assert [dataset.get_tag(i) for i in range(3)] == ["line-0", "line-3", "line-4"]
    assert dataset.num_skipped == 2
    assert "sequence 'line-1' is skipped: there is no symbol 'is'" in caplog.text
    dataset.init_seq_order(epoch=1)
    assert dataset.is_less_than_num_seqs(2)
    assert not dataset.is_less_than_num_seqs(3)
    assert dataset.num_seqs == 3
    assert [tag for tag, _ in seqs_of_epoch(dataset)] == ["line-0", "line-3", "line-4"]


@pytest.mark.parametrize("log_skipped_seqs", [0, 1, 2, 10])
def test_as_many_skipped_sequences_are_logged_as_is_said(log_skipped_seqs, text, tmp_path, caplog):
    symbols = write(tmp_path / "symbols", "[END]\na\nhouse")
    dataset = LmDataset(
        text,
        orth_symbols_file=symbols,
        word_based=True,
        error_on_invalid_seq=False,
        log_skipped_seqs=log_skipped_seqs,
    )
    with caplog.at_level("INFO", "returnn"):
        assert words_of_epoch(dataset) == ["a house [END]", "a [END]"]
    messages = [record.message for record in caplog.records]
    assert len(messages) == min(log_skipped_seqs, dataset.num_skipped)
    assert dataset.num_skipped == 3
    assert ["no more of them" in message for message in messages] == [
        i + 1 == log_skipped_seqs for i in range(len(messages))
    ]


def test_phones(tmp_path):
    text = write(tmp_path / "text", "ab c\nc\nc ab\n")
    phone_info = {"lexicon_file": write(tmp_path / "lexicon", LEXICON)}
    opts = {"phone_info": phone_info, "add_random_phone_seqs": 2}
    check_corpus_dataset(lambda **more: LmDataset(text, **opts, **more), is_random=True)
    dataset = LmDataset(text, **opts)
    dataset.init_seq_order(epoch=1)
    assert dataset.labels["data"][:4] == ["SIL.0", "SIL.1", "SIL.2", "a.0"]
    seqs = [data for _, data in seqs_of_epoch(dataset)]
    for data in seqs:
        assert len(data["data"]) == len(data["random0"]) == len(data["random1"])
    assert any(not numpy.array_equal(data["random0"], data["random1"]) for data in seqs)


def test_post_processing(tmp_path):
    text = write(tmp_path / "text", "Mr. X\n")
    opts = {"orth_vocab": {"class": "Utf8ByteTargets"}, "orth_post_process": ["english_cleaners"]}
    dataset = LmDataset(text, **opts)
    dataset.init_seq_order()
    assert bytes(seqs_of_epoch(dataset)[0][1]["data"]) == b"mister x"


@pytest.mark.parametrize(("num_labels", "dtype"), [(128, "int8"), (129, "uint8"), (256, "uint8"), (257, "int32")])
def test_dtype_is_the_smallest(text, tmp_path, num_labels, dtype):
    symbols = write(tmp_path / "symbols", "\n".join(["[END]", *(f"w{i}" for i in range(num_labels - 1))]))
    assert LmDataset(text, orth_symbols_file=symbols).get_data_dtype("data") == dtype
    if num_labels == 129:
        with pytest.raises(ConfigError, match="option 'dtype': int8 cannot hold 129 labels"):
            LmDataset(text, orth_symbols_file=symbols, dtype="int8")


def test_first_line_with_the_mark_of_utf8_alone_is_empty(symbols, tmp_path):
    text = write(tmp_path / "text", b"\xef\xbb\xbf\r\na house\r\n")
    dataset = LmDataset(text, orth_symbols_file=symbols, word_based=True)
    assert words_of_epoch(dataset) == ["a house [END]"]
    assert read_corpus(text) == ["a house"]


def test_read_corpus(text):
    assert read_corpus(text) == LINES
    assert read_corpus(text, skip_empty_lines=False, decode=False) == TEXT.encode().split(b"\n")[:-1]
    lines = ["before"]
    iter_corpus(text, lines.append)
    assert lines == ["before", *LINES]


def error_of(func):
    with pytest.raises(UserError) as error:
        func()
    message = str(error.value)
    assert len(message.splitlines()) <= 5
    return message


def test_wrong_data_names_file_line_and_sequence(tmp_path, symbols):
    def load(content, **opts):
        path = write(tmp_path / "corpus", content)
        dataset = LmDataset(path, **{"orth_symbols_file": symbols, "word_based": True, **opts})
        dataset.init_seq_order(epoch=1)
        seqs_of_epoch(dataset)

    corpus = tmp_path / "corpus"
    assert error_of(lambda: load("")) == f"There is no text in '{corpus}'."
    assert error_of(lambda: load("\n \n")) == f"There is no text in '{corpus}'."
    message = error_of(lambda: load(b"a\nhouse\n\na \xff b\n"))
    assert f"LmDataset: sequence 'line-2': File '{corpus}', line 4: not UTF-8, byte 0xff in b'a \\xff b'" in message
    message = error_of(lambda: load("a\n\na garden\n", name="train"))
    assert "LmDataset 'train': sequence 'line-1': there is no symbol 'garden' in the symbols" in message
    assert f"File: {corpus}, line 3" in message
    message = error_of(lambda: load("a b\n", orth_symbols_file=None, orth_vocab={"vocab_file": symbols}))
    assert "sequence 'line-0': vocabulary" in message
    assert "there is no label 'b', and no 'unknown_label' is set" in message
    message = error_of(lambda: load("a\n\n", skip_empty_lines=False, seq_end_symbol=None))
    assert "data key 'data' of sequence 'line-1': has no frames" in message


def test_changed_file_is_an_error(tmp_path, symbols, text):
    dataset = LmDataset(text, orth_symbols_file=symbols, word_based=True)
    dataset.init_seq_order(epoch=1)
    write(tmp_path / "text", "a\n")
    assert "has changed while it was read: it had 54 bytes, and has 2." in error_of(lambda: dataset.load_seqs(1, 2))


@pytest.mark.parametrize(
    ("opts", "message"),
    [
        ({"corpus_file": "nowhere"}, "Cannot open the file 'nowhere': No such file"),
        ({"orth_symbols_file": None}, "give one of the options 'orth_vocab', .*\n  Given: none"),
        ({"orth_vocab": {}}, "Given: 'orth_vocab', 'orth_symbols_file'"),
        ({"seq_end_symbol": "</s>"}, "option 'seq_end_symbol': there is no symbol '</s>'"),
        ({"unknown_symbol": "?", "auto_replace_unknown_symbol": True}, "'unknown_symbol': there is no symbol '\\?'"),
        ({"delayed_seq_data_start_symbol": "<s>", "add_delayed_seq_data": True}, "there is no label '<s>'"),
        ({"add_random_phone_seqs": 1}, "option 'add_random_phone_seqs' needs the option 'phone_info'"),
        ({"parse_orth_opts": {"word": 1}}, "there is no option 'word'"),
        (
            {"orth_symbols_file": None, "phone_info": {"phone_pick_strategy": "first"}},
            "option 'phone_info': there is no option 'phone_pick_strategy'.\n  Did you mean 'phon_pick_strategy'",
        ),
        (
            {"orth_symbols_file": None, "phone_info": {"repetition": 0.5}},
            "option 'phone_info': 'lexicon_file' is missing. Given: 'repetition'.",
        ),
    ],
)
def test_wrong_options_are_named(text, symbols, opts, message):
    def load():
        dataset = LmDataset(**{"corpus_file": text, "orth_symbols_file": symbols, "word_based": True, **opts})
        dataset.init_seq_order(epoch=1)
        dataset.load_seqs(0, 1)

    with pytest.raises(UserError, match=message):
        load()


def test_options_without_effect_are_told(text, caplog):
    LmDataset(text, orth_vocab={"class": "Utf8ByteTargets"}, word_based=True, name="only here")
    expected = "LmDataset 'only here': without a table of symbols, there is no effect of: word_based."
    assert any(expected in record.message for record in caplog.records)


def test_unknown_tag_is_named(text, symbols):
    dataset = LmDataset(text, orth_symbols_file=symbols, word_based=True)
    with pytest.raises(ConfigError, match=r"there is no sequence 'line-5'.\n  The tags are 'line-0' to 'line-4'"):
        dataset.init_seq_order(epoch=1, seq_list=["line-5"])


def test_wrong_bliss_file_is_named(tmp_path):
    path = write(tmp_path / "c.xml", BLISS[:200])
    with pytest.raises(UserError, match=r"Bliss file '.*c.xml', line 5: "):
        LmDataset(path, orth_vocab={"class": "Utf8ByteTargets"})
    path = write(tmp_path / "c.xml", BLISS.replace('end="1.5"', 'end="x"'))
    with pytest.raises(UserError, match="segment 's': end='x' is no number"):
        LmDataset(path, orth_vocab={"class": "Utf8ByteTargets"})


def test_end_of_sentence_with_a_vocabulary(tmp_path):
    path = tmp_path / "text"
    path.write_text("a b\nb\n")
    vocab = {"class": "Vocabulary", "labels": ["a", "b", "</s>"], "vocab_file": None, "unknown_label": None}

    def seqs(**opts):
        dataset = LmDataset(str(path), orth_vocab=vocab, **opts)
        dataset.init_seq_order(epoch=1)
        dataset.load_seqs(0, 2)
        return [dataset.get_data(i, "data").tolist() for i in range(2)]

    assert seqs(seq_end_symbol="</s>") == [[0, 1, 2], [1, 2]]
    assert seqs() == seqs(seq_end_symbol=None) == [[0, 1], [1]]
    with pytest.raises(ConfigError, match=r"option 'seq_end_symbol': there is no label '\[END\]'\."):
        seqs(seq_end_symbol="[END]")
