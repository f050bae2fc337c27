from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from returnn.util.texts.word_errors import WordErrors, total_word_errors, word_errors

words = st.lists(st.sampled_from("abc"), max_size=6)


def brute_force(a, b):
    if not a or not b:
        return len(a) + len(b)
    return min(brute_force(a[1:], b[1:]) + (a[0] != b[0]), brute_force(a[1:], b) + 1, brute_force(a, b[1:]) + 1)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(words, words)
def test_fewest_errors(hypothesis, reference):
    errors = word_errors(hypothesis, reference)
    assert errors.num_errors == brute_force(hypothesis, reference)
    assert len(hypothesis) - len(reference) == errors.num_insertions - errors.num_deletions
    assert errors.num_wrong_seqs == (hypothesis != reference)


def test_the_sum_weighs_by_words():
    total = total_word_errors({"a": "x", "b": "1 2 3"}, {"a": "y", "b": "1 2 3", "c": "left out"})
    assert total == WordErrors(1, 0, 0, 4, 1, 2)
    assert total.rate == 0.25


def test_words_where_there_are_none():
    assert word_errors(["a"], []).rate == 1.0
    assert word_errors([], []).rate == 0.0
