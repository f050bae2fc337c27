"""The demos whose models are in Python, in a short form: the same files train and decode on both backends."""

import math
import os
import re
import sys

import numpy
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SMALL = {
    "rf_speech/conformer.config": (
        "++num_train_seqs 8 ++num_dev_seqs 4 ++num_test_seqs 4 ++num_epochs 1 ++size 8 ++num_layers 1", ["WER"],
    ),
    "rf_translation/transformer.config": ("++parts 80 ++num_epochs 1 ++size 8 ++num_layers 1", ["BLEU", "WER"]),
}  # fmt: skip
LIMIT_S = 900


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["torch", "tensorflow"])
@pytest.mark.parametrize("config", SMALL)
def test_trains_and_decodes(config, backend, tmp_path, fork_server):
    options, metrics = SMALL[config]
    command = ["rnn.py", os.path.join(ROOT, "demos", config), *options.split(), "++backend", backend]
    assert "finished training at epoch 1" in fork_server.run(tmp_path, command, LIMIT_S)
    found = fork_server.run(tmp_path, [*command, "++task", "search"], LIMIT_S)
    for metric in metrics:
        assert re.search(rf"^search: {metric} [\d.]+", found, flags=re.MULTILINE), found
    assert "in the order of the corpus" in found
    if backend == "torch":
        assert "no errors" in fork_server.run(tmp_path, [*command, "++task", "check"], LIMIT_S)


@pytest.fixture
def speech(monkeypatch):
    """:return: the modules of the demo with speech"""
    monkeypatch.setattr(sys, "path", [os.path.join(ROOT, "demos", "rf_speech"), *sys.path])
    import ngram  # noqa: PLC0415 (found now)
    import spoken_numbers  # noqa: PLC0415

    return spoken_numbers, ngram


def test_probabilities_of_triples_sum_to_one(speech, tmp_path):
    _, ngram = speech
    sentences = [["a", "b", "a"], ["a", "a"], ["b", "c"], ["c"]]
    table = ngram.NGramTable(ngram.write_arpa(sentences, str(tmp_path / "words.arpa")), ["a", "b", "c"])
    total = numpy.exp(table.scores).sum(axis=1) + numpy.exp(table.end_scores)
    assert total.shape == (16,)
    numpy.testing.assert_allclose(total, 1.0, atol=1e-4)
    assert table.scores[table.begin].argmax() == 0  # two of four sentences begin with "a"


def test_probability_of_what_was_seen(speech, tmp_path):
    _, ngram = speech
    table = ngram.NGramTable(ngram.write_arpa([["a"]] * 3, str(tmp_path / "words.arpa")), ["a"])
    # Witten-Bell: "a" and the end, each three times; behind the begin, three times "a".
    unigram = 6 / 8 * 3 / 6 + 2 / 8 / 2
    assert table.scores[table.begin, 0] == pytest.approx(math.log(3 / 4 + 1 / 4 * unigram), abs=1e-5)


def test_language_model_of_a_text(speech, tmp_path):
    _, ngram = speech
    text, file, same = (str(tmp_path / name) for name in ("text", "words.arpa", "same.arpa"))
    with open(text, "w") as out:
        out.write("a b a\n\n a  a\n")
    ngram.main([text, file])
    ngram.write_arpa([["a", "b", "a"], ["a", "a"]], same)
    with open(file) as written, open(same) as wanted:
        assert written.read() == wanted.read()
    for args, problem in (
        ([text, file], "words.arpa' exists."),
        ([text], "usage"),
        ([f"{text}s", f"{file}2"], "Cannot open the file"),
        ([os.devnull, f"{file}2"], "there are no words in"),
    ):
        with pytest.raises(SystemExit, match=problem):
            ngram.main(args)


def test_language_model_knows_no_test_data(speech):
    numbers, _ = speech
    said = {tuple(numbers.english(n).split()) for split in ("dev", "test") for n in numbers._numbers(split)}
    texts = {tuple(text) for text in numbers.texts()}
    assert len(texts) > 4000
    assert not texts & said
    assert {word for text in texts for word in text} <= set(numbers.words())


def test_speech_has_the_length_of_its_words(speech):
    numbers, _ = speech
    one, three = (numbers.spoken(words, numpy.random.RandomState(1)) for words in (["six"], ["six"] * 3))
    assert 2 * len(one) < len(three) < 4 * len(one)
    assert numpy.abs(three).max() == 1.0
