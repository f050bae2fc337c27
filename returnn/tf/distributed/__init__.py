"""
Training in several processes, by TensorFlow's collectives: `distributed_tf`, `use_horovod`.

Each process trains the same model on its part of the data. In each step, the gradients of all are summed up, so all
have the same parameters. The first process writes models, scores and logs.
"""

from returnn.engine.run.worker_options import WorkerOptions
from returnn.tf.distributed.documented import (
    LocalOnlyClusterResolver,
    MPIClusterResolver,
    ReturnnDefaultStrategy,
    ReturnnDefaultStrategyExtended,
    get_session_target,
    init_distributed_tf,
    is_enabled,
)
from returnn.tf.distributed.workers import Workers, current_workers, init_workers

__all__ = [
    "LocalOnlyClusterResolver",
    "MPIClusterResolver",
    "ReturnnDefaultStrategy",
    "ReturnnDefaultStrategyExtended",
    "WorkerOptions",
    "Workers",
    "current_workers",
    "get_session_target",
    "init_distributed_tf",
    "init_workers",
    "is_enabled",
]
