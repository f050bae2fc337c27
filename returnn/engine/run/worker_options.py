"""`WorkerOptions`: what the config says about a training in several processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from returnn.config import Config
from returnn.util.errors import ConfigError, check_known

if TYPE_CHECKING:
    from typing_extensions import Self

_REDUCE_TYPES = ("grad", "param")
_COMBINE = ("batch", "sum", "mean")
_DISTRIBUTIONS = ("shard", "random_seed_offset")
_OTHER_NAMES = {"dataset_distribution": "data"}


@dataclass(frozen=True)
class WorkerOptions:
    """The keys of `distributed_tf`."""

    reduce_type: str = "grad"  # what workers exchange: gradients in each step; or parameters, whose mean is taken
    combine: str = "batch"  # the batches of a step count as one; or the sum, or mean, of the workers' gradients
    data: str = "shard"  # each worker takes its part of the batches; or goes over all data in an order of its own
    param_sync_step: int = 1  # with "param": after so many steps
    param_sync_time_diff: float | None = None  # with "param": after so many seconds
    scale_lr: bool = False  # the learning rate is multiplied by the number of workers
    timeout_s: float = 300.0  # how long a worker waits for the others
    local_only: bool = False  # alone, whatever the launcher says

    @property
    def sums_as_one_batch(self) -> bool:
        """Whether a step of N workers is one step with their batches together."""
        return self.reduce_type == "grad" and self.combine == "batch"

    @classmethod
    def from_config(cls, config: Config) -> WorkerOptions | None:
        """
        :return: None if the training runs in one process
        :raises ConfigError: if a value is not possible
        """
        options = config.options
        if options.use_horovod:
            return cls(
                reduce_type=options.horovod_reduce_type,
                combine="mean" if options.horovod_avg_grad else "sum",
                data=options.horovod_dataset_distribution,
                param_sync_step=options.horovod_param_sync_step,
                param_sync_time_diff=options.horovod_param_sync_time_diff,
                scale_lr=options.horovod_scale_lr,
            )
        return cls.from_option(options.distributed_tf, name="distributed_tf")

    @classmethod
    def from_option(cls, given: Any, *, name: str) -> Self | None:
        """
        :param given: a dict with the keys; True is one without any
        :param name: of the option
        :return: None if the training runs in one process
        :raises ConfigError: if a value is not possible
        """
        if not given and given != {}:
            return None
        where = f"option {name!r}"
        given = given if isinstance(given, Mapping) else {}
        given = {_OTHER_NAMES.get(key, key): value for key, value in given.items()}
        names = [field.name for field in fields(cls)]
        for key in given:
            check_known("key", key, names, where=where)
        out = cls(**given)
        for key, possible in (("reduce_type", _REDUCE_TYPES), ("combine", _COMBINE), ("data", _DISTRIBUTIONS)):
            check_known(key, getattr(out, key), possible, where=where)
        if not isinstance(out.timeout_s, (int, float)) or out.timeout_s <= 0:
            raise ConfigError(f"{where}: 'timeout_s' should be a number of seconds, not {out.timeout_s!r}.")
        if not isinstance(out.param_sync_step, int) or out.param_sync_step < 1:
            raise ConfigError(f"{where}: 'param_sync_step' should be a number of steps, not {out.param_sync_step!r}.")
        return out


@dataclass(frozen=True)
class TorchWorkerOptions(WorkerOptions):
    """The keys of `torch_distributed`. By default, steps and epochs are those of `DistributedDataParallel` alone."""

    combine: str = "mean"
    data: str = "random_seed_offset"
    backend: str | None = None  # of `torch.distributed`; None: NCCL between GPUs, Gloo between CPUs
    options: Mapping[str, Any] | None = None  # further arguments of `DistributedDataParallel`
    sync_on_cpu: bool = False  # with "param": the mean is taken of copies on the CPU
