import pytest

from returnn.engine.learning_rate_file import EpochData
from returnn.engine.report.epoch_table import DURATION_KEY, epoch_table, score_keys


def make_epochs(num_epochs, num_losses=1):
    names = [""] if num_losses == 1 else [f"_loss{i}" for i in range(num_losses)]
    return {
        epoch: EpochData(
            learning_rate=0.5**epoch,
            error={
                f"{data}_{kind}{name}": 1 / epoch
                for data in ("dev", "train")
                for kind in ("score", "error")
                for name in names
            },
            meta={DURATION_KEY: 60.0 * epoch},
        )
        for epoch in range(1, num_epochs + 1)
    }


def test_rows_have_rate_scores_and_time_and_the_best_is_marked():
    lines = epoch_table(make_epochs(2), best_epoch=2, measure="dev_error").splitlines()
    header = [" ".join(words) for words in zip(lines[0].split(), lines[1].split()[1:], strict=False)]
    assert header == ["learning rate", "dev error", "train error", "train score", "dev score"]
    assert lines[3].split() == ["1", "0.5", "1.0000", "1.0000", "1.0000", "1.0000", "0:01:00"]
    assert lines[4].split() == ["2*", "0.25", "0.5000", "0.5000", "0.5000", "0.5000", "0:02:00"]
    assert lines[5:] == ["* best dev error"]


def test_only_the_last_epochs_and_the_best_one_are_shown():
    lines = epoch_table(make_epochs(30), best_epoch=3).splitlines()
    assert [line.split()[0] for line in lines[3:-1]] == ["3*", *map(str, range(21, 31))]


def test_epoch_without_scores_is_not_shown():
    epochs = {**make_epochs(1), 2: EpochData(learning_rate=0.1)}
    assert len(epoch_table(epochs, best_epoch=None).splitlines()) == 4


@pytest.mark.parametrize("num_losses", [1, 2, 20])
@pytest.mark.parametrize("columns", [30, 60, 80, 200])
def test_table_is_never_wider_than_asked_for_and_the_measure_stays(columns, num_losses):
    measure = "dev_error" if num_losses == 1 else "dev_error_loss1"
    text = epoch_table(make_epochs(3, num_losses), best_epoch=None, measure=measure, columns=max(columns, 45))
    assert max(map(len, text.splitlines())) <= max(columns, 45)
    assert measure.partition("_")[2] in text
    shown = sum(word in ("dev", "train") for word in text.splitlines()[0].split())
    assert (f"{4 * num_losses - shown} other score" in text) == (shown < 4 * num_losses)


def test_ascii_only():
    assert epoch_table(make_epochs(3), best_epoch=1, ascii_only=True).isascii()


def test_scores_like_the_measure_come_first():
    keys = ["dev_error", "dev_score", "more_score", "train_error", "train_score"]
    epochs = {1: EpochData(error=dict.fromkeys(keys, 1.0))}
    expected = ["dev_score", "train_score", "more_score", "train_error", "dev_error"]
    assert score_keys(epochs, measure="dev_score") == expected


def test_scores_that_follow_from_others_come_last():
    keys = ["dev_loss_ce", "dev_loss_ce:exp", "dev_loss_fer", "train_loss_ce", "train_loss_ce:exp", "train_loss_fer"]
    epochs = {1: EpochData(error=dict.fromkeys(keys, 1.0))}
    expected = [
        "dev_loss_ce",
        "train_loss_ce",
        "train_loss_fer",
        "dev_loss_fer",
        "train_loss_ce:exp",
        "dev_loss_ce:exp",
    ]
    assert score_keys(epochs, measure="dev_loss_ce") == expected


def test_what_is_no_number_is_no_score():
    epochs = {1: EpochData(error={"dev_score": 1.0, "text": "x"})}
    assert score_keys(epochs) == ["dev_score"]
