"""Two real processes train what one trains, with PyTorch."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy
import pytest
import torch

from returnn.config import Config
from returnn.torch.distributed import init_workers
from returnn.util.errors import ConfigError
from tests.torch.distributed.worker_program import CASES

pytestmark = pytest.mark.xdist_group("torch_distributed")
PROGRAM = "tests.torch.distributed.worker_program"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """:return: by case: of one process, and of the workers 0 and 1"""
    folder = tmp_path_factory.mktemp("workers")
    alone, workers = folder / "alone", folder / "workers"
    alone.mkdir()
    workers.mkdir()
    launch = [sys.executable, "-m", "returnn.launch", "-n", "2"]
    environ = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
    for command in ([sys.executable, "-m", PROGRAM, alone], [*launch, sys.executable, "-m", PROGRAM, workers]):
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=400, check=False)
        assert done.returncode == 0, done.stderr[-2000:]

    def read(path, rank, case):
        return json.loads((path / f"{case}.{rank}.json").read_text())

    return {case: (read(alone, 0, case), read(workers, 0, case), read(workers, 1, case)) for case in CASES}


def params(result):
    return {name: numpy.array(value) for name, value in result["params"].items()}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_workers_have_the_same_parameters(results, case):
    _, first, second = results[case]
    for name, value in params(first).items():
        numpy.testing.assert_array_equal(params(second)[name], value, err_msg=name)
    if case != "each with another order":  # whose scores are their own
        assert first["scores"] == second["scores"]
    assert first["steps"] == second["steps"]


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case, (_, is_one_batch) in CASES.items() if is_one_batch])
def test_batches_of_all_workers_are_one_batch(results, case):
    alone, first, _ = results[case]
    for name, value in params(alone).items():
        numpy.testing.assert_allclose(params(first)[name], value, rtol=2e-4, atol=2e-6, err_msg=name)
    for epoch, scores in alone["scores"].items():
        assert first["scores"][epoch] == pytest.approx(scores, rel=1e-4)


@pytest.mark.slow
def test_all_stop_when_one_has_no_more_data(results):
    """26 sequences in batches of 2: 7 batches for the first worker, 6 for the second."""
    assert results["uneven data"][1]["steps"] == 2 * 6


@pytest.mark.slow
def test_the_mean_of_gradients_is_a_step_of_another_size(results):
    alone, first, _ = results["mean of gradients"]
    change = params(first)["output.weight"] - params(alone)["output.weight"]
    assert numpy.abs(change).max() > 1e-4


def test_without_launcher(monkeypatch):
    for name in ("TF_CONFIG", "RANK", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"):
        monkeypatch.delenv(name, raising=False)
    device = torch.device("cpu")
    with pytest.raises(ConfigError, match="no launcher has started this process") as caught:
        init_workers(Config({"torch_distributed": {}}), device)
    assert "python -m returnn.launch" in str(caught.value)
    assert init_workers(Config({"torch_distributed": {"local_only": True}}), device) is None
    assert init_workers(Config({}), device) is None
    with pytest.raises(ConfigError, match="option 'torch_distributed': there is no key 'time'"):
        init_workers(Config({"torch_distributed": {"time": 3}}), device)
