"""Two real processes train what one trains."""

from __future__ import annotations

import numpy
import pytest

from returnn.config import Config
from returnn.engine.run.worker_options import WorkerOptions
from returnn.tf.distributed.workers import init_workers
from returnn.util.errors import ConfigError
from tests.launched import results_of_program
from tests.tf.distributed.worker_program import CASES

PROGRAM = "tests.tf.distributed.worker_program"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """:return: by case: of one process, and of the workers 0 and 1"""
    return results_of_program(PROGRAM, CASES, tmp_path_factory.mktemp("workers"))


def params(result, like=None):
    names = result["params"] if like is None else like["params"]
    return {name: numpy.array(result["params"][name]) for name in names if name in result["params"]}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_workers_have_the_same_parameters(results, case):
    _, first, second = results[case]
    for name, value in params(first).items():
        numpy.testing.assert_array_equal(params(second)[name], value, err_msg=name)
    assert first["scores"] == second["scores"]


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case, (_, _, is_one_batch) in CASES.items() if is_one_batch])
def test_batches_of_all_workers_are_one_batch(results, case):
    alone, first, _ = results[case]
    for name, value in params(alone).items():
        numpy.testing.assert_allclose(params(first)[name], value, rtol=2e-4, atol=2e-6, err_msg=name)
    for epoch, scores in alone["scores"].items():
        assert first["scores"][epoch] == pytest.approx(scores, rel=1e-4)


@pytest.mark.slow
def test_all_stop_when_one_has_no_more_data(results):
    """26 sequences in batches of 2: 7 batches for the first worker, 6 for the second."""
    _, first, _ = results["uneven data"]
    assert first["params"]["global_step"] == 2 * 6


@pytest.mark.slow
def test_the_mean_of_gradients_is_a_step_of_another_size(results):
    alone, first, _ = results["mean of gradients"]
    change = params(first)["output/W"] - params(alone)["output/W"]
    assert numpy.abs(change).max() > 1e-4


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"distributed_tf": {"time": 3}}, "option 'distributed_tf': there is no key 'time'"),
        ({"distributed_tf": {"combine": "product"}}, "there is no combine 'product'"),
        ({"distributed_tf": {"timeout_s": 0}}, "'timeout_s' should be a number of seconds, not 0"),
        ({"distributed_tf": {"param_sync_step": 0}}, "'param_sync_step' should be a number of steps, not 0"),
    ],
)
def test_wrong_options(options, text):
    with pytest.raises(ConfigError, match=text):
        WorkerOptions.from_config(Config(options))


def test_options_of_horovod():
    assert WorkerOptions.from_config(Config({})) is None
    found = WorkerOptions.from_config(Config({"use_horovod": True, "horovod_avg_grad": True, "horovod_scale_lr": True}))
    assert found == WorkerOptions(combine="mean", scale_lr=True)
    assert not found.sums_as_one_batch


def test_without_launcher(monkeypatch):
    for name in ("TF_CONFIG", "RANK", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="no launcher has started this process") as caught:
        init_workers(Config({"distributed_tf": True}), {})
    assert "python -m returnn.launch" in str(caught.value)
    assert init_workers(Config({"distributed_tf": {"local_only": True}}), {}) is None
