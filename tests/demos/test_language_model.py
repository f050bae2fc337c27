"""The recipe of the language model in a short form: it learns more than how often each subword is."""

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
    "++train_fraction 0.3 ++dev_fraction 0.1 ++learning_rates [0.015] -v 3"
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
    for name in ("lm_data", "perplexity"):
        sys.modules.pop(name, None)


def test_learns_and_evaluates(lm_data, capfd):
    config = str(DEMO / "lm.config")
    assert rnn.main(["rnn.py", config, *SHORT]) == 0, capfd.readouterr()
    score = read_learning_rate_file("language-model/learning_rates")[1].error["dev_score"]
    ids = {split: lm_data._ids(split, SIZE) for split in ("train", "valid")}
    counts = numpy.bincount(ids["train"], minlength=SIZE) + 1.0
    assert score < -numpy.log(counts / counts.sum())[ids["valid"]].mean() - 0.1
    assert rnn.main(["rnn.py", config, *SHORT, "++task", "eval", "++with_test", "1"]) == 0, capfd.readouterr()
    assert re.search(r"^test: error output [\d.]+, loss output [\d.]+", capfd.readouterr().out, re.MULTILINE)


def test_sequences_of_a_batch_go_on_in_the_next(lm_data):
    seqs = lm_data.dataset("valid", size=SIZE, streams=3, length=7)["data"]
    ids = lm_data._ids("valid", SIZE)
    streams = [numpy.concatenate([seq["data"] for seq in seqs[k::3]]) for k in range(3)]
    text = numpy.concatenate(streams)
    assert (text == ids[: len(text)]).all()
    assert len(ids) - len(text) <= 3
    following = numpy.concatenate([seq["classes"] for seq in seqs[::3]])
    assert (following[:-1] == streams[0][1:]).all()
    parts = lm_data.dataset("train", size=SIZE, streams=3, length=7, parts=5)["data"]
    assert len(parts) % (3 * 5) == 0


def test_perplexity_is_that_of_words(lm_data, tmp_path, monkeypatch, capsys):
    for split in ("train", "test"):
        (tmp_path / f"{split}.txt").write_text("ab ab ab\nab ab\n \n" * 5)
    monkeypatch.setenv("LM_DATA", str(tmp_path))
    import perplexity  # noqa: PLC0415

    subwords, words = len(lm_data._ids("test", 8)), 8 * 5  # words, and the ends of lines
    perplexity.main("test", 0.5, 8)
    assert f"perplexity {numpy.exp(0.5 * subwords / words):.1f} " in capsys.readouterr().out
    with pytest.raises(FileNotFoundError, match="valid"):
        lm_data.dataset("valid", size=8, streams=1, length=2)
