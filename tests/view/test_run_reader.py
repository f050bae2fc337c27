"""All that is shown of a run, whole or half-written or broken."""

import json
import random

import pytest

from returnn.util.files.lock_holder import LockHolder
from returnn.view.page import make_readers
from returnn.view.run_reader import RunReader
from tests.view.files import (
    END,
    EPOCH,
    PNG,
    SEARCH,
    START,
    scalar_event,
    write_learning_rates,
    write_record,
)  # fmt: skip


def read(folder):
    found = RunReader(str(folder), "run").read()
    json.dumps(found, allow_nan=False)
    return found


def test_a_run(tmp_path):
    start = {**START, "options": {"batch_size": 5, "num_epochs": 2}}
    write_record(tmp_path / "net.run.jsonl", start, EPOCH, SEARCH, END)
    (tmp_path / "tensorboard" / "train").mkdir(parents=True)
    event_file = tmp_path / "tensorboard" / "train" / "events.out.tfevents.1"
    event_file.write_bytes(b"".join(scalar_event(step, loss=1) for step in range(1000)))
    picture = tmp_path / "attention" / "epoch-003" / "seq.png"
    picture.parent.mkdir(parents=True)
    picture.write_bytes(PNG)
    found = read(tmp_path)
    assert found["problems"] == []
    assert (found["state"], found["num_epochs"], found["options_source"]) == ("finished", 2, "the run")
    assert found["options"] == {"batch_size": 5, "num_epochs": 2}
    assert found["epochs"] == {
        "epoch": [1], "learning_rate": [0.1], "scores": {"dev_error": [0.5], "dev_score": [2.5]}, "duration_s": [9.0],
        "data_wait_s": [1.0], "memory_bytes": [10**9],
    }  # fmt: skip
    (curve,) = found["steps"]
    assert (curve["data"], curve["tag"], curve["x"][-1], set(curve["y"])) == ("train", "loss", 999, {1.0})
    assert len(curve["x"]) <= 400
    (search,) = found["searches"]
    assert search["samples"] == [{"tag": "seq-1", "words": [("a", "a"), ("x", "b"), ("c", "c"), (None, "d")]}]
    (picture,) = found["pictures"]
    assert (picture["epoch"], picture["is_attention"], picture["name"]) == (3, True, "seq")


def test_a_run_of_the_original(tmp_path):
    (tmp_path / "newbob.data").write_text(
        "{1: EpochData(learningRate=0.001, error={\n'dev_error': 0.25,\n'dev_score': 1.5,\n'train_score': nan,\n"
        "':meta:epoch_train_time_secs': 12}),\n2: EpochData(learningRate=0.0005, error={})}\n"
    )
    (tmp_path / "returnn.config").write_text("#!rnn.py\nbatch_size = 5000\nnum_epochs = 2\n")
    (tmp_path / "returnn.log").write_text("RETURNN starting up, date/time 2024-01-03-03-04-05 (UTC+0000), pid 1\n")
    found = read(tmp_path)
    assert found["problems"] == []
    assert found["epochs"]["scores"] == {
        "train_score": [None, None],
        "dev_score": [1.5, None],
        "dev_error": [0.25, None],
    }
    assert found["epochs"]["learning_rate"] == [0.001, 0.0005]
    assert found["epochs"]["duration_s"] == [12, None]
    assert (found["options"]["batch_size"], found["num_epochs"], found["state"]) == (5000, 2, "")
    assert found["time_line"][0]["kind"] == "start"


def test_models_of_one_folder_are_a_run_each(tmp_path):
    for i, score in enumerate([2.5, 3.5], start=1):
        options = {"learning_rate_file": f"out/rates.{i}", "tf_log_dir": f"./out/tb/{i}"}
        epoch = {**EPOCH, "scores": {"dev_score": score}}
        write_record(tmp_path / "out" / f"net{i}.run.jsonl", {**START, "options": options}, epoch)
        write_learning_rates(tmp_path / "out" / f"rates.{i}", dev_score=[score])
        (tmp_path / "out" / "tb" / str(i) / "train").mkdir(parents=True)
        event_file = tmp_path / "out" / "tb" / str(i) / "train" / "events.out.tfevents.1"
        event_file.write_bytes(scalar_event(1, loss=score))
        (tmp_path / "out" / f"net{i}.network.svg").write_text("<svg/>")
    (tmp_path / "out" / "other.svg").write_text("<svg/>")
    write_learning_rates(tmp_path / "out" / "others", dev_score=[7.0])
    found = {reader.name: reader.read() for reader in make_readers([str(tmp_path / "out")])}
    assert list(found) == ["out/net1", "out/net2"]
    for run, score in zip(found.values(), [2.5, 3.5], strict=True):
        assert (run["epochs"]["scores"], run["problems"]) == ({"dev_score": [score]}, [])
        assert [curve["y"] for curve in run["steps"]] == [[score]]
    pictures = {name: [picture["path"] for picture in run["pictures"]] for name, run in found.items()}
    assert pictures == {"out/net1": ["net1.network.svg", "other.svg"], "out/net2": ["net2.network.svg", "other.svg"]}


def test_states(tmp_path):
    record = tmp_path / "net.run.jsonl"
    write_record(record, START, EPOCH)
    assert read(tmp_path)["state"] == "killed"
    (tmp_path / "net.lock").write_text(LockHolder.this_process().text())
    assert read(tmp_path)["state"] == "running"
    dead = json.loads(LockHolder.this_process().text())
    (tmp_path / "net.lock").write_text(json.dumps({**dead, "process_start": "0"}))
    assert read(tmp_path)["state"] == "killed"
    (tmp_path / "net.lock").write_text("{")
    assert read(tmp_path)["state"] == "killed"
    write_record(record, START, {**END, "error": "NonFiniteError: x"})
    assert read(tmp_path)["state"] == "failed"


def test_a_line_that_is_being_written_is_not_there_yet(tmp_path):
    record = tmp_path / "net.run.jsonl"
    whole = json.dumps(EPOCH)
    record.write_text(json.dumps(START) + "\n" + whole[: len(whole) // 2])
    found = read(tmp_path)
    assert (found["problems"], found["epochs"]["epoch"]) == ([], [])
    record.write_text(json.dumps(START) + "\n" + whole + "\n")
    assert read(tmp_path)["epochs"]["epoch"] == [1]


WRONG_LINES = {
    "no JSON": "{x", "no dict": "3", "no event": "{}", "unknown event": '{"event": "x", "time": 1}',
    "no time": '{"event": "end"}', "time": '{"event": "end", "time": "x"}', "no epoch": '{"event": "epoch", "time": 1}',
    "nested": "[" * 100_000,
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG_LINES)
def test_wrong_lines_are_left_out(kind, tmp_path):
    (tmp_path / "net.run.jsonl").write_text(WRONG_LINES[kind] + "\n" + json.dumps(EPOCH) + "\n")
    found = read(tmp_path)
    (problem,) = found["problems"]
    assert "net.run.jsonl, line 1: is left out: " in problem
    assert found["epochs"]["epoch"] == [1]


@pytest.mark.parametrize("seed", range(40))
def test_lines_with_values_of_wrong_kinds_are_shown_as_far_as_they_go(seed, tmp_path):
    rnd = random.Random(seed)
    wrong = [None, "x", -1, 1e300, [], [1], {}, {"a": [1]}, True, [{"tag": 1}], [{"hypothesis": "a", "reference": 2}]]
    lines = []
    for line in (START, EPOCH, SEARCH, END):
        changed = {key: rnd.choice(wrong) if rnd.random() < 0.4 else value for key, value in line.items()}
        lines.append({**changed, "event": line["event"]})
    write_record(tmp_path / "net.run.jsonl", *lines)
    read(tmp_path)


def test_broken_files_are_named_and_the_rest_is_shown(tmp_path):
    write_learning_rates(tmp_path / "learning_rates", dev_score=[2.0, 1.0])
    (tmp_path / "broken_rates").write_text("{1: EpochData(learningRate=0.1, err")
    (tmp_path / "a.config").write_text("a = (\n")
    (tmp_path / "events.out.tfevents.1").write_bytes(b"\xff" * 100)
    (tmp_path / "x.svg").write_text("<svg")
    found = read(tmp_path)
    assert found["epochs"]["scores"] == {"dev_score": [2.0, 1.0]}
    assert len(found["problems"]) == 3
    for name in ("broken_rates", "a.config", "events.out.tfevents.1"):
        assert any(name in problem for problem in found["problems"])


def test_a_folder_without_a_run(tmp_path):
    assert read(tmp_path)["problems"] == [
        f"{tmp_path}: there is no learning-rate file, no file '*.run.jsonl' and no event file here"
    ]
    assert "no learning-rate file" in read(tmp_path / "gone")["problems"][0]
