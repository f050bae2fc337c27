import os
import stat
import time

import pytest

from returnn.util.system.job_time import job_time_left_s, parse_duration_s


@pytest.fixture(autouse=True)
def no_job(monkeypatch):
    for name in ("SLURM_JOB_END_TIME", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)


def test_without_a_batch_system_there_is_no_limit():
    assert job_time_left_s() is None


def test_end_of_the_job_in_the_environment(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 100))
    assert 98 < job_time_left_s() <= 100


@pytest.mark.parametrize(("shown", "seconds"), [("1-00:00:10", 86410), ("05:00", 300), ("UNLIMITED", None)])
def test_the_batch_system_is_asked(shown, seconds, tmp_path, monkeypatch):
    squeue = tmp_path / "squeue"
    squeue.write_text(f'#!/bin/sh\n[ "$3" = 17 ] && echo {shown}\n')
    squeue.chmod(squeue.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    assert job_time_left_s() == seconds


def test_batch_system_that_does_not_answer(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    assert job_time_left_s() is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1-02:03:04", 93784), ("02:03:04", 7384), ("03:04", 184), ("INVALID", None), ("", None), ("7", None)],
)
def test_durations(text, seconds):
    assert parse_duration_s(text) == seconds
