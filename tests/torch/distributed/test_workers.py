"""Two real processes train what one trains, with PyTorch."""

from __future__ import annotations

import numpy
import pytest
import torch

from returnn.config import Config
from returnn.engine.run.worker_options import TorchWorkerOptions, WorkerOptions
from returnn.torch.distributed import init_workers
from returnn.util.errors import ConfigError
from tests.launched import results_of_program
from tests.torch.distributed.worker_program import CASES

PROGRAM = "tests.torch.distributed.worker_program"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """:return: by case: of one process, and of the workers 0 and 1"""
    return results_of_program(PROGRAM, CASES, tmp_path_factory.mktemp("workers"))


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


def test_by_default_it_is_what_pytorch_does():
    """Gradients are means, and each worker goes over all data, as in configs that there are."""
    options = TorchWorkerOptions.from_option({}, name="torch_distributed")
    assert (options.reduce_type, options.combine, options.data) == ("grad", "mean", "random_seed_offset")
    with pytest.raises(ConfigError, match="there is no key 'sync_on_cpu'"):
        WorkerOptions.from_option({"sync_on_cpu": True}, name="distributed_tf")


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
