"""Which files are those of runs."""

import os

from returnn.view.run_files import files_of_run, find_runs
from tests.view.files import PNG, START, scalar_event, write_learning_rates, write_record


def relative(folder, names):
    return [os.path.relpath(name, folder) for name in names]


def test_runs_are_the_highest_folders_with_a_file_of_a_run(tmp_path):
    write_record(tmp_path / "a" / "net.run.jsonl", START)
    write_learning_rates(tmp_path / "a" / "below" / "learning_rates", dev_score=[1.0])
    write_learning_rates(tmp_path / "b" / "output" / "newbob.data", dev_score=[1.0])
    (tmp_path / "c" / "tb" / "train").mkdir(parents=True)
    (tmp_path / "c" / "tb" / "train" / "events.out.tfevents.1.host").write_bytes(scalar_event(1, loss=1))
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x.txt").write_text("{}")
    assert relative(tmp_path, find_runs(str(tmp_path))) == ["a", "b/output", "c/tb/train"]
    assert relative(tmp_path, find_runs(str(tmp_path / "d"))) == ["d"]


def test_files_of_a_run(tmp_path):
    write_record(tmp_path / "net.run.jsonl", START)
    for name in (
        "a.config",
        "x_config.py",
        "train.log",
        "attention/epoch-001/seq.png",
        "net.svg",
        "learning_curve.png",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(PNG)
    (tmp_path / "large.png").write_bytes(b"x" * (5 * 1024**2 + 1))
    (tmp_path / "gone.png").symlink_to(tmp_path / "nothing")
    (tmp_path / "loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.log")  # who opens it waits
    os.mkfifo(tmp_path / "pipe")
    found = files_of_run(str(tmp_path))
    assert relative(tmp_path, found.configs) == ["a.config", "x_config.py"]
    assert relative(tmp_path, found.logs) == ["train.log"]
    assert relative(tmp_path, found.pictures) == ["net.svg", "attention/epoch-001/seq.png"]
    assert found.have_a_run
    assert found.problems == []
