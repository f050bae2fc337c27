"""`MODEL.run.jsonl`."""

import json

import pytest

from returnn.config import Config
from returnn.engine.report.run_record import SUFFIX, RunRecord, run_record
from returnn.engine.search_results import print_scores
from returnn.log import log


class Thing:
    pass


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_where_it_is(tmp_path):
    assert run_record(Config({"model": str(tmp_path / "net")})).filename == str(tmp_path / "net.run.jsonl")
    for options in ({}, {"model": str(tmp_path / "net"), "dry_run": True}, {"model": str(tmp_path / "gone" / "net")}):
        record = run_record(Config(options))
        record.write("end")
        assert record.filename is None
    assert list(tmp_path.iterdir()) == []


def test_start_and_end_of_a_training(tmp_path):
    record = RunRecord(str(tmp_path / "x"))
    options = {
        "num_epochs": 3, "network": {"out": {"class": "copy", "from": ("data",)}}, "train": len, "thing": Thing(),
        "helper": len, "module": json, "_hidden": 1, "learning_rates": [0.5, float("inf")], "long": ["x" * 60_000],
    }  # fmt: skip
    with record.of_training(Config(options), epoch=2, num_epochs=3):
        pass
    with pytest.raises(ZeroDivisionError), record.of_training(Config({}), epoch=1, num_epochs=3):
        _ = 1 / 0
    start, end, _, failed = lines_of(tmp_path / "x")
    assert (start["event"], start["epoch"], start["num_epochs"]) == ("start", 2, 3)
    found = start["options"]
    assert sorted(found) == ["learning_rates", "long", "network", "num_epochs", "thing", "train"]
    assert found["network"] == {"out": {"class": "copy", "from": ["data"]}}
    assert found["train"].startswith("function ")
    assert " at 0x" not in found["thing"]
    assert found["learning_rates"] == [0.5, None]
    assert found["long"].startswith("60004 characters, checksum ")
    assert (end["event"], "error" in end) == ("end", False)
    assert failed["error"] == "ZeroDivisionError: division by zero"


def test_a_search(tmp_path):
    log.initialize(verbosity=[1])
    found = {f"seq-{i}": "a b" for i in range(99)}
    wanted = {f"seq-{i}": "a c </s>" for i in range(99)}
    print_scores(
        found, wanted, ["wer"], end_label="</s>", has_prefixes=False, record=RunRecord(str(tmp_path / "x")), epoch=7
    )
    (line,) = lines_of(tmp_path / "x")
    assert (line["event"], line["epoch"], len(line["samples"])) == ("search", 7, 50)
    assert line["samples"][0] == {"tag": "seq-0", "hypothesis": "a b", "reference": "a c"}
    assert line["scores"][0].startswith("WER 50.00%")


def test_a_search_is_told_apart_by_further_configs_and_options(tmp_path):
    config = Config()
    for name, text in (("base", f"model = {str(tmp_path / 'net')!r}"), ("nbest", "beam = 3")):
        (tmp_path / f"{name}.config").write_text(f"#!rnn.py\n{text}\n")
        config.load_file(str(tmp_path / f"{name}.config"))
    config.parse_cmd_args(["++task", "search", "++beam", "5"])
    run_record(config).write_search(3, {}, {}, [])
    (line,) = lines_of(tmp_path / f"net{SUFFIX}")
    assert line["options"] == "nbest.config ++beam 5"


def test_a_run_goes_on_without_it(tmp_path, capsys):
    log.initialize(verbosity=[3])
    record = RunRecord(str(tmp_path))  # a folder
    record.write("end")
    record.write("end")
    text = capsys.readouterr()
    assert (text.out + text.err).count("no more lines for 'returnn view': cannot write ") == 1
