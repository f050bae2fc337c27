"""`TorchWorkers`: this process as one of those which train a model together, connected by `torch.distributed`."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy
import torch
import torch.distributed
from torch.distributed.algorithms.model_averaging.utils import average_parameters
from torch.nn.parallel import DistributedDataParallel

import returnn.frontend as rf
from returnn.config import Config, get_global_config
from returnn.datasets.core.dataset_order import RANDOM_SEED_OFFSET_ENV_VAR
from returnn.engine.run.processes import Processes
from returnn.engine.run.worker_options import TorchWorkerOptions
from returnn.log import log
from returnn.tensor import Tensor
from returnn.util.errors import ConfigError, UserError
from returnn.util.system.process_group import PlaceContext, ProcessPlace, find_place

_SEEDS_APART = 16127  # between the random seeds of two workers
_ANSWER_S = 5.0  # a worker that is alive says within this time that a step has failed for it, too


class TorchWorkers(Processes):
    """
    All workers run the same program. In a training step, the gradients of all are summed up while they are computed, by
    `torch.nn.parallel.DistributedDataParallel` (NCCL between GPUs, Gloo between CPUs).
    """

    option_name = "torch_distributed"

    def __init__(self, place: ProcessPlace, options: TorchWorkerOptions, device: torch.device) -> None:
        """
        :param place: which worker this is
        :param options: of the config
        :param device: where the model is
        """
        self.place = place
        self.options = options
        self._timeout = timedelta(seconds=float(options.timeout_s))
        if place.addresses is not None:
            host, _, port = place.addresses[0].rpartition(":")
            os.environ.update({"MASTER_ADDR": host, "MASTER_PORT": port})
        try:
            self._store, _, _ = next(torch.distributed.rendezvous("env://", place.rank, place.size))
            self._store.set_timeout(self._timeout)
            torch.distributed.init_process_group(
                options.backend or ("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"),
                store=torch.distributed.PrefixStore("steps", self._store),
                rank=place.rank,
                world_size=place.size,
                timeout=self._timeout,
            )
        except (ValueError, RuntimeError) as exc:
            raise UserError(
                f"torch_distributed: worker {place.rank} of {place.size}, started by {place.launcher}, does not reach"
                f" the others: {str(exc).splitlines()[0]}"
            ) from exc
        if options.data == "random_seed_offset":
            os.environ[RANDOM_SEED_OFFSET_ENV_VAR] = str(place.rank * _SEEDS_APART)
        print(f"worker {place.rank} of {place.size}, started by {place.launcher}", file=log.v2)

    # What the workers tell each other, apart from gradients.

    def sum(self, values: Sequence[float]) -> numpy.ndarray:
        """:return: sums over all workers, see `Processes`"""
        total = torch.tensor(list(map(float, values)), dtype=torch.float64)
        with self.named_errors():
            torch.distributed.all_reduce(total)
        return total.numpy()

    @contextlib.contextmanager
    def named_errors(self) -> Iterator[None]:
        """:raises UserError: that names who is missing, if a worker does not answer inside of the `with` block"""
        try:
            yield
        except RuntimeError as exc:
            if not _is_of_connection(exc):
                raise
            raise self._error(exc) from exc

    def _error(self, exc: RuntimeError) -> UserError:
        silent = self._who_is_silent()
        if silent:
            who = " and ".join(f"worker {rank}" for rank in silent)
            reason = f"{who} {'does' if len(silent) == 1 else 'do'} not answer"
        else:
            reason = f"a worker did not take part within {self.options.timeout_s:g} s, though all are alive"
        return UserError(
            f"torch_distributed: worker {self.rank} of {self.size} ends, because {reason}.\n"
            f"  {type(exc).__name__}. Start all again: the training goes on after the last model."
        )

    def _who_is_silent(self) -> list[int]:
        """Those who do not say as well that something failed."""
        answer: queue.SimpleQueue[list[int]] = queue.SimpleQueue()
        threading.Thread(target=lambda: answer.put(self._ask_all()), daemon=True).start()
        try:
            return answer.get(timeout=2 * _ANSWER_S)
        except queue.Empty:
            return [0]  # it has the store, and is stopped, so that a question never returns

    def _ask_all(self) -> list[int]:
        try:
            self._store.set(f"failed/{self.rank}", "")
            end = time.monotonic() + _ANSWER_S
            silent = [rank for rank in range(self.size) if rank != self.rank]
            while silent and time.monotonic() < end:
                silent = [rank for rank in silent if not self._store.check([f"failed/{rank}"])]
                time.sleep(0.1)
        except RuntimeError:
            return [0]  # it has the store, but with torchrun, which outlives its workers
        return silent

    # Parameters and gradients.

    def step_of_all(self, parameters: Mapping[str, torch.nn.Parameter]) -> StepOfAll:
        """
        :param parameters: which are trained. All workers get the values of the first one
        :return: what computes steps
        """
        with self.named_errors():
            return StepOfAll(self, parameters)

    def send_values(self, values: Iterable[torch.Tensor]) -> None:
        """:param values: all workers get those of the first one"""
        with self.named_errors(), torch.no_grad():
            for value in values:
                torch.distributed.broadcast(value, src=0)

    def take_means(self, values: Iterable[torch.Tensor]) -> None:
        """:param values: all workers get the means"""
        floats = [value for value in values if value.is_floating_point()]
        averaged = [value.cpu() for value in floats] if self.options.sync_on_cpu else floats
        with self.named_errors(), torch.no_grad():
            if averaged:
                average_parameters(iter(averaged), torch.distributed.group.WORLD)
            for value, mean in zip(floats, averaged, strict=True):
                if mean is not value:
                    value.copy_(mean)

    def loss_factors(self, losses: Mapping[str, rf.Loss]) -> dict[str, float]:
        """
        :param losses: of a step, by name
        :return: what to multiply each one by, such that the mean of the workers' gradients is what the options ask for
        """
        if self.options.reduce_type == "param" or self.options.combine == "mean":
            return {}
        factors = dict.fromkeys(losses, float(self.size))
        names = [name for name, loss in losses.items() if loss.use_normalized_loss]
        if self.options.combine == "batch" and names:
            counts = [_number(losses[name].get_inv_norm_factor()) for name in names]
            totals = self.sum(counts)
            factors.update({n: self.size * c / (t or 1.0) for n, c, t in zip(names, counts, totals, strict=True)})
        return factors


class StepOfAll:
    """Computes steps whose gradients are means over all workers."""

    def __init__(self, workers: TorchWorkers, parameters: Mapping[str, torch.nn.Parameter]) -> None:
        """
        :param workers: all
        :param parameters: which are trained
        """
        self._workers = workers
        self._parameters = list(parameters.values())
        self._module = _data_parallel(_Objective(parameters), workers.options.options or {})

    def __call__(self, compute: Callable[[], torch.Tensor], *, exchange: bool) -> torch.Tensor:
        """
        :param compute: makes the objective, a scalar
        :param exchange: whether gradients go to the others in its backward pass; else they are collected here
        :return: the objective
        """
        with contextlib.nullcontext() if exchange else self._module.no_sync():
            objective: torch.Tensor = self._module(compute)
        return objective

    def exchange_collected(self) -> None:
        """After steps without exchange, if no other one follows."""
        for parameter in self._parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self._workers.take_means(parameter.grad for parameter in self._parameters if parameter.grad is not None)


class _Objective(torch.nn.Module):
    """The parameters, and a step as the forward pass of a module."""

    def __init__(self, parameters: Mapping[str, torch.nn.Parameter]) -> None:
        super().__init__()
        for name, parameter in parameters.items():
            self.register_parameter(name.replace(".", "/"), parameter)

    def forward(self, compute: Callable[[], torch.Tensor]) -> torch.Tensor:
        """:return: the objective"""
        return compute()


def _data_parallel(module: torch.nn.Module, options: Mapping[str, Any]) -> DistributedDataParallel:
    """:raises ConfigError: if the class does not take the options"""
    try:
        return DistributedDataParallel(module, **{"find_unused_parameters": True, **options})
    except (TypeError, ValueError) as exc:
        raise ConfigError(f"option 'torch_distributed': 'options' are {dict(options)!r}: {exc}.") from exc


def _number(count: Tensor | float) -> float:
    return float(count.raw_tensor) if isinstance(count, Tensor) else float(count)


def _is_of_connection(exc: RuntimeError) -> bool:
    """:return: whether another worker is the cause. Not all errors of the libraries have a class of their own."""
    words = ("gloo", "Gloo", "NCCL", "Application timeout", "pair closure")
    return isinstance(exc, torch.distributed.DistError) or any(word in str(exc) for word in words)


_workers: TorchWorkers | None = None


def init_workers(config: Config, device: torch.device) -> TorchWorkers | None:
    """
    :param config: its option `torch_distributed`
    :param device: where the model is
    :return: None if the training runs in one process; the same ones for the whole process
    :raises ConfigError: if the config asks for several processes, and there is only one
    """
    global _workers
    options = TorchWorkerOptions.from_option(config.options.torch_distributed, name="torch_distributed")
    if options is None or options.local_only:
        return None
    if _workers is None:
        place = find_place()
        if place is None:
            raise ConfigError(
                "option 'torch_distributed': no launcher has started this process, so it is alone.\n"
                "  On one machine: python -m returnn.launch --processes 2 returnn my.config\n"
                "  On several ones: torchrun, or srun and mpirun with MASTER_ADDR and MASTER_PORT."
            )
        if place.size == 1:
            return None
        _workers = TorchWorkers(place, options, device)
    _workers.options = options
    return _workers


def get_ctx(config: Config | None = None) -> PlaceContext | None:
    """
    :param config: default: the global one
    :return: None if the config does not have `torch_distributed`, or no launcher has started several processes
    """
    config = config or get_global_config(raise_exception=False)
    place = find_place()
    if config is None or config.options.torch_distributed is None or place is None:
        return None
    return PlaceContext(place)
