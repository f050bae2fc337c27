"""Documented names, for code of configs that wants to know about the workers."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import distribute_lib

from returnn.config import Config
from returnn.tf.distributed.addresses import addresses_of_all
from returnn.tf.distributed.workers import current_workers, init_workers
from returnn.util.errors import ConfigError
from returnn.util.system.process_group import find_place

_Resolver = tf.distribute.cluster_resolver.ClusterResolver


def init_distributed_tf(config: Config) -> None:
    """:param config: `distributed_tf`; the server of this worker is started, if there are several"""
    init_workers(config, {})


def is_enabled() -> bool:
    """:return: whether this process is one of several workers"""
    return current_workers() is not None


def get_session_target() -> str:
    """:return: what a session has to connect to; "" in a single process"""
    workers = current_workers()
    return "" if workers is None else workers.session_target


class LocalOnlyClusterResolver(_Resolver):
    """A cluster of this process alone, without addresses."""

    def __init__(self) -> None:
        self.task_type = "worker"
        self.task_id = 0
        self.rpc_layer = "grpc"

    def cluster_spec(self) -> Any:
        """:return: no other processes"""
        return tf.train.ClusterSpec({})

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """:return: what a session has to connect to"""
        return ""


class MPIClusterResolver(_Resolver):
    """The processes that `mpirun` has started."""

    def __init__(self) -> None:
        place = find_place()
        if place is None or place.launcher != "mpi":
            raise ConfigError("MPIClusterResolver: this process was not started by mpirun.")
        self.task_type = "worker"
        self.task_id = place.rank
        self.rpc_layer = "grpc"
        self._addresses = addresses_of_all(place, timeout_s=300)

    def cluster_spec(self) -> Any:
        """:return: addresses of all workers"""
        return tf.train.ClusterSpec({"worker": list(self._addresses)})

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """:return: what a session has to connect to; default: this worker"""
        address = self._addresses[self.task_id if task_id is None else task_id]
        return f"{rpc_layer or self.rpc_layer}://{address}"

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> dict[str, int]:
        """:return: number of GPUs of this worker"""
        return {"GPU": len(tf.config.list_physical_devices("GPU"))}


class ReturnnDefaultStrategyExtended(distribute_lib._DefaultDistributionExtended):
    """That of TensorFlow without any distribution: the updater sums gradients by itself."""


class ReturnnDefaultStrategy(distribute_lib.Strategy):
    """A strategy that changes nothing, for code which asks for one."""

    def __init__(self) -> None:
        super().__init__(ReturnnDefaultStrategyExtended(self))
