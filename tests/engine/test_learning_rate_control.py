import math
import sys

import numpy
import pytest

from returnn.config import Config
from returnn.engine.epochs import Epochs
from returnn.engine.learning_rate_control import (
    ConstantLearningRate,
    LearningRateControl,
    NewbobAbs,
    NewbobMultiEpoch,
    NewbobRelative,
    constant_around_pretraining,
    demo,
    learning_rate_control_type,
    load_learning_rate_control_from_config,
    recalculate,
)
from returnn.engine.learning_rate_file import EpochData, read_learning_rate_file
from returnn.util.errors import ConfigError, UserError


def _control(**options):
    return load_learning_rate_control_from_config(Config(options))


def _train(control, scores, key="dev_score"):
    """:return: the learning rates of the epochs with these scores, and of the one after"""
    rates = []
    for epoch, score in enumerate(scores, start=1):
        rates.append(control.get_learning_rate_for_epoch(epoch))
        control.set_epoch_error(epoch, {key: score})
    return [*rates, control.get_learning_rate_for_epoch(len(scores) + 1)]


def test_names():
    for name, cls in [
        ("constant", ConstantLearningRate), ("newbob", NewbobRelative), ("newbob_rel", NewbobRelative),
        ("newbob_relative", NewbobRelative), ("newbob_abs", NewbobAbs), ("newbob_multi_epoch", NewbobMultiEpoch),
    ]:  # fmt: skip
        assert learning_rate_control_type(name) is cls
        assert type(_control(learning_rate_control=name)) is cls
    with pytest.raises(ConfigError) as info:
        _control(learning_rate_control="newbob_multi")
    assert str(info.value).startswith(
        "option 'learning_rate_control': got 'newbob_multi', but expected one of 'constant', 'newbob', "
    )


def test_constant():
    assert _train(_control(learning_rate=0.1), [3, 4, 5]) == [0.1] * 4
    assert not ConstantLearningRate.need_error_info


def test_learning_rates_of_the_config_come_first():
    control = _control(learning_rate=0.1, learning_rates=[0.01, 0.05])
    assert _train(control, [3, 4, 5]) == [0.01, 0.05, 0.05, 0.05]
    control = _control(learning_rate=0.1, learning_rates={2: 0.01, 4: 0.05})
    assert _train(control, [3, 4, 5, 6]) == [0.1, 0.01, 0.01, 0.05, 0.05]
    control = _control(learning_rate=0.1, learning_rates={2: 0.01}, learning_rate_control="newbob")
    assert _train(control, [3, 1, 0.1]) == [0.1, 0.01, 0.01, 0.01]


def test_learning_rates_are_by_epochs():
    for wrong in (0, -1, "1"):
        with pytest.raises(ConfigError, match="is no epoch"):
            _control(learning_rates={wrong: 0.1})


def test_warm_up_then_newbob():
    control = _control(
        learning_rate=1.0, learning_rates=list(numpy.linspace(0.25, 1.0, num=4)), learning_rate_control="newbob"
    )
    assert _train(control, [5, 5, 5, 5, 5]) == [0.25, 0.5, 0.75, 1.0, 0.5, 0.25]


def test_newbob_relative():
    control = _control(learning_rate=1.0, learning_rate_control="newbob", newbob_relative_error_threshold=-0.1)
    # changes relative to the new score: -0.25, -0.05, -0.11
    assert _train(control, [5.0, 4.0, 3.8, 3.4]) == [1.0, 1.0, 1.0, 0.5, 0.5]


def test_relative_to_the_old_score():
    opts = {"learning_rate_control": "newbob", "newbob_relative_error_threshold": -0.22}
    assert _train(_control(**opts), [5.0, 4.0])[-1] == 1.0  # -1/4
    assert _train(_control(newbob_relative_error_div_by_old=True, **opts), [5.0, 4.0])[-1] == 0.5  # -1/5


def test_relative_to_the_learning_rate_too():
    control = _control(learning_rate=1.0, learning_rate_control_relative_error_relative_lr=True)
    control.epoch_data = {1: EpochData(learning_rate=1.0), 2: EpochData(learning_rate=0.1)}
    control.set_epoch_error(1, {"dev_score": 4.0})
    control.set_epoch_error(2, {"dev_score": 5.0})
    assert control.calc_relative_error(1, 2) == pytest.approx(0.2 / 0.1)


def test_newbob_abs():
    control = _control(learning_rate=1.0, learning_rate_control="newbob_abs", newbob_error_threshold=-0.5)
    assert _train(control, [5.0, 4.0, 3.6]) == [1.0, 1.0, 1.0, 0.5]


def test_newbob_multi_epoch():
    control = _control(
        learning_rate=1.0, learning_rate_control="newbob_multi_epoch", newbob_multi_num_epochs=2,
        newbob_multi_update_interval=2, newbob_learning_rate_decay=0.9,
    )  # fmt: skip
    # decides in the epochs 1, 3, 5, 7
    assert _train(control, [5.0, 4.0, 3.0, 4.0, 4.0, 4.0]) == pytest.approx([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.9])


def test_growth():
    opts = {"learning_rate": 1.0, "learning_rate_control": "newbob", "newbob_learning_rate_growth": 1.5}
    assert _train(_control(**opts), [5, 4, 4]) == [1.0, 1.0, 1.5, 0.75]
    # newbob_multi_epoch has a threshold of its own for growth
    opts.update(learning_rate_control="newbob_multi_epoch", newbob_multi_num_epochs=1, newbob_multi_update_interval=1)
    opts.update(newbob_relative_error_grow_threshold=-0.3)
    assert _train(_control(**opts), [5, 4, 2]) == [1.0, 1.0, 1.0, 1.5]


def test_decay_by_other_names_and_functions():
    opts = {"learning_rate": 1.0, "learning_rate_control": "newbob", "newbob_learning_rate_decay": 0.9}
    assert _train(_control(**opts), [1, 1])[-1] == 0.9
    assert _train(_control(learning_rate_decay=0.8, **opts), [1, 1])[-1] == 0.8
    assert _train(_control(learning_rate_decay=lambda rate: rate - 0.25, **opts), [1, 1])[-1] == 0.75
    with pytest.raises(
        ConfigError, match=r"option 'learning_rate_decay': got 'fast', but expected a number.* or a fun"
    ):
        _control(learning_rate_decay="fast")


def test_minimum():
    control = _control(learning_rate=1.0, learning_rate_control="newbob", min_learning_rate=0.3)
    assert _train(control, [1, 1, 1, 1]) == [1.0, 1.0, 0.5, 0.3, 0.3]


def test_minimal_number_of_epochs_with_a_learning_rate():
    control = _control(
        learning_rate=1.0, learning_rate_control="newbob", learning_rate_control_min_num_epochs_per_new_lr=3
    )
    assert _train(control, [1] * 8) == [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25]


def test_no_scores_no_change():
    control = _control(learning_rate=1.0, learning_rate_control="newbob")
    assert [control.get_learning_rate_for_epoch(epoch) for epoch in range(1, 5)] == [1.0] * 4


@pytest.mark.parametrize(
    ("wanted", "found", "expected"),
    [
        (None, ["train_score", "dev_score"], "dev_score"),
        (None, ["train_score", "dev_error_a", "dev_score_b", "dev_score_a"], "dev_score_a"),
        (None, ["train_score"], "train_score"),
        (None, ["old_format_score"], "old_format_score"),
        ("dev_error", ["dev_score", "dev_error"], "dev_error"),
        ("dev_error", ["dev_score_output", "dev_error_output"], "dev_error_output"),
        ("dev_error_output/output_prob", ["dev_score", "dev_error"], "dev_error"),
        (["dev_x", "dev_error"], ["dev_score", "dev_error"], "dev_error"),
        ("dev_x", ["dev_score", "dev_error"], "dev_score"),
        ("dev_error_fer", ["dev_loss_ce", "dev_loss_fer"], "dev_loss_fer"),
        ("dev_loss_fer", ["dev_score_ce", "dev_error_fer"], "dev_error_fer"),
        ("dev_error", [], None),
    ],
)
def test_error_measure(wanted, found, expected):
    control = _control(learning_rate_control_error_measure=wanted)
    control.set_epoch_error(1, dict.fromkeys(found, 1.0))
    assert control.get_error_key(1) == expected
    assert control.get_epoch_error_value(1) == (1.0 if found else None)


@pytest.mark.parametrize("measure", [None, "dev_score_output"])
def test_which_of_several_losses_counts_is_said_once(measure, capsys):
    control = ConstantLearningRate(0.1, error_measure_key=measure)
    for epoch in (1, 2):
        control.get_learning_rate_for_epoch(epoch)
        control.set_epoch_error(epoch, {"dev_score_output": 1.0, "dev_score_aux": 2.0, "dev_error_output": 0.5})
        assert control.get_error_key(epoch) == "dev_score_output"
    out = capsys.readouterr().out
    text = "of 'dev_score_output', 'dev_score_aux', the first one says which epoch is the best one"
    assert out.count(text) == (measure is None)


def test_the_file_knows_what_is_only_an_error(tmp_path):
    options = {"learning_rate_file": str(tmp_path / "rates")}
    control = _control(**options)
    control.get_learning_rate_for_epoch(1)
    control.set_epoch_error(1, {"train_loss_a": 0.1, "train_loss_ce": 2.0}, as_error={"a"})
    control.set_epoch_error(1, {"dev_loss_a": 0.3, "dev_loss_ce": 2.1}, as_error={"a"})
    control.save()
    assert "':meta:as_error': [\n'a',\n],\n'dev_loss_a': 0.3,\n" in (tmp_path / "rates").read_text()
    assert _control(**options).get_error_key(1) == control.get_error_key(1) == "dev_loss_ce"
    assert _control(**options, learning_rate_control_error_measure="dev_error").get_error_key(1) == "dev_loss_a"
    assert recalculate(Config({}), control) == {1: 1.0}
    control.epoch_data[1].meta.clear()  # as a file of the original
    assert control.get_error_key(1) == "dev_loss_a"


@pytest.mark.parametrize("measure", [None, "dev_score", "dev_score_ce", "dev_loss_ce"])
def test_a_training_that_goes_on_with_other_names_of_scores(measure, tmp_path):
    options = {
        "learning_rate": 1.0, "learning_rate_control": "newbob", "learning_rate_file": str(tmp_path / "rates"),
        "learning_rate_control_error_measure": measure,
    }  # fmt: skip
    control = _control(**options)
    for epoch, (score, error) in enumerate([(4.0, 0.5), (3.0, 0.6)], start=1):
        control.get_learning_rate_for_epoch(epoch)
        control.set_epoch_error(epoch, {"train_score": score, "dev_score": score, "dev_error": error})
    control.save()
    control = _control(**options)
    assert control.get_learning_rate_for_epoch(3) == 1.0
    assert control.get_last_best_epoch(2) == 2
    control.set_epoch_error(3, {"train_loss_ce": 3.0}, as_error=["fer"])
    control.set_epoch_error(3, {"dev_loss_ce": 3.0, "dev_loss_fer": 0.4}, as_error=["fer"])
    assert control.get_learning_rate_for_epoch(4) == 0.5
    assert control.get_last_best_epoch(2) == 2
    control.save()
    epochs = read_learning_rate_file(tmp_path / "rates")
    assert epochs[1].error == {"train_loss_ce": 4.0, "dev_loss_ce": 4.0, "dev_loss_fer": 0.5}
    assert [epochs[epoch].as_error for epoch in (1, 2, 3)] == [["fer"]] * 3


def test_an_epoch_that_is_trained_again_keeps_its_new_scores():
    control = _control()
    control.set_epoch_error(1, {"train_score": 4.0})
    control.set_epoch_error(1, {"train_loss_ce": 3.0})
    assert control.get_epoch_error_dict(1) == {"train_loss_ce": 3.0}


def test_file_has_the_documented_format(tmp_path):
    filename = tmp_path / "newbob.data"
    control = _control(learning_rate=0.001, learning_rate_file=str(filename))
    control.get_learning_rate_for_epoch(1)
    control.set_epoch_error(1, {"train_score": numpy.float32(0.5), "dev_score": 1.25})
    control.epoch_data[1].meta["device"] = "cpu"
    control.get_learning_rate_for_epoch(2)
    control.save()
    assert filename.read_text() == (
        "{\n1: EpochData(learningRate=0.001, error={\n"
        "':meta:device': 'cpu',\n'dev_score': 1.25,\n'train_score': 0.5,\n}),\n"
        "2: EpochData(learningRate=0.001, error={\n}),\n}\n"
    )


def test_save_and_load_is_identity(tmp_path):
    opts = {"learning_rate_control": "newbob", "learning_rate_file": str(tmp_path / "newbob.data")}
    control = _control(**opts)
    rates = _train(control, [5.0, 4.0, math.nan, math.inf, 3.0])
    control.epoch_data[2].meta["steps"] = 7
    control.save()
    other = _control(**opts)
    assert repr(other.epoch_data) == repr(control.epoch_data)
    assert [other.get_learning_rate_for_epoch(epoch) for epoch in range(1, 7)] == rates
    assert other.epoch_data[2].meta == {"steps": 7}
    assert other.epoch_data[2].error == {"dev_score": 4.0}


def test_files_of_older_versions_load(tmp_path):
    filename = tmp_path / "newbob.data"
    filename.write_text(
        "{1: EpochData(learningRate=0.001, error=0.5),\n"
        "2: EpochData(learningRate=numpy.float32(1e-05), error={'dev_score': np.float64(nan), 'dev_error': -1}),\n"
        "3: EpochData(learning_rate=None, error={}, meta={'a': 1})}"
    )
    epochs = read_learning_rate_file(filename)
    assert epochs[1].error == {"old_format_score": 0.5}
    assert epochs[2].learning_rate == 1e-05
    assert math.isnan(epochs[2].error["dev_score"])
    assert epochs[3].meta == {"a": 1}
    control = _control(learning_rate=0.1, learning_rate_file=str(filename))
    assert control.get_learning_rate_for_epoch(1) == 0.001
    assert control.get_learning_rate_for_epoch(3) == 0.1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{1: EpochData(learningRate=0.1", "line 1: '(' was never closed"),
        ("{1: exit(1)}", "line 1: 'exit(1)' is no literal"),
        ("[1]", "there is no dict of EpochData"),
        ("{1: EpochData(rate=1)}", "unexpected keyword argument 'rate'"),
    ],
)
def test_broken_file_is_an_error_and_runs_no_code(tmp_path, content, reason):
    filename = tmp_path / "newbob.data"
    filename.write_text(content)
    with pytest.raises(UserError) as info:
        _control(learning_rate_file=str(filename))
    assert str(info.value).startswith(f"learning rate file '{filename}' cannot be read: ")
    assert reason in str(info.value)
    assert len(str(info.value).splitlines()) == 2


def test_file_that_cannot_be_written(tmp_path):
    control = _control(learning_rate_file=str(tmp_path / "missing" / "newbob.data"))
    with pytest.raises(UserError, match=r"cannot write the file '.*newbob\.data': there is no folder '.*missing'\."):
        control.save()


def test_config_can_change_the_learning_rates_of_epochs_to_come(tmp_path):
    opts = {"learning_rate_file": str(tmp_path / "newbob.data"), "learning_rate": 0.1}
    control = _control(learning_rates=[1.0, 2.0, 3.0], **opts)
    control.set_epoch_error(1, {"dev_score": 1.0})
    control.save()
    control = _control(learning_rates=[5.0, 6.0], **opts)
    assert [control.get_learning_rate_for_epoch(epoch) for epoch in (1, 2, 3, 4)] == [1.0, 6.0, 3.0, 6.0]


def test_last_best_epoch():
    control = _control()
    for epoch, score in enumerate([5.0, 2.0, 3.0, 2.0, 4.0], start=1):
        control.set_epoch_error(epoch, {"dev_score": score})
    control.set_epoch_error(6, {"dev_score": math.nan})
    assert control.get_last_best_epoch(6) == 4
    assert control.get_last_best_epoch(3) == 2
    assert control.get_last_best_epoch(5, first_epoch=5) == 5
    assert control.get_last_best_epoch(5, only_last_epochs=1) == 5
    assert control.get_last_best_epoch(5, filter_score=1.0) is None
    assert control.get_last_best_epoch(5, filter_score=3.0, only_last_n=3) == 4
    assert control.get_last_best_epoch(3, min_score_dist=0.5) == 2
    assert control.get_last_best_epoch(3, min_score_dist=1.5) is None
    assert control.get_last_best_epoch(0) is None


def test_scores_of_another_kind_are_not_compared():
    control = _control()
    control.set_epoch_error(1, {"train_score": 0.1})
    control.set_epoch_error(2, {"dev_score": 5.0})
    assert control.get_last_best_epoch(2) == 2
    assert control.calc_relative_error(1, 2) is None


def test_zero_scores():
    control = _control()
    for epoch, score in enumerate([0.0, 0.0, 1.0, 0.0], start=1):
        control.set_epoch_error(epoch, {"dev_score": score})
    assert control.calc_relative_error(1, 2) == 0.0
    assert control.calc_relative_error(2, 3) == 1.0
    assert control.calc_relative_error(3, 4) == -math.inf


PRETRAINING = {"pretrain": {"construction_algo": lambda idx, net: net if idx < 2 else None, "repetitions": [1, 1, 0]}}


def _constants(**options):
    config = Config({"network": {"output": {}}, "learning_rate": 0.1, **PRETRAINING, **options})
    return [constant_around_pretraining(config, Epochs(config), epoch) for epoch in range(1, 6)]


def test_constant_learning_rates_around_a_pretraining():
    assert _constants() == [0.1, 0.1, 0.1, None, None]
    assert _constants(pretrain_learning_rate=0.5, learning_rates=[1.0] * 5) == [0.5, 0.5, 0.1, None, None]
    assert _constants(pretrain_learning_rate=0.5, use_learning_rate_control_always=True) == [None] * 5
    assert _constants(pretrain_learning_rate=0.0)[:3] == [0.0, 0.0, 0.1]
    assert _constants(pretrain=None, pretrain_learning_rate=0.5) == [None] * 5


def test_recalculated_rates_are_constant_around_a_pretraining():
    options = {"learning_rate": 0.1, "pretrain_learning_rate": 0.5, "learning_rate_control": "newbob"}
    config = Config({"network": {"output": {}}, **PRETRAINING, **options})
    control = load_learning_rate_control_from_config(config)
    _train(control, [1, 1, 1, 1, 1])
    assert list(recalculate(config, control).values()) == [0.5, 0.5, 0.1, 0.05, 0.025, 0.0125]


def test_own_class():
    class Halve(LearningRateControl):
        def calc_learning_rate_for_epoch(self, epoch):
            return self.get_most_recent_learning_rate(epoch) / 2

    assert _train(Halve(default_learning_rate=1.0), [1]) == [0.5, 0.25]


def test_demo_recalculates(tmp_path, monkeypatch, capsys):
    filename = tmp_path / "newbob.data"
    config = tmp_path / "my.config"
    config.write_text(
        f"#!rnn.py\nlearning_rate = 1.0\nlearning_rate_control = 'newbob'\nlearning_rate_file = {str(filename)!r}\n"
        "pretrain = {'construction_algo': 'no_network_modifications'}\nnetwork = {'output': {}}\n"
    )
    control = _control(learning_rate=1.0, learning_rate_control="newbob", learning_rate_file=str(filename))
    _train(control, [1, 1, 1])
    control.save()
    monkeypatch.setattr(sys, "argv", ["demo", str(config), "++check_learning_rates", "True"])
    demo()
    assert "epoch 4: learning rate 0.25, in the file 0.25\n" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", [*sys.argv, "++newbob_learning_rate_decay", "0.9"])
    with pytest.raises(UserError, match=r"Epoch 3 was trained with another learning rate than the config asks for\."):
        demo()
