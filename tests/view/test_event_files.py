"""Event files: those of the engine, and those that are broken anywhere."""

import random

import pytest

from returnn.engine.report.summaries import Summaries
from returnn.view.event_files import EventFile, joined_scalars
from tests.view.files import message, record, scalar_event


def read(path):
    file = EventFile(str(path))
    file.update()
    return file


def test_what_the_engine_writes(tmp_path):
    summaries = Summaries(str(tmp_path))
    for start_step in (0, 2):  # the second run begins anew after two of three steps
        with summaries.of_pass("train", start_step=start_step):
            for i in range(3):
                summaries.write_step("train", {"loss:ce": start_step + 10.0 * i}, {"learning_rate": 0.5})
        summaries.close()
    files = [read(path) for path in sorted((tmp_path / "train").iterdir())]
    assert len(files) == 2
    scalars = joined_scalars(files)
    assert scalars["loss/ce"] == {0: 0.0, 1: 10.0, 2: 2.0, 3: 12.0, 4: 22.0}
    assert scalars["learning_rate"] == dict.fromkeys(range(5), 0.5)


def test_values_of_tensors(tmp_path):
    tensors = {
        "content": message(f1=1, f4=b"\0\0\x80?"), "float": message(f1=1, f5=b"\0\0\x80?"),
        "int": message(f1=3, f4=b"\1\0\0\0"), "text": message(f1=7, f8="no number"),
        "vector": message(f1=1, f4=b"\0\0\x80?\0\0\x80?"),
    }  # fmt: skip
    values = b"".join(message(f1=message(f1=tag, f8=tensor)) for tag, tensor in tensors.items())
    (tmp_path / "x").write_bytes(record(message(f2=3, f5=values)))
    assert read(tmp_path / "x").scalars == {"content": {3: 1.0}, "float": {3: 1.0}, "int": {3: 1.0}}


def test_a_file_that_grows_is_read_on(tmp_path):
    path = tmp_path / "x"
    data = b"".join(scalar_event(step, loss=step) for step in range(300))
    file = EventFile(str(path))
    rnd = random.Random(1)
    end = 0
    while end < len(data):
        end = min(end + rnd.randrange(400), len(data))
        path.write_bytes(data[:end])
        file.update()
        assert list(file.scalars.get("loss", {})) == list(range(len(file.scalars.get("loss", {}))))
    assert file.scalars == {"loss": {step: float(step) for step in range(300)}}
    path.write_bytes(scalar_event(1, other=1))
    file.update()
    assert file.scalars == {"other": {1: 1.0}}


def test_a_broken_file_says_so_and_keeps_what_was_before(tmp_path):
    (tmp_path / "x").write_bytes(scalar_event(1, loss=1) + b"\xff" * 50)
    file = read(tmp_path / "x")
    assert file.scalars == {"loss": {1: 1.0}}
    assert "this is no event file, from byte " in file.problem
    (tmp_path / "y").write_bytes(scalar_event(1, loss=1) + record(b"\x2a\xff\x01"))
    assert "a field is longer than the record" in read(tmp_path / "y").problem


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes_are_no_more_than_a_problem(seed, tmp_path):
    rnd = random.Random(seed)
    data = bytearray(b"".join(scalar_event(step, loss=1, error=2) for step in range(20)))
    for _ in range(rnd.randrange(1, 10)):
        data[rnd.randrange(len(data))] = rnd.randrange(256)
    path = tmp_path / "x"
    path.write_bytes(bytes(data)[: rnd.randrange(len(data))])
    file = read(path)
    assert all(isinstance(value, float) for points in file.scalars.values() for value in points.values())
