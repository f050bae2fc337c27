"""What the machine and the batch system give to this process."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time

_MAX_THREADS_VARIABLES = ("OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK", "NSLOTS")


def get_number_available_cpus() -> int | None:
    """:return: cores that this process may use"""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def guess_requested_max_num_threads(log_file: object = None, fallback_num_cpus: bool = True) -> int | None:
    """
    :param log_file: gets a line which says where the number comes from
    :param fallback_num_cpus: if nobody asked for a number: the number of cores, otherwise None
    :return: how many threads the user or the batch system wants
    """
    for name in _MAX_THREADS_VARIABLES:
        value = os.environ.get(name, "").split(",")[0]
        if value.isdigit() and int(value) > 0:
            if log_file is not None:
                print(f"{value} threads, by the environment variable {name}", file=log_file)  # type: ignore[call-overload]
            return int(value)
    num_procs = read_sge_num_procs()
    if num_procs:
        return num_procs
    return get_number_available_cpus() if fallback_num_cpus else None


def read_sge_num_procs(job_id: int | None = None) -> int | None:
    """
    :param job_id: of the Sun Grid Engine; the one of this process by default
    :return: number of cores which the job asked for; None if this is no such job
    """
    job = str(
        job_id or os.environ.get("SGE_JOB_ID") or (os.environ.get("JOB_ID") if os.environ.get("SGE_ROOT") else "")
    )
    if not job.isdigit() or shutil.which("qstat") is None:
        return None
    result = subprocess.run(["qstat", "-j", job], capture_output=True, text=True, check=False)
    match = re.search(r"num_proc=(\d+)", result.stdout)
    return int(match.group(1)) if match else None


def is_running_on_cluster() -> bool:
    """:return: whether a batch system started this process"""
    return any(os.environ.get(name) for name in ("SLURM_JOB_ID", "SGE_JOB_ID", "SGE_TASK_ID"))


def slurm_time_left_sec() -> float | None:
    """:return: seconds until Slurm ends the job; None if this is no Slurm job, or if it has no limit"""
    end = os.environ.get("SLURM_JOB_END_TIME", "")
    if end.isdigit():
        return int(end) - time.time()
    job = os.environ.get("SLURM_JOB_ID")
    if not job or shutil.which("squeue") is None:
        return None
    command = ["squeue", "-h", "-j", job, "-o", "%L"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", result.stdout.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def available_physical_memory_in_bytes() -> int:
    """:return: memory of the machine, or of the container if that has less"""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        if os.path.exists(name):
            with open(name, encoding="utf8") as file:
                limit = file.read().strip()
            if limit.isdigit():
                total = min(total, int(limit))
    return total


def default_cache_size_in_gbytes(factor: float = 0.7) -> int:
    """
    :param factor: which part of the memory
    :return: how much memory data may take, in GiB
    """
    return int(max(1.0, factor * available_physical_memory_in_bytes() / 1024**3))


def get_cpu_model_name() -> str:
    """:return: e.g. "Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz" """
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf8") as file:
            match = re.search(r"^model name\s*:\s*(.*)$", file.read(), re.MULTILINE)
        if match:
            return match.group(1)
    return os.uname().machine


def is_64bit_platform() -> bool:
    """:return: whether addresses have 64 bits"""
    return sys.maxsize > 2**32
