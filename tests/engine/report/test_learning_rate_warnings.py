import pytest

from returnn.config import Config
from returnn.engine.learning_rate_control import learning_rate_control_type
from returnn.engine.report.learning_rate_warnings import (
    kept_learning_rate_text,
    unknown_measure_text,
    unset_learning_rate_text,
    unused_learning_rates_text,
)

PRETRAINING = {"pretrain": {"construction_algo": lambda idx, net: net if idx < 2 else None, "repetitions": [1, 1, 0]}}


@pytest.mark.parametrize("options", [
    {"learning_rate": 1.0}, {"learning_rates": [0.1] * 5}, {"optimizer": {"class": "adam", "learning_rate": 0.1}},
    {"dynamic_learning_rate": {"interval": 2, "decay": 0.5}}, {"optimizer": {"class": "adadelta"}}, {"adadelta": True},
])  # fmt: skip
def test_learning_rate_that_nobody_has_set_is_told(options):
    assert unset_learning_rate_text(Config({"optimizer": {"class": "adam"}, **options})) is None
    for without in ({}, {"optimizer": {"class": "adam"}}, {"optimizer": "adam"}):
        text = unset_learning_rate_text(Config(without))
        assert text == "the option 'learning_rate' is not set, so it is 1; with Adam, 0.001 is usual."


@pytest.mark.parametrize("control", ["constant", "newbob"])
def test_learning_rates_that_begin_after_the_first_epoch(control):
    options = {"learning_rates": {3: 0.1, 2: 0.2}, "learning_rate_control": control, "num_epochs": 9}
    text = unset_learning_rate_text(Config(options))
    assert text == (
        "the option 'learning_rates' begins with epoch 2, and 'learning_rate' is not set, so it is 1 before."
    )
    for fine in ({"learning_rate": 0.1}, {"learning_rates": [0.1, 0.2]}, {"learning_rates": {1: 0.1, 3: 0.01}}):
        assert unset_learning_rate_text(Config({**options, **fine})) is None


def test_score_of_a_loss_that_is_not_there():
    def text_of(*measures):
        config = Config({"learning_rate_control_error_measure": list(measures)})
        return unknown_measure_text(config, ["output/prob", "ctc"])

    for known in ("dev_score_output/prob", "dev_error_ctc", "dev_score_ctc:exp", "dev_loss_ctc", "dev_score"):
        assert text_of(known) is None
        assert text_of("dev_score_others", known) is None  # for several networks
    assert text_of() is None
    for wrong in ("dev_score_ctx", "dev_loss_ctx"):
        assert text_of(wrong) == (
            "option 'learning_rate_control_error_measure': there is no 'ctx' that could have a loss.\n"
            "  Did you mean 'ctc'?"
        )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"learning_rates": [0.1, 0.2], "learning_rate": 0.1}, "where 'learning_rate' does, and in epoch 3"),
        ({"learning_rates": {3: 0.2}, "pretrain_learning_rate": 0.5}, "where 'pretrain_learning_rate' does, and"),
        ({"learning_rates": [0.2] * 9}, "where 'learning_rate' does (1, as it is not set)."),
        ({"learning_rates": [0.2] * 9, "learning_rate": 0.1, "use_learning_rate_control_always": True}, None),
        ({"learning_rates": [0.1] * 3 + [0.2], "learning_rate": 0.1}, None),
        ({"learning_rates": {4: 0.2}, "learning_rate": 0.1}, None),
        ({"learning_rates": {3: 0.2}, "learning_rate": 0.1, "num_epochs": 2}, None),
        ({"learning_rates": [0.2] * 9, "pretrain": None}, None),
        ({"learning_rate": 0.1}, None),
    ],
)
def test_learning_rates_that_a_pretraining_does_not_take(options, expected):
    config = Config({"network": {"output": {}}, "num_epochs": 9, **PRETRAINING, **options})
    text = unused_learning_rates_text(config)
    assert text is None if expected is None else expected in text


def kept(epoch=4, **options):
    """:return: the warning before this epoch, after three with 0.3, 0.3, 0.15"""
    config = Config({"learning_rate": 0.3, "learning_rate_control": "newbob", **options})
    control = learning_rate_control_type(config.options.learning_rate_control).load_initial_from_config(config)
    for trained, rate in {1: 0.3, 2: 0.3, 3: 0.15}.items():
        control.set_default_learning_rate_for_epoch(trained, rate)
        control.set_epoch_error(trained, {"dev_score": 1 / trained})
    return kept_learning_rate_text(config, control, epoch)


def test_another_learning_rate_than_the_training_has_begun_with():
    assert kept(learning_rate=0.01) == (
        "option 'learning_rate': 0.01 is for the first epoch, which had 0.3. By 'newbob', epoch 4 has 0.15.\n"
        "  'learning_rates = {4: 0.01}' sets another one."
    )
    assert kept() is None
    assert kept(epoch=1, learning_rate=0.01) is None
    assert kept(learning_rate=0.01, learning_rates={4: 0.02}) is None
    assert kept(learning_rate=0.01, learning_rate_control="constant") is None
    assert kept(learning_rate=0.01, learning_rates=[0.3, 0.3, 0.2]) is None
