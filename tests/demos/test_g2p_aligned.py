"""Letters to phonemes letter by letter: alignment, joint n-grams, ensemble, and all steps of the command."""

import importlib
import itertools
import math
import os
import random
import sys

import numpy
import pytest

import returnn.frontend as rf
from returnn.__main__ import main
from returnn.config import set_global_config
from returnn.util.backend_engine import BackendEngine

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEMO = os.path.join(ROOT, "demos", "g2p")
MODULES = (
    *("g2p_data", "g2p_alignment", "g2p_chunks", "g2p_ngram", "kneser_ney"),
    *("g2p_aligned", "g2p_judge", "g2p_network", "score", "combine", "run_aligned"),
)


@pytest.fixture
def demo(monkeypatch):
    """:return: a function that imports a module of the demo"""
    before = BackendEngine.selected_engine
    monkeypatch.syspath_prepend(DEMO)
    yield importlib.import_module
    for name in MODULES:
        sys.modules.pop(name, None)
    set_global_config(None)
    rf.select_backend_numpy()
    BackendEngine.selected_engine = before


# Letters 1 to 4; a chunk for each, of which 4 is silent and 3 has two phonemes.
CHUNKS = {1: (1,), 2: (2,), 3: (3, 4), 4: ()}


def words(num):
    source = random.Random(1)
    return [[source.randint(1, 4) for _ in range(source.randint(1, 6))] for _ in range(num)]


def test_alignment_is_found(demo):
    alignment = demo("g2p_alignment")
    pairs = [(letters, [p for letter in letters for p in CHUNKS[letter]]) for letters in words(300)]
    probabilities = alignment.learn(pairs, 5, 6)
    numpy.testing.assert_allclose(probabilities.sum(axis=(1, 2))[1:], 1.0)
    assert alignment.align(pairs, probabilities, 6) == [[CHUNKS[letter] for letter in word] for word, _ in pairs]


def test_too_many_phonemes_have_no_alignment(demo):
    alignment = demo("g2p_alignment")
    pairs = [([1], [1]), ([1], [1] * 4), ([1, 1], [1] * 4)]
    probabilities = alignment.learn(pairs, 2, 2)
    first, second, third = alignment.align(pairs, probabilities, 2)
    assert first == [(1,)]
    assert second is None
    assert sorted(len(chunk) for chunk in third) in ([1, 3], [2, 2])


def test_joint_ngrams_are_a_distribution(demo):
    tokens = [("a", "X"), ("b", ""), ("b", "Y Z")]
    source = random.Random(2)
    train = [[source.choice(tokens[: 2 + (i % 3 == 0)]) for _ in range(source.randint(1, 3))] for i in range(40)]
    model = demo("g2p_ngram").JointNgrams(train)
    all_words = [list(word) for n in range(9) for word in itertools.product(tokens, repeat=n)]
    # What is missing are longer words, a pair that was not seen, and the beginning as a pair.
    assert 0.9 < numpy.exp(model.log_probs(all_words)).sum() < 1.0
    seen, unseen = model.log_probs([train[0], [("c", "X")]])
    assert seen > unseen
    assert math.isfinite(unseen)


def test_alignments_of_the_same_phonemes_are_added_up(demo):
    half = math.log(0.5)
    n_best = {"ab": [(["X", ""], [-1.0]), (["Y", ""], [-1.0 - half / 2]), (["", "X"], [-1.0])]}
    hypotheses = demo("combine").Hypotheses
    assert hypotheses(n_best).best([1.0]) == {"ab": ["X"]}
    assert hypotheses({"ab": n_best["ab"][:2]}).best([1.0]) == {"ab": ["Y"]}


def test_best_of_each_word_by_the_scales_that_are_best_on_dev(demo, monkeypatch):
    combine = demo("combine")
    monkeypatch.setattr(combine, "pronunciations", lambda _: {"a": [["X"], ["Z"]], "b": [["Y"]]})
    n_best = {"b": [(["X"], [0.0, -1.0]), (["Y"], [-1.0, 0.0])], "a": [(["Y"], [-2.0, 0.0]), (["X"], [-1.0, -0.5])]}
    hypotheses = combine.Hypotheses(n_best)
    assert hypotheses.best([1.0, 0.0]) == {"a": ["X"], "b": ["X"]}
    assert hypotheses.best([0.0, 1.0]) == {"a": ["Y"], "b": ["Y"]}
    assert hypotheses.best_scales([[1.0, 0.0], [0.0, 1.0], [1.0, 1.1], [1.0, 1.2]], "dev") == [1.0, 1.1]


def test_all_steps_of_the_command(demo, tmp_path, monkeypatch, capsys):
    (tmp_path / "data").mkdir()
    all_words = ["".join(word) for n in (1, 2, 3) for word in itertools.product("AB", repeat=n)]
    splits = {"train": all_words, "dev": ["ABBA", "BABA"], "test": ["ABAB"]}
    for split, of_split in splits.items():
        lines = [f"{word}\t{' '.join({'A': 'AE', 'B': 'B'}[letter] for letter in word)}\n" for word in of_split]
        (tmp_path / "data" / f"{split}.txt").write_text("".join(lines))
    monkeypatch.setenv("G2P_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g2p-aligned").mkdir()
    options = ["++num_epochs", "1", "++parts", "1", "++beam_size", "2", "++use_tensorboard", "False"]
    for _, commands in demo("run_aligned").steps(options, num_judges=3, judge_epochs=1, with_dev=True):
        for _, script, *args in commands:
            name = os.path.splitext(os.path.basename(script))[0]
            assert (main([script, *args]) if name == "rnn" else demo(name).main(*args)) in (0, None)
    output = capsys.readouterr().out
    assert "judge 3" in output
    assert "members, judges" in output
    assert "all, with dev" in output
    assert "1 words, PER " in output
