"""
How a training in several processes is set up, for code of a config that has to know, under the names of Horovod.

    ctx = returnn.tf.horovod.get_ctx()
    learning_rate = 0.001 * (ctx.size() if ctx else 1)
"""

from __future__ import annotations

from returnn.config import Config, get_global_config
from returnn.engine.run.worker_options import WorkerOptions
from returnn.util.system.process_group import PlaceContext, ProcessPlace, find_place

_ALONE = ProcessPlace(0, 1, 0, 1, "")


class HorovodContext(PlaceContext):
    """The options of the config about it, and which of the processes this one is."""

    def __init__(self, config: Config) -> None:
        """:param config: with `use_horovod`"""
        self._options = WorkerOptions.from_config(config) or WorkerOptions()
        super().__init__(find_place() or _ALONE)

    def get_reduce_type(self) -> str:
        """:return: `horovod_reduce_type`: "grad": gradients are exchanged; "param": parameters, from time to time"""
        return self._options.reduce_type

    def is_reduce_type_grad(self) -> bool:
        """:return: whether gradients are exchanged"""
        return self.get_reduce_type() == "grad"

    def is_reduce_type_param(self) -> bool:
        """:return: whether parameters are exchanged"""
        return self.get_reduce_type() == "param"

    def get_param_sync_step(self) -> int:
        """:return: `horovod_param_sync_step`: parameters are exchanged after so many steps"""
        return self._options.param_sync_step

    def get_param_sync_time_diff(self) -> float | None:
        """:return: `horovod_param_sync_time_diff`: parameters are exchanged after so many seconds"""
        return self._options.param_sync_time_diff

    def should_sync_every_step(self) -> bool:
        """:return: whether the processes exchange something in every step"""
        is_rare = self.get_param_sync_step() > 1 or self.get_param_sync_time_diff() is not None
        return not (self.is_reduce_type_param() and is_rare)

    def get_dataset_distribution_type(self) -> str:
        """:return: `horovod_dataset_distribution`: "random_seed_offset" or "shard", see the methods below"""
        return self._options.data

    def is_dataset_distribution_random_seed_offset(self) -> bool:
        """:return: whether each process goes over all data, in an order of its own"""
        return self.get_dataset_distribution_type() == "random_seed_offset"

    def is_dataset_distribution_shard(self) -> bool:
        """:return: whether each process takes its part of the batches"""
        return self.get_dataset_distribution_type() == "shard"

    def get_dataset_shard_batch_slice(self) -> slice:
        """:return: the batches which this process takes"""
        assert self.is_dataset_distribution_shard()
        return slice(self.rank(), None, self.size())


def get_ctx(config: Config | None = None) -> HorovodContext | None:
    """
    :param config: default: the global one
    :return: None if the config does not use Horovod
    """
    config = config or get_global_config(raise_exception=False)
    return HorovodContext(config) if config is not None and config.options.use_horovod else None
