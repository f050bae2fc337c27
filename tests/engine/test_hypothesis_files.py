"""Subwords of a vocabulary with "▁" before each word are put together, also where a hypothesis goes on with a word."""

import ast

import pytest

from returnn.datasets.util.vocabulary import Vocabulary
from returnn.engine.hypothesis_files import words_of, words_of_texts, write_hypotheses
from returnn.tools.text_files import read_pair

_SPEECH = {"a": "▁ h a ▁du", "b": "d u", "c": "", "d": "▁du"}


def test_labels_without_a_prefix_go_on_with_a_word():
    assert words_of("d u") == "d u"
    assert words_of("d u", has_prefixes=True) == "du"
    assert words_of_texts(_SPEECH) == {"a": "ha du", "b": "du", "c": "", "d": "du"}


def test_a_prefix_that_few_texts_have_is_a_character():
    texts = {str(i): "two words" for i in range(20)}
    assert words_of_texts({**texts, "x": "▁▂▃"}) == {**texts, "x": "▂▃"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"labels": ["▁du", "d", "u"]}, True),
        ({"labels": ["du", "d", "u"]}, False),
        ({"labels": [*map(str, range(200)), "▁▂▃"]}, False),  # of words, one with such a character
        ({"class": "CharacterTargets", "labels": [*map(chr, range(300, 500)), "▁"]}, True),
    ],
)
def test_vocabularies_say_whether_they_have_prefixes(options, expected):
    vocab = Vocabulary.create_vocab(vocab_file=None, unknown_label=None, **options)
    assert vocab.has_word_prefixes is expected


@pytest.mark.parametrize("file_format", ["words", "tagged", "py-words"])
def test_files_have_words(file_format, tmp_path):
    file = tmp_path / "hyps"
    write_hypotheses(str(file), {"b": "d u"}, file_format, has_prefixes=True)
    text = file.read_text()
    assert {"words": "du\n", "tagged": "b du\n"}.get(file_format, text) == text
    assert file_format != "py-words" or ast.literal_eval(text) == {"b": "du"}


def test_scores_of_a_file_with_pieces(tmp_path):
    write_hypotheses(str(tmp_path / "hyps.py"), _SPEECH, "py")
    found, expected = read_pair(str(tmp_path / "hyps.py"), {"a": "ha du", "b": "du", "c": "d u", "d": "du"})
    assert found == {"a": "ha du", "b": "du", "c": "", "d": "du"}
    assert expected["c"] == "d u"  # the references are of their own labels: words
