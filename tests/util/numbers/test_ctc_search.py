"""Prefix beam search, against the sum over all paths."""

import itertools
import math

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from returnn.util.errors import UserError
from returnn.util.numbers.ctc_search import CtcSearch, SpelledWords
from returnn.util.system.warn_once import forget_shown


def log_probs(seed, frames, classes, alpha=0.7):
    """:return: (frames, classes); with a small alpha, of a model that is sure"""
    return numpy.log(numpy.random.RandomState(seed).dirichlet(numpy.full(classes, alpha), size=frames) + 1e-9)


def labels_of(path, blank):
    return tuple(label for label, _ in itertools.groupby(path) if label != blank)


def scores_of_all_sequences(frames, blank):
    """:return: labels -> log of the sum of all their paths"""
    scores = {}
    for path in itertools.product(range(frames.shape[1]), repeat=len(frames)):
        score = sum(frame[label] for frame, label in zip(frames, path, strict=True))
        labels = labels_of(path, blank)
        scores[labels] = numpy.logaddexp(scores.get(labels, -math.inf), score)
    return scores


@given(st.integers(0, 1000), st.integers(1, 5), st.integers(2, 4), st.booleans())
def test_a_large_beam_finds_the_sum_over_all_paths(seed, num_frames, classes, blank_is_first):
    frames, blank = log_probs(seed, num_frames, classes), 0 if blank_is_first else -1
    found = dict(CtcSearch(beam_size=1000, blank=blank).best(frames))
    expected = scores_of_all_sequences(frames, blank % classes)
    assert found.keys() == expected.keys()
    for labels, score in found.items():
        assert score == pytest.approx(expected[labels], abs=1e-6)


@given(st.integers(0, 1000), st.integers(1, 6))
def test_lexicon_and_language_model_are_what_is_left_of_all_paths(seed, num_frames):
    frames = log_probs(seed, num_frames, 4)
    spellings = [("a", [0]), ("ab", [0, 1]), ("bb", [1, 1]), ("a", [2]), ("ha", [0, 1])]
    lexicon = SpelledWords(spellings)

    def lm_score(words, is_end):
        return 0.7 * len(words) - 0.3 * words.count(0) + (0.5 if is_end and words else 0.0)

    found = dict(CtcSearch(beam_size=10_000, lexicon=lexicon, lm_score=lm_score).best(frames))
    labels = scores_of_all_sequences(frames, 3)
    expected = {}
    for num_words in range(num_frames + 1):
        for chosen in itertools.product(spellings, repeat=num_words):
            spelled = tuple(label for _, spelling in chosen for label in spelling)
            if spelled in labels:
                words = tuple(lexicon.words.index(word) for word, _ in chosen)
                expected[words] = numpy.logaddexp(expected.get(words, -math.inf), labels[spelled])
    expected = {words: score + lm_score(words, True) for words, score in expected.items()}
    assert found.keys() == expected.keys()
    for words, score in found.items():
        assert score == pytest.approx(expected[words], abs=1e-6)


def test_a_small_beam_keeps_the_best():
    frames = log_probs(1, 30, 12, alpha=0.02)
    small, large = (CtcSearch(beam_size=size).best(frames) for size in (8, 200))
    assert len(small) == 8
    assert small[0][0] == large[0][0]
    assert small[0][1] <= large[0][1] + 1e-9
    assert len(small[0][0]) > 5


def test_words_that_are_not_complete_are_left_out():
    frames = numpy.log([[0.98, 0.01, 0.01]])
    lexicon = SpelledWords([("ab", [0, 1])])
    assert CtcSearch(beam_size=1, lexicon=lexicon).best(frames)[0][0] == ()


def test_no_frames_are_no_labels():
    assert CtcSearch().best(numpy.zeros((0, 3))) == [((), 0.0)]


def test_file_of_a_lexicon(tmp_path):
    file = tmp_path / "lexicon"
    file.write_text("yes Y EH S\nno N OW\n\nyes Y E S\n")
    lexicon = SpelledWords.from_file(str(file), ["Y", "EH", "S", "N", "OW", "E"])
    assert lexicon.words == ["yes", "no"]
    assert set(lexicon.root.children) == {0, 3}


def test_space_in_a_lexicon(tmp_path, caplog):
    file = tmp_path / "lexicon"
    file.write_text("a a\na a <space>\n")
    forget_shown()
    lexicon = SpelledWords.from_file(str(file), [" ", "a"])
    assert [(search_words(lexicon, labels)) for labels in ([1, 0, 1], [1, 1], [1, 0])] == [[0, 0], [0, 0], [0]]
    assert caplog.text == ""
    file.write_text("a a\n")
    SpelledWords.from_file(str(file), [" ", "a"])
    assert "is a label, but no word is spelled with it. It is written '<space>'" in caplog.text


def search_words(lexicon, labels):
    """:return: the words of these labels, each certain"""
    frames = [frame for label in labels for frame in (label, 2)]
    path = numpy.full((len(frames), 3), -50.0)
    path[numpy.arange(len(frames)), frames] = 0.0
    return list(CtcSearch(10, 2, lexicon).best(path)[0][0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("yes Y EH S\nno N EHH", "line 2: there is no label 'EHH'.\n  Did you mean 'EH'?"),
        ("yes", "line 1: 'yes' has no labels behind it."),
        ("\n", "has no words.\n  Expected lines 'WORD LABEL LABEL ...'."),
    ],
)
def test_wrong_files(text, message, tmp_path):
    (tmp_path / "lexicon").write_text(text)
    with pytest.raises(UserError) as info:
        SpelledWords.from_file(str(tmp_path / "lexicon"), ["Y", "EH", "S", "N", "OW"])
    assert message in str(info.value)
