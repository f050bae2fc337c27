"""What is known about this run: when it began, where it runs, whether it is the process that writes files."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Protocol

from returnn.util.backend_engine import BackendEngine
from returnn.util.files.atomic_file import write_atomic
from returnn.util.files.folders import get_hostname, get_login_username
from returnn.util.system.machine import get_cpu_model_name
from returnn.util.system.process_group import find_place
from returnn.util.system.version import describe_returnn_version

start_time = time.time()  # of this process, in seconds


class _Config(Protocol):
    """The part of a config that is needed here."""

    @property
    def options(self) -> Any: ...
    def has(self, key: str) -> bool: ...


def get_utc_start_time_filename_part() -> str:
    """:return: when this process began, such as "2022-03-01-12-30-05", for names of files"""
    return time.strftime("%Y-%m-%d-%H-%M-%S", time.gmtime(start_time))


def get_model_filename_postfix() -> str:
    """:return: what the name of one file of a checkpoint ends with"""
    return ".pt" if BackendEngine.is_torch_selected() else ".index"


def should_write_to_disk(config: _Config) -> bool:
    """:return: whether this process writes checkpoints and logs: of several workers, the first one does"""
    options = config.options
    is_one_of_several = options.use_horovod or options.distributed_tf or config.has("torch_distributed")
    place = find_place() if is_one_of_several else None
    return not options.dry_run and (place is None or place.is_first)


def log_runtime_info_to_dir(path: str, config: _Config) -> None:
    """
    Writes a file about this process.

    :param path: folder; it is made if necessary
    :param config: says whether this process writes anything
    """
    if not should_write_to_disk(config):
        return
    os.makedirs(path, exist_ok=True)
    facts = {
        "time": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(start_time)),
        "call": " ".join(sys.argv),
        "python": sys.executable,
        "cwd": os.getcwd(),
        "host": f"{get_login_username()}@{get_hostname()}",
        "pid": os.getpid(),
        "cpu": get_cpu_model_name(),
        "returnn": describe_returnn_version(),
    }
    name = f"returnn.{get_hostname()}.{get_utc_start_time_filename_part()}.{os.getpid()}.log"
    write_atomic(os.path.join(path, name), "".join(f"{key}: {value}\n" for key, value in facts.items()))
