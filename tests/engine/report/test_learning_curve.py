import importlib

import pytest

from returnn.config import Config
from returnn.engine.learning_rate_file import EpochData
from returnn.engine.report import learning_curve
from returnn.engine.report.learning_curve import LearningCurve, draw_learning_curve, learning_curve_filename
from returnn.log import log
from returnn.util.errors import UserError
from returnn.util.system.warn_once import forget_shown

EPOCHS = {
    1: EpochData(learning_rate=0.1, error={"train_score": 2.0, "dev_score": 2.5, "dev_error": 0.9}),
    2: EpochData(learning_rate=0.05, error={"train_score": 1.0, "dev_score": 1.5, "dev_error": 0.0}),
    3: EpochData(learning_rate=0.05),
}


def test_picture_is_written_and_replaced(tmp_path):
    file = tmp_path / "plots" / "curve.png"
    draw_learning_curve(str(file), {1: EPOCHS[1]})
    first = file.read_bytes()
    assert first.startswith(b"\x89PNG")
    draw_learning_curve(str(file), EPOCHS, best_epoch=2)
    assert file.read_bytes() != first
    assert [path.name for path in file.parent.iterdir()] == ["curve.png"]


def test_other_formats_by_suffix(tmp_path):
    draw_learning_curve(str(tmp_path / "curve.svg"), EPOCHS)
    assert "<svg" in (tmp_path / "curve.svg").read_text()


def test_without_scores_there_are_empty_axes(tmp_path):
    draw_learning_curve(str(tmp_path / "curve.png"), {})
    assert (tmp_path / "curve.png").exists()


@pytest.mark.parametrize(
    ("options", "filename"),
    [
        ({"learning_rate_file": "a/rates", "model": "b/net"}, "a/learning_curve.png"),
        ({"model": "b/net"}, "b/learning_curve.png"),
        ({"learning_rate_file": "rates"}, "learning_curve.png"),
        ({"model": "b/net", "learning_curve_file": "c.svg"}, "c.svg"),
        ({"model": "b/net", "learning_curve_file": None}, None),
        ({}, None),
    ],
)
def test_file_is_beside_the_learning_rate_file_or_the_model(options, filename):
    assert learning_curve_filename(Config(options)) == filename


def test_hint_comes_once_without_matplotlib(tmp_path, capsys, monkeypatch):
    def fail(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(importlib, "import_module", fail)
    log.initialize()
    forget_shown()
    curve = LearningCurve(str(tmp_path / "curve.png"))
    for _ in range(2):
        curve.update(EPOCHS)
        curve.finish()
    assert capsys.readouterr().out.splitlines() == [
        "WARNING: The package 'matplotlib' is needed for learning_curve.png. pip install matplotlib"
    ]
    assert not list(tmp_path.iterdir())


def test_nothing_is_done_without_a_file(monkeypatch):
    monkeypatch.setattr(learning_curve, "draw_learning_curve", None)
    curve = LearningCurve(None)
    curve.update(EPOCHS)
    curve.finish()


def test_training_goes_on_if_the_file_cannot_be_written(tmp_path, capsys):
    (tmp_path / "file").write_text("not a folder")
    log.initialize()
    file = str(tmp_path / "file" / "curve.png")
    with pytest.raises(UserError):
        draw_learning_curve(file, EPOCHS)
    curve = LearningCurve(file)
    curve.update(EPOCHS)
    curve.finish()
    assert capsys.readouterr().out == f"WARNING: cannot write the file {file!r}: Not a directory.\n"


def test_is_drawn_when_ten_seconds_are_over_and_at_the_end(tmp_path, monkeypatch):
    now, drawn = [100.0], []
    monkeypatch.setattr(learning_curve.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(learning_curve, "draw_learning_curve", lambda _, epochs, **__: drawn.append(len(epochs)))
    curve = LearningCurve(str(tmp_path / "curve.png"))
    curve.finish()
    assert drawn == []  # no epoch has ended

    for seconds, num_epochs in [(109.9, 1), (110.0, 2), (119.9, 3), (125.0, 4), (126.0, 5)]:
        now[0] = seconds
        curve.update(dict.fromkeys(range(num_epochs), EPOCHS[1]))
    assert drawn == [2, 4]
    for _ in range(2):
        curve.finish()
    assert drawn == [2, 4, 5]
