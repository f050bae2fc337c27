import pytest

from returnn.engine.score_names import default_scores, find_score, named_scores, new_names

BY_KIND = ["dev_error_fer", "dev_score_aux", "dev_score_ce"]
SINGLE = ["dev_error", "dev_score"]
LOSSES = ["dev_loss_aux", "dev_loss_ce", "dev_loss_fer"]


def test_names_of_each_backend():
    means = {"loss:ce": 2.0, "error:fer": 0.5}
    assert named_scores("dev", means, all_are_losses=True) == {"dev_loss_ce": 2.0, "dev_loss_fer": 0.5}
    assert named_scores("dev", means, all_are_losses=False) == {"dev_score": 2.0, "dev_error": 0.5}
    more = {**means, "loss:aux": 3.0}
    expected = {"dev_score_ce": 2.0, "dev_score_aux": 3.0, "dev_error": 0.5}
    assert named_scores("dev", more, all_are_losses=False) == expected
    assert named_scores("x_y", {"loss:ce": 2.0}, all_are_losses=True) == {"x_y_loss_ce": 2.0}


@pytest.mark.parametrize(
    ("wanted", "found", "errors", "expected"),
    [
        # names of TensorFlow, and of PyTorch in earlier versions, in a file of PyTorch
        ("dev_score_ce", LOSSES, ["fer"], "dev_loss_ce"),
        ("dev_error_fer", LOSSES, ["fer"], "dev_loss_fer"),
        ("dev_error_fer", LOSSES, [], "dev_loss_fer"),
        ("dev_score", LOSSES, ["fer", "aux"], "dev_loss_ce"),
        ("dev_error", LOSSES, ["fer"], "dev_loss_fer"),
        ("dev_error", LOSSES, [], None),
        ("dev_score", LOSSES, [], "dev_loss_aux"),
        ("dev_score", ["dev_loss_aux", "dev_loss_output"], [], "dev_loss_output"),
        # the reverse
        ("dev_loss_ce", BY_KIND, [], "dev_score_ce"),
        ("dev_loss_fer", BY_KIND, [], "dev_error_fer"),
        ("dev_loss_output", ["dev_error_output", "dev_score_output"], [], "dev_score_output"),
        ("dev_loss_ce", ["dev_score", "train_score"], [], "dev_score"),
        ("dev_loss_ce", SINGLE, ["fer"], "dev_score"),
        ("dev_loss_fer", SINGLE, ["fer"], "dev_error"),
        ("dev_loss_fer", SINGLE, [], None),  # it may be the one or the other
        ("dev_loss", SINGLE, [], "dev_score"),
        # the same names, with and without the loss
        ("dev_loss_fer", LOSSES, [], "dev_loss_fer"),
        ("dev_error_fer", SINGLE, [], "dev_error"),
        ("dev_error", BY_KIND, [], "dev_error_fer"),
        ("dev_score_x", BY_KIND, [], None),
        ("dev_loss_x", LOSSES, ["fer"], None),
        ("train_loss_ce", LOSSES, [], None),
        ("dev_clean_score_ce", ["dev_clean_loss_ce", "dev_loss_ce"], [], "dev_clean_loss_ce"),
        ("dev_loss_ce:exp", ["dev_score_ce", "dev_score_ce:exp"], [], "dev_score_ce:exp"),
        ("old_format_score", ["old_format_score"], [], "old_format_score"),
        ("time", ["time", "dev_score"], [], "time"),
        ("other", ["time", "dev_score"], [], None),
    ],
)  # fmt: skip
def test_a_score_is_found_by_all_its_names(wanted, found, errors, expected):
    assert find_score(wanted, found, errors) == expected


def test_losses_decide_before_errors():
    assert default_scores(["train_loss_ce", *LOSSES], ["fer"]) == ["dev_loss_aux", "dev_loss_ce"]
    assert default_scores(["dev_loss_ce", "dev_loss_a"], ["a"]) == ["dev_loss_ce"]
    assert default_scores(["dev_loss_ce", "dev_loss_a"]) == ["dev_loss_a", "dev_loss_ce"]
    assert default_scores(["train_loss_ce", "dev_loss_fer"], ["fer"]) == ["dev_loss_fer"]
    assert default_scores(["time", "other"]) == ["other", "time"]


def test_by_default_the_layer_output_decides():
    """As with the original: an auxiliary CTC loss, or one that is only looked at, decides about no learning rate."""
    of_layers = ["dev_score_ctc", "dev_score_output/prob", "dev_error_output/prob"]
    assert default_scores(of_layers) == ["dev_score_output/prob", "dev_score_ctc"]
    assert default_scores([*of_layers, "dev_score_output"])[0] == "dev_score_output"
    assert find_score("dev_score", of_layers) == "dev_score_output/prob"
    assert find_score("dev_error", of_layers) == "dev_error_output/prob"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (SINGLE, ["dev_loss_ce", "dev_loss_fer"], {"dev_score": "dev_loss_ce", "dev_error": "dev_loss_fer"}),
        (BY_KIND, LOSSES, dict(zip(BY_KIND, ["dev_loss_fer", "dev_loss_aux", "dev_loss_ce"], strict=True))),
        (SINGLE, LOSSES, {"dev_error": "dev_loss_fer"}),  # which one the only loss was, is not known
        (["train_score", "x"], LOSSES, {}),
        (LOSSES, LOSSES, {}),
        (LOSSES, BY_KIND, {}),
    ],
)
def test_names_of_earlier_versions(old, new, expected):
    assert new_names(old, new, ["fer"]) == expected
