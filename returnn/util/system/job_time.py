"""How much time a batch system leaves to this process."""

from __future__ import annotations

import os
import subprocess
import time

_QUERY_TIMEOUT_S = 30


def job_time_left_s() -> float | None:
    """:return: seconds until SLURM ends the job of this process; None without SLURM, or without a limit"""
    end = os.environ.get("SLURM_JOB_END_TIME")
    if end and end.isdigit():
        return int(end) - time.time()
    job = os.environ.get("SLURM_JOB_ID")
    if not job:
        return None
    command = ["squeue", "--noheader", "--jobs", job, "--format", "%L"]
    try:
        shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_QUERY_TIMEOUT_S).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_duration_s(shown.strip())


def parse_duration_s(text: str) -> float | None:
    """
    :param text: as SLURM writes durations: "1-02:03:04", "02:03:04" or "03:04"
    :return: seconds; None for other text, such as "UNLIMITED"
    """
    days, dash, rest = text.rpartition("-")
    parts = [days if dash else "0", *rest.split(":")]
    if not 3 <= len(parts) <= 4 or not all(part.isdigit() for part in parts):
        return None
    hours = int(parts[1]) if len(parts) == 4 else 0
    return float(((int(parts[0]) * 24 + hours) * 60 + int(parts[-2])) * 60 + int(parts[-1]))
