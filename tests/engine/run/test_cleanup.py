import pytest
from hypothesis import given
from hypothesis import strategies as st

from returnn.engine.run.cleanup import CleanupPolicy, cleanup_policy, superfluous_epochs
from returnn.util.errors import ConfigError


def keep(option, epochs, scores=None):
    return sorted(cleanup_policy(option).epochs_to_keep(epochs, scores or {}))


def test_defaults():
    scores = {epoch: {"dev_score": abs(epoch - 50), "train_score": 1.0 / epoch} for epoch in range(1, 400)}
    kept = keep(True, range(1, 400), scores)
    assert kept == sorted([20, 40, 80, 160, 240, 320, 398, 399, 50, 49, 51, 48])
    assert keep({}, range(1, 400), scores) == kept


@pytest.mark.parametrize(
    ("last_epoch", "expected"),
    [
        (4, [4]),
        (10, [4, 5, 8, 10]),
        (11, [5, 10]),
        (50, [5, 10, 20, 40]),
        (51, [10, 20, 40]),
        (100, [10, 20, 40, 80]),
        (101, [20, 40, 80]),
        (330, [20, 40, 80, 160, 240, 320]),
    ],
)
def test_what_is_listed_depends_on_the_last_epoch_that_has_a_model(last_epoch, expected):
    only_listed = {"keep_last_n": 0, "keep_best_n": 0}
    scores = {epoch: {"dev_score": 1.0 / epoch} for epoch in range(1, 400)}  # of more epochs than there are models
    assert keep(only_listed, range(1, last_epoch + 1), scores) == expected
    assert keep({**only_listed, "keep": []}, range(1, last_epoch + 1), scores) == []


@pytest.mark.parametrize("last_epoch", [3, 300])
def test_the_initial_model_stays_unless_others_are_listed(last_epoch):
    assert keep(True, range(last_epoch + 1))[0] == 0
    assert keep({"keep": [2]}, range(last_epoch + 1))[0] == 2


def test_last_and_listed():
    assert keep({"keep_last_n": 3, "keep": [2, 99]}, range(1, 11)) == [2, 8, 9, 10]
    assert keep({"keep_last_n": 0, "keep": {4}}, range(1, 11)) == [4]


def test_best_by_each_score():
    scores = {1: {"dev_a": 3, "dev_b": 1}, 2: {"dev_a": 1, "dev_b": 2}, 3: {"dev_a": 2, "dev_b": 3}, 4: {"dev_a": 9}}
    assert keep({"keep_last_n": 0, "keep_best_n": 1, "keep": []}, range(1, 5), scores) == [1, 2]


def test_best_among_those_that_exist():
    scores = {epoch: {"dev_score": epoch} for epoch in range(1, 10)}
    assert keep({"keep_last_n": 0, "keep_best_n": 2, "keep": []}, [3, 5, 7], scores) == [3, 5]


def test_score_that_is_not_finite_is_the_worst():
    scores = {1: {"dev": float("nan")}, 2: {"dev": 5.0}, 3: {"dev": float("-inf")}}
    assert keep({"keep_last_n": 0, "keep_best_n": 1, "keep": []}, [1, 2, 3], scores) == [2]


def test_scores_of_training_count_if_there_are_no_others():
    scores = {1: {"train_score": 1.0}, 2: {"train_score": 0.5}}
    assert keep({"keep_last_n": 0, "keep_best_n": 1, "keep": []}, [1, 2], scores) == [2]


def test_a_score_that_never_changes_tells_nothing():
    scores = {epoch: {"dev_error": 0.0, "dev_score": -epoch} for epoch in range(1, 6)}
    assert keep({"keep_last_n": 0, "keep_best_n": 1, "keep": []}, range(1, 6), scores) == [5]


@given(
    st.sets(st.integers(1, 500)),
    st.dictionaries(st.integers(1, 500), st.dictionaries(st.sampled_from(["dev_x", "dev_y", "train_x"]), st.floats())),
    st.integers(0, 5),
    st.integers(0, 5),
)
def test_keeps_existing_ones_and_the_last_in_any_case(epochs, scores, last, best):
    kept = CleanupPolicy(last, best).epochs_to_keep(epochs, scores)
    assert kept <= epochs
    assert set(sorted(epochs)[len(epochs) - min(last, len(epochs)) :]) <= kept


def test_the_rest_is_superfluous_but_never_the_newest():
    policy = cleanup_policy({"keep_last_n": 0, "keep_best_n": 0, "keep": [2]})
    assert superfluous_epochs({epoch: f"m.{epoch:03d}" for epoch in (1, 2, 3, 10)}, policy, {}) == [1, 3]
    assert superfluous_epochs({}, policy, {}) == []


@pytest.mark.parametrize("option", [None, False])
def test_off(option):
    assert cleanup_policy(option) is None


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("yes", "option 'cleanup_old_models' is 'yes'.\n  It has to be True, False or a dict."),
        (
            {"keep_best": 3},
            "option 'cleanup_old_models': there is no key 'keep_best'.\n  Did you mean 'keep_best_n' or "
            "'keep_last_n' or 'keep'?",
        ),
        (
            {"keep_best_n": -1},
            "option 'cleanup_old_models': 'keep_best_n' is -1.\n  It has to be a number from 0.",
        ),
        ({"keep": 20}, "option 'cleanup_old_models': 'keep' is 20.\n  It has to be a list of epochs."),
    ],
)
def test_wrong_option(option, text):
    with pytest.raises(ConfigError) as error:
        cleanup_policy(option)
    assert str(error.value) == text
