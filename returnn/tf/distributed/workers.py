"""`Workers`: this process as one of those which train a model together, connected by TensorFlow's own server."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy
import tensorflow as tf

from returnn.config import Config
from returnn.datasets.core.dataset_order import RANDOM_SEED_OFFSET_ENV_VAR
from returnn.engine.run.processes import Processes
from returnn.engine.run.worker_options import WorkerOptions
from returnn.log import log
from returnn.tf.distributed.addresses import addresses_of_all, server_answers
from returnn.tf.util.collectives import WorkerGroup, all_reduce, set_current_group, sum_gradients
from returnn.util.errors import ConfigError, UserError
from returnn.util.python.optional_import import import_optional
from returnn.util.system.process_group import ProcessPlace, find_place

tf1 = tf.compat.v1

_SEEDS_APART = 16127  # between the random seeds of two workers
_PROBE_S = 5.0  # a worker that is alive answers within this time

_workers: Workers | None = None


class Workers(Processes):
    """
    All workers run the same program. TensorFlow's server listens without authentication, so it is for networks whose
    machines are trusted.
    """

    option_name = "distributed_tf"

    def __init__(self, place: ProcessPlace, options: WorkerOptions, more_options: dict[str, Any]) -> None:
        """
        :param place: which worker this is
        :param options: of the config
        :param more_options: of a session
        """
        self.place = place
        self.use(options)
        self.addresses = addresses_of_all(place, timeout_s=float(options.timeout_s))
        if len(self.addresses) != place.size:
            raise UserError(f"distributed_tf: there are {place.size} workers, but {len(self.addresses)} addresses.")
        self._more_options = more_options
        self._server = tf1.train.Server(
            tf1.train.ClusterSpec({"worker": list(self.addresses)}),
            job_name="worker",
            task_index=place.rank,
            protocol="grpc",
            config=tf1.ConfigProto(**self.session_options()),
        )
        self._wait_for_first()
        self._sums: dict[int, tuple[tf.compat.v1.Session, tf.Tensor, tf.Tensor]] = {}
        print(
            f"worker {place.rank} of {place.size}, started by {place.launcher}, at {self.addresses[place.rank]}",
            file=log.v2,
        )

    def _wait_for_first(self) -> None:
        """TensorFlow would ask the leader of all collectives again and again, without an end."""
        if not self.is_first and not server_answers(self.addresses[0], timeout_s=self.group.timeout_s):
            raise UserError(
                f"distributed_tf: worker {self.rank} of {self.size} ends, because worker 0 at {self.addresses[0]}"
                f" does not answer.\n  It did not start within {self.group.timeout_s:g} s. Start all again."
            )

    def use(self, options: WorkerOptions) -> None:
        """:param options: from now on, for what is built from now on"""
        self.options = options
        self.group = WorkerGroup(self.size, float(options.timeout_s), is_one_batch=options.sums_as_one_batch)
        set_current_group(self.group)
        if options.data == "random_seed_offset":
            os.environ[RANDOM_SEED_OFFSET_ENV_VAR] = str(self.rank * _SEEDS_APART)

    # Sessions.

    @property
    def session_target(self) -> str:
        """What sessions connect to."""
        return str(
            self._server.target.decode("utf8") if isinstance(self._server.target, bytes) else self._server.target
        )

    def session_options(self) -> dict[str, Any]:
        """:return: of `tf.compat.v1.ConfigProto`, beside those of the config: a worker sees its own devices alone"""
        experimental = tf1.ConfigProto.Experimental(collective_group_leader="/job:worker/replica:0/task:0")
        options = {
            "device_filters": [f"/job:worker/task:{self.rank}"],
            "experimental": experimental,
            **self._more_options,
        }
        if "device_count" not in options and self.place.local_size > 1 and tf.config.list_physical_devices("GPU"):
            options["gpu_options"] = tf1.GPUOptions(visible_device_list=str(self.place.local_rank))
        return options

    # Parameters.

    def broadcast(self, session: tf.compat.v1.Session, variables: Mapping[str, tf.Variable]) -> None:
        """
        All workers get the values of the first one.

        :param session: of this worker
        :param variables: by name, the same ones on all workers
        :raises UserError: if a worker does not answer
        """
        wanted = [var for _, var in sorted(variables.items()) if _can_be_summed(var)]
        with session.graph.as_default():
            own = [var.read_value() if self.is_first else tf.zeros_like(var.read_value()) for var in wanted]
            totals = sum_gradients(own, wanted, mean=False)
            assign = [var.assign(value, read_value=False) for var, value in zip(wanted, totals, strict=True)]
        try:
            session.run(assign)
        except tf.errors.OpError as exc:
            raise self.error(exc) from exc

    @staticmethod
    def mean_op(variables: Sequence[tf.Variable]) -> tf.Operation:
        """
        :param variables: the same ones on all workers
        :return: op that gives each one the mean of all workers
        """
        means = sum_gradients([var.read_value() for var in variables], variables, mean=True)
        return tf.group(*(var.assign(mean, read_value=False) for var, mean in zip(variables, means, strict=True)))

    # What the workers tell each other, apart from steps.

    def sum(self, values: Sequence[float]) -> numpy.ndarray:
        """:return: sums over all workers, see `Processes`"""
        number = len(values)
        if number not in self._sums:
            with tf.Graph().as_default():
                value = tf1.placeholder(tf.float64, [number])
                total = all_reduce(value)
                session = tf1.Session(self.session_target, config=tf1.ConfigProto(**self.session_options()))
            self._sums[number] = session, value, total
        session, value, total = self._sums[number]
        try:
            return numpy.asarray(session.run(total, {value: numpy.asarray(values, "float64")}))
        except tf.errors.OpError as exc:
            raise self.error(exc) from exc

    def error(self, exc: tf.errors.OpError) -> UserError:
        """:return: who is missing, if a collective operation fails. This process cannot use them any more"""
        silent = self._who_is_silent()
        if silent:
            who = " and ".join(f"worker {rank} at {self.addresses[rank]}" for rank in silent)
            reason = f"{who} {'does' if len(silent) == 1 else 'do'} not answer"
        else:
            reason = f"a worker did not take part within {self.group.timeout_s:g} s, though all are alive"
        return UserError(
            f"distributed_tf: worker {self.rank} of {self.size} ends, because {reason}.\n"
            f"  {type(exc).__name__}. Start all again: the training goes on after the last model."
        )

    def _who_is_silent(self) -> list[int]:
        grpc = import_optional("grpc", needed_for="distributed_tf")

        def is_silent(rank: int) -> bool:
            with grpc.insecure_channel(self.addresses[rank]) as channel:
                try:
                    grpc.channel_ready_future(channel).result(timeout=_PROBE_S)
                except grpc.FutureTimeoutError:
                    return True
            return False

        others = [rank for rank in range(self.size) if rank != self.rank]
        with ThreadPoolExecutor(max_workers=min(len(others), 32)) as pool:
            return [rank for rank, silent in zip(others, pool.map(is_silent, others), strict=True) if silent]


def _can_be_summed(var: tf.Variable) -> bool:
    return var.shape.is_fully_defined() and (var.dtype.is_floating or var.dtype.base_dtype in (tf.int32, tf.int64))


def is_collective_error(exc: BaseException) -> bool:
    """:return: whether a step failed because of another worker"""
    if not isinstance(exc, tf.errors.OpError):
        return False
    kinds = (tf.errors.DeadlineExceededError, tf.errors.UnavailableError, tf.errors.AbortedError)
    return isinstance(exc, kinds) or "ollective" in exc.message


def init_workers(config: Config, more_options: dict[str, Any]) -> Workers | None:
    """
    :param config: `distributed_tf`, `use_horovod`
    :param more_options: of a session
    :return: None if the training runs in one process; the same ones for the whole process
    :raises ConfigError: if the config asks for several processes, and there is only one
    """
    global _workers
    options = WorkerOptions.from_config(config)
    if options is None or options.local_only:
        return None
    if _workers is None:
        place = find_place()
        if place is None:
            raise ConfigError(
                "option 'distributed_tf': no launcher has started this process, so it is alone.\n"
                "  On one machine: python -m returnn.launch --processes 2 returnn my.config\n"
                "  On several ones: torchrun, srun, mpirun, or TF_CONFIG."
            )
        if place.size == 1:
            return None
        _workers = Workers(place, options, more_options)
    _workers.use(options)
    return _workers


def current_workers() -> Workers | None:
    """:return: those of this process; None if it is alone"""
    return _workers
