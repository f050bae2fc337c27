"""What code of a config finds out about the processes, under the names of Horovod."""

from __future__ import annotations

import pytest

from returnn.config import Config
from returnn.tf.horovod import get_ctx
from returnn.util.errors import ConfigError


@pytest.fixture(autouse=True)
def started_by_torchrun(monkeypatch):
    for name, value in {"RANK": 1, "WORLD_SIZE": 3, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 2}.items():
        monkeypatch.setenv(name, str(value))


def ctx(**options):
    return get_ctx(Config({"use_horovod": True, **options}))


def test_without_horovod():
    assert get_ctx(Config()) is None


def test_which_process_it_is():
    found = ctx()
    assert (found.rank(), found.size(), found.local_rank(), found.local_size()) == (1, 3, 0, 2)
    assert found.is_dataset_distribution_shard()
    assert list(range(7))[found.get_dataset_shard_batch_slice()] == [1, 4]


def test_alone(monkeypatch):
    monkeypatch.delenv("RANK")
    found = ctx(horovod_dataset_distribution="random_seed_offset")
    assert (found.rank(), found.size(), found.local_rank(), found.local_size()) == (0, 1, 0, 1)
    assert found.is_dataset_distribution_random_seed_offset()


def test_when_processes_wait_for_each_other():
    assert ctx().should_sync_every_step()
    assert ctx(horovod_param_sync_step=5).should_sync_every_step()  # gradients are exchanged always
    assert ctx(horovod_reduce_type="param").should_sync_every_step()
    assert not ctx(horovod_reduce_type="param", horovod_param_sync_step=5).should_sync_every_step()
    assert not ctx(horovod_reduce_type="param", horovod_param_sync_time_diff=100.0).should_sync_every_step()


def test_unknown_values():
    with pytest.raises(ConfigError, match=r"^option 'horovod_reduce_type': got 'gradd', but expected one of .*\n  Did"):
        ctx(horovod_reduce_type="gradd").get_reduce_type()
