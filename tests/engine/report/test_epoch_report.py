import pytest

from returnn.config import Config
from returnn.engine.learning_rate_control import load_learning_rate_control_from_config
from returnn.engine.report.epoch_report import EpochReport, note_duration
from returnn.log import log


@pytest.fixture
def control(tmp_path):
    log.initialize(verbosity=[3])
    control = load_learning_rate_control_from_config(Config({"learning_rate_file": str(tmp_path / "rates")}))
    for epoch, score in [(1, 3.0), (2, 2.0), (3, 2.5)]:
        control.get_learning_rate_for_epoch(epoch)
        control.set_epoch_error(epoch, {"dev_score": score})
    yield control
    log.initialize()


def test_table_goes_to_the_log_and_the_picture_beside_the_file(control, tmp_path, capsys):
    report = EpochReport(Config({"learning_rate_file": str(tmp_path / "rates")}), control)
    report.epoch(3)
    report.finish()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[3:]] == ["1", "2*", "3", "*"]
    assert (tmp_path / "learning_curve.png").exists()


def test_low_verbosity_has_no_table(control, capsys):
    log.initialize(verbosity=[2])
    EpochReport(Config({}), control).epoch(3)
    assert capsys.readouterr().out == ""


def test_duration_is_kept_in_the_file(control, tmp_path):
    note_duration(control, 2, 61.23456)
    control.save()
    control.load()
    assert control.epoch_data[2].meta == {"epoch_train_time_secs": 61.2}
    assert "':meta:epoch_train_time_secs': 61.2" in (tmp_path / "rates").read_text()
