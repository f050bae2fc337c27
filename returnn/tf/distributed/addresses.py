"""Where the other workers are: TensorFlow has to know all addresses before it starts its server."""

from __future__ import annotations

import os
import socket
import time
from contextlib import closing
from datetime import timedelta
from typing import Any

import tensorflow as tf

from returnn.util.errors import UserError
from returnn.util.python.optional_import import import_optional
from returnn.util.system.process_group import ProcessPlace

_SLURM_FIRST_PORT = 20_000
_HTTP2_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"  # RFC 9113, 3.4: preface, empty settings
_RETRY_S = 0.2
_SLURM_NUM_PORTS = 10_000


def addresses_of_all(place: ProcessPlace, *, timeout_s: float) -> tuple[str, ...]:
    """
    :param place: of this process
    :param timeout_s: how long to wait for the others to tell theirs
    :return: "host:port" by rank
    :raises UserError: if they cannot be found
    """
    if place.addresses is not None:
        return place.addresses
    if place.launcher == "torchrun":
        return _by_store(place, timeout_s)
    if place.launcher == "mpi":
        return _by_mpi()
    return _by_slurm()


def server_answers(address: str, *, timeout_s: float) -> bool:
    """
    Waits for the server of another worker: that it listens is not enough, as that of a stopped process does, too.

    :param address: "host:port"
    :param timeout_s: how long it may take to start
    :return: whether a gRPC server has answered by then
    """
    host, _, port = address.rpartition(":")
    end = time.monotonic() + timeout_s
    while (left := end - time.monotonic()) > 0:
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=left) as connection:
                connection.settimeout(max(end - time.monotonic(), _RETRY_S))
                connection.sendall(_HTTP2_HELLO)
                if connection.recv(1):  # its own settings
                    return True
        except OSError:  # not there yet
            pass
        time.sleep(min(_RETRY_S, max(end - time.monotonic(), 0)))
    return False


def _own_address() -> str:
    """:return: with a port that is free now"""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as sock:
        sock.bind(("", 0))
        return f"{_own_host()}:{sock.getsockname()[1]}"


def _own_host() -> str:
    """:return: what the others reach this machine by: its address on the way to the first one"""
    first = os.environ.get("MASTER_ADDR")
    if first in ("localhost", "127.0.0.1"):
        return "127.0.0.1"
    if first:
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sock:
            sock.connect((first, 9))  # sends nothing
            return str(sock.getsockname()[0])
    return socket.gethostname()


def _by_store(place: ProcessPlace, timeout_s: float) -> tuple[str, ...]:
    """By the store of torchrun, which is there anyway."""
    torch_distributed = import_optional("torch.distributed", needed_for="distributed_tf under torchrun")
    host, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    if not host or not port:
        raise UserError("distributed_tf under torchrun: MASTER_ADDR and MASTER_PORT are not set.")
    is_master = place.is_first and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    try:
        store: Any = torch_distributed.TCPStore(
            host, int(port), place.size, is_master, timeout=timedelta(seconds=timeout_s)
        )
        store.set(f"returnn/{attempt}/{place.rank}", _own_address())
        return tuple(store.get(f"returnn/{attempt}/{rank}").decode("utf8") for rank in range(place.size))
    except RuntimeError as exc:
        raise UserError(
            f"distributed_tf: worker {place.rank} of {place.size} waited {timeout_s:g} s for the others to start. {exc}"
        ) from exc


def _by_mpi() -> tuple[str, ...]:
    mpi = import_optional("mpi4py.MPI", needed_for="distributed_tf under mpirun")
    return tuple(mpi.COMM_WORLD.allgather(_own_address()))


def _by_slurm() -> tuple[str, ...]:
    """Hosts from `SLURM_*`, ports by the number of the job, so that two jobs on a machine do not meet."""
    job = int(os.environ.get("SLURM_JOB_ID", "0"))
    resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
        port_base=_SLURM_FIRST_PORT + job * 37 % _SLURM_NUM_PORTS, auto_set_gpu=False, rpc_layer="grpc"
    )
    return tuple(resolver.cluster_spec().as_dict()["worker"])
