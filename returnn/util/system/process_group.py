"""
Which of several processes this one is, as launchers tell it: by environment variables.

| launcher | variables |
| --- | --- |
| Kubernetes' training operators, Ray, `python -m returnn.launch` | `TF_CONFIG` |
| torchrun | `RANK`, `WORLD_SIZE`, `LOCAL_RANK`, `LOCAL_WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT` |
| mpirun of Open MPI | `OMPI_COMM_WORLD_RANK`, `OMPI_COMM_WORLD_SIZE`, `OMPI_COMM_WORLD_LOCAL_RANK`, `..._LOCAL_SIZE` |
| mpirun of MPICH and Intel MPI | `PMI_RANK`, `PMI_SIZE`, `MPI_LOCALRANKID`, `MPI_LOCALNRANKS` |
| srun of SLURM | `SLURM_PROCID`, `SLURM_STEP_NUM_TASKS`, `SLURM_LOCALID`, `SLURM_STEP_TASKS_PER_NODE` |
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from returnn.util.errors import UserError

_WORKER_TYPES = ("chief", "worker")  # of TF_CONFIG, in the order of the ranks


@dataclass(frozen=True)
class ProcessPlace:
    """A process among those of a group."""

    rank: int  # from 0
    size: int  # number of processes
    local_rank: int  # among those on its machine
    local_size: int
    launcher: str  # "TF_CONFIG", "torchrun", "mpi", "slurm"
    addresses: tuple[str, ...] | None = None  # "host:port" by rank, if the launcher tells them

    @property
    def is_first(self) -> bool:
        """Whether it writes what is to be written once."""
        return self.rank == 0


class PlaceContext:
    """Which of the processes this one is, for code of a config that has to know."""

    def __init__(self, place: ProcessPlace) -> None:
        """:param place: of this process"""
        self._place = place

    def rank(self) -> int:
        """:return: number of this process, from 0 on"""
        return self._place.rank

    def size(self) -> int:
        """:return: number of processes"""
        return self._place.size

    def local_rank(self) -> int:
        """:return: number of this process on its machine"""
        return self._place.local_rank

    def local_size(self) -> int:
        """:return: number of processes on this machine"""
        return self._place.local_size


def find_place(environ: Mapping[str, str] | None = None) -> ProcessPlace | None:
    """
    :param environ: default: that of this process
    :return: None if no launcher has started this process
    :raises UserError: if what the variables say makes no sense
    """
    environ = os.environ if environ is None else environ
    if environ.get("TF_CONFIG"):
        return _from_tf_config(environ["TF_CONFIG"])
    if "RANK" in environ and "WORLD_SIZE" in environ:
        return _from_numbers(environ, "torchrun", ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    if "OMPI_COMM_WORLD_SIZE" in environ:
        names = (f"OMPI_COMM_WORLD_{name}" for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"))
        return _from_numbers(environ, "mpi", tuple(names))
    if "PMI_SIZE" in environ and "SLURM_PROCID" not in environ:
        return _from_numbers(environ, "mpi", ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"))
    if "SLURM_STEP_NUM_TASKS" in environ and "SLURM_PROCID" in environ:
        return _from_numbers(environ, "slurm", ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""))
    return None


def _from_numbers(environ: Mapping[str, str], launcher: str, names: tuple[str, ...]) -> ProcessPlace:
    try:
        rank, size = int(environ[names[0]]), int(environ[names[1]])
        local_rank, local_size = int(environ.get(names[2], rank)), int(environ.get(names[3], size))
    except (KeyError, ValueError) as exc:
        raise UserError(
            f"{launcher}: the environment variables {', '.join(filter(None, names))} are wrong: {exc}"
        ) from exc
    return _checked(ProcessPlace(rank, size, local_rank, local_size, launcher))


def _from_tf_config(text: str) -> ProcessPlace | None:
    try:
        config = json.loads(text)
        cluster: dict[str, Any] = config.get("cluster") or {}
        task: dict[str, Any] = config.get("task") or {"type": "worker", "index": 0}
        kind, index = str(task["type"]), int(task["index"])
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise UserError(f"the environment variable TF_CONFIG is wrong: {exc}\n  It is {text[:200]!r}.") from exc
    if kind not in _WORKER_TYPES:
        raise UserError(
            f"TF_CONFIG: the task is of type {kind!r}. A training has only processes of the types "
            f"{' and '.join(_WORKER_TYPES)}, which all do the same."
        )
    addresses = tuple(address for name in _WORKER_TYPES for address in cluster.get(name, ()))
    if not addresses:
        return None
    rank = index + (len(cluster.get("chief", ())) if kind == "worker" else 0)
    host = addresses[rank].rpartition(":")[0] if rank < len(addresses) else ""
    local = [number for number, address in enumerate(addresses) if address.rpartition(":")[0] == host]
    local_rank = local.index(rank) if rank in local else 0
    return _checked(ProcessPlace(rank, len(addresses), local_rank, len(local), "TF_CONFIG", addresses))


def _checked(place: ProcessPlace) -> ProcessPlace:
    if not 0 <= place.rank < place.size:
        raise UserError(f"{place.launcher}: this is said to be process {place.rank} of {place.size}.")
    return place
