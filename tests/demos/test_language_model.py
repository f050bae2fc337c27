"""The recipe of the language model in a short form: it learns, and perplexities are those of words."""

import re
import sys
from pathlib import Path

import numpy
import pytest

import returnn.__main__ as rnn
from returnn.engine.learning_rate_file import read_learning_rate_file
from returnn.util.backend_engine import BackendEngine

DEMO = Path(__file__).parent.parent.parent / "demos" / "language_model"
SIZE = 300
SHORT = (
    f"++num_subwords {SIZE} ++size 32 ++hidden 32 ++streams 4 ++length 20 ++parts 1 ++num_epochs 1 "
    "++train_fraction 0.3 ++dev_fraction 0.1 -v 3"
).split()


@pytest.fixture
def lm_data(monkeypatch, tmp_path):
    """:return: the module of the demo"""
    before = BackendEngine.selected_engine
    monkeypatch.delenv("LM_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(DEMO))
    import lm_data  # noqa: PLC0415 (found now)

    yield lm_data
    BackendEngine.selected_engine = before
    for name in ("lm_data", "perplexity", "kneser_ney"):
        sys.modules.pop(name, None)


def test_learns_and_evaluates(lm_data, capfd):
    config = str(DEMO / "lm.config")
    assert rnn.main(["rnn.py", config, *SHORT]) == 0, capfd.readouterr()
    score = read_learning_rate_file("language-model/learning_rates")[1].error["dev_score"]
    ids = {split: lm_data.encoded(split, SIZE) for split in ("train", "valid")}
    counts = numpy.bincount(ids["train"], minlength=SIZE) + 1.0
    assert score < -numpy.log(counts / counts.sum())[ids["valid"]].mean() - 0.1
    for split in ("valid", "test"):
        assert rnn.main(["rnn.py", config, *SHORT, "++task", "forward", "++split", split]) == 0, capfd.readouterr()
    import perplexity  # noqa: PLC0415

    capfd.readouterr()
    perplexity.main("language-model", SIZE)
    table = re.findall(
        r"^(network|5-grams|network, cache|all) +([\d.]+) +[\d.]+ ", capfd.readouterr().out, re.MULTILINE
    )
    found = {name: float(valid) for name, valid in table}
    assert found["all"] <= found["5-grams"] < found["network"] < SIZE**3
    assert found["all"] <= found["network, cache"] < found["network"]
    with pytest.raises(SystemExit, match="of other subwords"):
        perplexity.main("language-model", SIZE - 1)


def test_sequences_of_a_batch_go_on_in_the_next(lm_data):
    seqs = lm_data.dataset("valid", size=SIZE, streams=3, length=7)["data"]
    ids = lm_data.encoded("valid", SIZE)
    streams = [numpy.concatenate([seq["data"] for seq in seqs[k::3]]) for k in range(3)]
    text = numpy.concatenate(streams)
    assert (text == ids[: len(text)]).all()
    assert len(ids) - len(text) <= 3
    following = numpy.concatenate([seq["classes"] for seq in seqs[::3]])
    assert (following[:-1] == streams[0][1:]).all()
    parts = lm_data.dataset("train", size=SIZE, streams=3, length=7, parts=5)["data"]
    assert len(parts) % (3 * 5) == 0


def test_without_documentation_a_text_is_asked_for(lm_data, monkeypatch, tmp_path):
    monkeypatch.setattr(lm_data, "ROOT", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="set LM_DATA to a folder with texts"):
        lm_data.encoded("train", SIZE)


def test_perplexity_is_that_of_words(lm_data, tmp_path, monkeypatch):
    for split in ("train", "test"):
        (tmp_path / f"{split}.txt").write_text("ab ab ab\nab ab\n \n" * 5)
    monkeypatch.setenv("LM_DATA", str(tmp_path))
    subwords, words = len(lm_data.encoded("test", 8)), 8 * 5  # words, and the ends of lines
    assert lm_data.subwords_per_word("test", 8) == subwords / words
    with pytest.raises(FileNotFoundError, match="valid"):
        lm_data.dataset("valid", size=8, streams=1, length=2)


@pytest.mark.parametrize("size", [3, 100])
def test_cache_is_what_came_after_similar_states(lm_data, monkeypatch, size):
    import perplexity  # noqa: PLC0415

    monkeypatch.setattr(perplexity, "BLOCK", 4)
    source = numpy.random.RandomState(3)
    states, text = source.normal(size=(11, 5)), source.randint(0, 3, 11)
    wanted = numpy.zeros(11)
    for i in range(1, 11):
        before = range(max(i - size, 0), i)
        weights = {j: numpy.exp(0.7 * states[i] @ states[j]) for j in before}
        wanted[i] = sum(weight for j, weight in weights.items() if text[j] == text[i]) / sum(weights.values())
    numpy.testing.assert_allclose(perplexity.neural_cache(states, text, scale=0.7, size=size), wanted, rtol=1e-12)


def test_weights_are_those_of_the_best_mixture(lm_data):
    import perplexity  # noqa: PLC0415

    source = numpy.random.RandomState(1)
    models = {name: source.uniform(size=200) for name in "abc"}
    weights = perplexity.learn_weights(models)
    best = numpy.log(perplexity.mix(models, weights)).mean()
    for _ in range(50):
        other = dict(zip("abc", source.dirichlet([1, 1, 1]), strict=True))
        assert numpy.log(perplexity.mix(models, other)).mean() <= best + 1e-4


def test_ngrams_are_a_distribution(lm_data):
    from perplexity import KneserNey, pack_ngrams  # noqa: PLC0415

    source = numpy.random.RandomState(2)
    model = KneserNey(pack_ngrams(source.randint(0, 6, 300), order=3, bits=3), order=3, bits=3)
    for context in source.randint(0, 6, (20, 2)):
        ngrams = [pack_ngrams(numpy.array([*context, token]), order=3, bits=3)[-1] for token in range(6)]
        numpy.testing.assert_allclose(model.probabilities(numpy.array(ngrams), uniform=1 / 6).sum(), 1.0)
    with pytest.raises(ValueError, match="do not fit"):
        pack_ngrams(numpy.arange(3), order=5, bits=13)
