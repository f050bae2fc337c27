"""The script `make-vocab.py`: what it prints is a vocabulary for the text that it was made from."""

import ast
import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from returnn.datasets.util.vocabulary import Vocabulary
from returnn.engine.hypothesis_files import words_of
from returnn.util.texts.bpe_learning import learn_bpe, merged

LINES = [
    "the cat sat on the mat",
    "a cat is a cat is a cat",
    "the hat of the cat, that is on the mat",
    "eine Katze",
] * 3


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in LINES))
    return tmp_path / "text"


@pytest.mark.parametrize(("kind", "size"), [("words", None), ("chars", None), ("bpe", 60), ("sentencepiece", 40)])
def test_what_is_printed_is_a_vocabulary_of_the_text(kind, size, text, tool, tmp_path):
    if kind == "sentencepiece":
        pytest.importorskip("sentencepiece")
    options = ["--size", size] if size else []
    status, out, err = tool("make-vocab", kind, tmp_path / "out", "--text", text, *options)
    assert status == 0
    vocab = Vocabulary.create_vocab(**ast.literal_eval(out.removeprefix('"vocab": ')))
    fewer = f"WARNING: option '--size': the texts are spelled by {vocab.num_labels} labels, not {size}.\n"
    assert err == (fewer if size and vocab.num_labels < size else "")
    assert out.rstrip().endswith(f"  # {vocab.num_labels} labels; '</s>', which ends each text, is 0")
    assert size is None or vocab.num_labels <= size
    for line in LINES:
        labels = vocab.get_seq(line)
        assert labels[-1] == 0
        assert vocab.unknown_label_id not in labels
        shown = vocab.get_seq_labels(labels[:-1])
        if kind == "bpe":
            shown = f"{shown} ".replace("@@ ", "").strip()
        if kind == "sentencepiece":
            shown = shown.replace(" ", "").replace("▁", " ").strip()
        assert shown == line


@pytest.mark.parametrize("kind", ["bpe", "sentencepiece"])
def test_a_size_that_is_less_than_the_characters(kind, text, tool, tmp_path):
    if kind == "sentencepiece":
        pytest.importorskip("sentencepiece")
    status, _, err = tool("make-vocab", kind, tmp_path / "out", "--text", text, "--size", 3)
    assert status == 1
    assert err.startswith("error: option '--size': 3 is not enough: ")
    assert " at least " in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(("kind", "size"), [("words", None), ("chars", None), ("bpe", 60), ("sentencepiece", 40)])
def test_texts_that_already_have_unknown_words_in_them(kind, size, tool, tmp_path):
    if kind == "sentencepiece":
        pytest.importorskip("sentencepiece")
    (tmp_path / "text").write_text("the <unk> sat on the <unk> </s>\n" * 9)
    options = ["--size", size] if size else []
    status, out, err = tool("make-vocab", kind, tmp_path / "out", "--text", tmp_path / "text", *options)
    assert (status, "WARNING" in err) == (0, size is not None)
    vocab = Vocabulary.create_vocab(**ast.literal_eval(out.removeprefix('"vocab": ')))
    labels = vocab.get_seq("the <unk> sat")
    if kind != "chars":
        assert vocab.unknown_label_id in labels
        shown = vocab.get_seq_labels(labels[:-1])
        assert words_of(shown) == "the <unk> sat"


def test_merges_are_learned_from_words_alone(tool, tmp_path):
    (tmp_path / "text").write_text("the <unk> sat on the <unk> </s>\nthe <cat> knows\n" * 9)
    out = tool("make-vocab", "bpe", tmp_path / "out", "--text", tmp_path / "text", "--size", 40)[1]
    merges = [line.split() for line in (tmp_path / "out.codes").read_text().splitlines()[1:]]
    vocab = Vocabulary.create_vocab(**ast.literal_eval(out.removeprefix('"vocab": ')))
    assert ["<", "c"] in merges
    assert all(label not in "".join(merge) for merge in merges for label in ("<u", "</s"))
    labels = vocab.get_seq("the <unk> sat </s>")
    assert (labels.count(vocab.unknown_label_id), labels[-2:]) == (1, [0, 0])
    (tmp_path / "text").write_text("<unk> </s>\n" * 9)
    err = tool("make-vocab", "bpe", tmp_path / "b", "--text", tmp_path / "text", "--size", 9)[2]
    assert "the texts are empty" in err


def test_rare_characters_have_labels(tool, tmp_path):
    pytest.importorskip("sentencepiece")
    (tmp_path / "text").write_text("the cat sat on the mat\n" * 200 + "q 2 é\n")
    make = ["make-vocab", "sentencepiece", tmp_path / "out", "--text", tmp_path / "text", "--size", 30]
    _, out, err = tool(*make)
    vocab = Vocabulary.create_vocab(**ast.literal_eval(out.removeprefix('"vocab": ')))
    assert vocab.unknown_label_id not in vocab.get_seq("q 2 é")
    assert "without a label" not in err
    _, out, err = tool(*make, "--character_coverage", "0.999")
    vocab = Vocabulary.create_vocab(**ast.literal_eval(out.removeprefix('"vocab": ')))
    assert vocab.unknown_label_id in vocab.get_seq("q 2 é")
    assert (
        "WARNING: 3 characters of the texts without a label, which will be <unk> (in brackets: how often): '2' (1), "
        "'q' (1), 'é' (1). What helps is a larger '--character_coverage'."
    ) in err
    make[1] = "chars"
    assert "is only for the kind 'sentencepiece'" in tool(*make, "--character_coverage", "1")[2]
    (line,) = tool(*make[:-1], 13)[2].splitlines()
    assert line.startswith("WARNING: 2 characters of the texts without a label")


@pytest.mark.parametrize("coverage", ["0.5", "1.1"])
def test_a_coverage_that_is_none(coverage, text, tool, tmp_path):
    options = ["--text", text, "--size", 40, "--character_coverage", coverage]
    err = tool("make-vocab", "sentencepiece", tmp_path / "out", *options)[2]
    assert "is not between 0.98 and 1." in err


def test_the_most_frequent_words(text, tool, tmp_path):
    tool("make-vocab", "words", tmp_path / "out", "--text", text, "--size", 4)
    assert ast.literal_eval((tmp_path / "out.vocab").read_text()) == ["</s>", "<unk>", "the", "cat"]


def test_texts_of_a_dataset(tool, tmp_path):
    dataset = (
        "{'class': 'StaticDataset', 'data': [{'data': [0, 1], 'x': [1]}], 'output_dim': {'data': (2, 1), 'x': (2, 1)}}"
    )
    status, _, err = tool("make-vocab", "words", tmp_path / "out", "--dataset", dataset, "--key", "data")
    assert status == 1
    assert "option '--key': the data 'data' is no text" in err
    assert "'--text' and '--dataset' is required" in tool("make-vocab", "words", tmp_path / "out")[2]
    (tmp_path / "text").write_text("a\n")
    assert "'--size' is required" in tool("make-vocab", "bpe", tmp_path / "out", "--text", tmp_path / "text")[2]


@pytest.mark.parametrize(("kind", "size"), [("words", 180), ("chars", None), ("bpe", 60), ("sentencepiece", 40)])
def test_labels_of_a_dataset_are_texts_again(kind, size, text, tool, tmp_path):
    if kind == "sentencepiece":
        pytest.importorskip("sentencepiece")
    words = tmp_path / "many"  # so that labels are uint8
    words.write_text(text.read_text() + " ".join(f"word{i}" for i in range(160)) + "\n")
    source = words if kind == "words" else text
    options = ["--size", size] if size else []
    out = tool("make-vocab", kind, tmp_path / "out", "--text", source, *options)[1]
    dataset = {
        "class": "LmDataset",
        "corpus_file": str(source),
        "orth_vocab": ast.literal_eval(out.removeprefix('"vocab": ')),
    }
    status, _, err = tool("make-vocab", "words", tmp_path / "of_text", "--text", source)
    assert (status, err) == (0, "")
    status, _, err = tool("make-vocab", "words", tmp_path / "of_data", "--dataset", dataset, "--key", "data")
    assert (status, err) == (0, "")
    assert (tmp_path / "of_data.vocab").read_text() == (tmp_path / "of_text.vocab").read_text()


def test_names_of_data_sets_need_a_config(text, tool, tmp_path):
    err = tool("make-vocab", "words", tmp_path / "out", "--dataset", "dev")[2]
    assert "data set 'dev': there is no config that could have it." in err
    err = tool("make-vocab", "words", tmp_path / "out", "--dataset", text)[2]
    assert "it is a file, but none of HDF" in err


@pytest.mark.parametrize("kind", ["words", "chars", "bpe"])
def test_too_few_labels_and_empty_texts(kind, text, tool, tmp_path):
    status, _, err = tool("make-vocab", kind, tmp_path / "out", "--text", text, "--size", 2)
    assert (status, err.startswith("error: option '--size': 2 is not enough")) == (1, True)
    (tmp_path / "empty").write_text("\n")
    status, _, err = tool("make-vocab", kind, tmp_path / "out", "--text", tmp_path / "empty", "--size", 50)
    assert (status, err) == (1, "error: the texts are empty, so that there is nothing to make a vocabulary of.\n")
    assert not (tmp_path / "out.vocab").exists()


@given(st.dictionaries(st.text("abc", min_size=1, max_size=6), st.integers(1, 5), min_size=1), st.integers(0, 8))
def test_each_merge_is_the_most_frequent_pair(counts, num_merges):
    words = {word: [*word[:-1], f"{word[-1]}</w>"] for word in counts}
    for pair in learn_bpe(counts, num_merges):
        pairs = Counter()
        for word, symbols in words.items():
            for other in itertools.pairwise(symbols):
                pairs[other] += counts[word]
        assert pairs[pair] == max(pairs.values()) >= 2
        words = {word: merged(symbols, pair) for word, symbols in words.items()}


def test_a_data_set_is_no_text(tool, tmp_path):
    err = tool("make-vocab", "words", tmp_path / "out", "--text", tmp_path / "train.zip")[2]
    assert "train.zip' is a data set, which is given with '--dataset'." in err
