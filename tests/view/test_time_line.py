"""What happened in a run."""

import time

import pytest

from returnn.view.time_line import time_line
from tests.view.files import END, EPOCH, START


def test_of_a_record():
    again = {**START, "time": 2000.0, "epoch": 2}
    failed = {"event": "end", "time": 2010.0, "error": "NonFiniteError: the loss is not finite"}
    found = time_line([START, EPOCH, again, failed], ["no such file.log"])
    assert [(event.kind, event.text) for event in found] == [
        ("start", "starts at epoch 1, on here, pid 7"),
        ("epoch", "epoch 1"),
        ("start", "starts again at epoch 2, on here, pid 7"),
        ("error", "NonFiniteError: the loss is not finite"),
    ]
    assert time_line([END], [])[0].kind == "end"


@pytest.mark.parametrize(
    ("epoch", "model"), [(3, "epoch 3"), (0, "a checkpoint without epoch"), (None, "a checkpoint without epoch")]
)
def test_of_a_search(epoch, model):
    line = {"event": "search", "time": 1030.0, "epoch": epoch, "options": "++beam_size 4", "scores": ["WER 5%"]}
    assert time_line([line], [])[0].text == f"search with {model}, ++beam_size 4: WER 5%"


def test_of_logs(tmp_path):
    log = tmp_path / "x.log"
    log.write_text(
        "RETURNN 2.0.0 starts, 2024-01-02 03:04:05, pid 9, host\nepoch 1\nerror: option 'x' is wrong.\n"
        "RETURNN starting up, version 1.2, date/time 2024-01-03-03-04-05 (UTC+0100), pid 10\n"
        "Traceback:\nValueError: bad\nother\n"
    )
    found = time_line([], [str(log), str(tmp_path / "gone.log")])
    assert [event.kind for event in found] == ["start", "error", "start", "error"]
    assert found[0].time == time.mktime(time.strptime("2024-01-02 03:04:05", "%Y-%m-%d %H:%M:%S"))
    assert found[1].time == found[2].time == 1704247445
    assert [event.text for event in found[1::2]] == ["error: option 'x' is wrong.", "ValueError: bad"]
    log.write_bytes(b"\xff\0" * 1000)
    assert time_line([], [str(log)]) == []
