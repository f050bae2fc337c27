import sys
from types import ModuleType

import pytest

from returnn.config import Config
from returnn.tf.horovod import get_ctx
from returnn.util.errors import ConfigError


@pytest.fixture(autouse=True)
def horovod(monkeypatch):
    module = ModuleType("horovod.tensorflow")
    values = {"init": None, "rank": 1, "size": 3, "local_rank": 0, "local_size": 2}
    for name, value in values.items():
        setattr(module, name, lambda value=value: value)
    monkeypatch.setitem(sys.modules, "horovod", ModuleType("horovod"))
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", module)


def ctx(**options):
    return get_ctx(Config({"use_horovod": True, **options}))


def test_without_horovod():
    assert get_ctx(Config()) is None


def test_which_process_it_is():
    found = ctx(horovod_dataset_distribution="shard")
    assert (found.rank(), found.size(), found.local_rank(), found.local_size()) == (1, 3, 0, 2)
    assert list(range(7))[found.get_dataset_shard_batch_slice()] == [1, 4]


def test_when_processes_wait_for_each_other():
    assert ctx().should_sync_every_step()
    assert ctx(horovod_param_sync_step=5).should_sync_every_step()  # gradients are exchanged always
    assert ctx(horovod_reduce_type="param").should_sync_every_step()
    assert not ctx(horovod_reduce_type="param", horovod_param_sync_step=5).should_sync_every_step()
    assert not ctx(horovod_reduce_type="param", horovod_param_sync_time_diff=100.0).should_sync_every_step()


def test_unknown_values():
    with pytest.raises(ConfigError, match=r"^option 'horovod_reduce_type': got 'gradd', but expected one of .*\n  Did"):
        ctx(horovod_reduce_type="gradd").get_reduce_type()
