"""Which GPUs the machine has, asked without any framework."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess


def have_gpu() -> bool:
    """:return: whether this process can see a GPU"""
    return get_num_gpu_devices() > 0


def get_num_gpu_devices() -> int:
    """:return: how many GPUs this process can see"""
    return len(get_gpu_names())


def get_gpu_names() -> list[str]:
    """:return: e.g. ["NVIDIA H100"], those that `CUDA_VISIBLE_DEVICES` lets through"""
    names = _all_gpu_names()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return names
    indices = [entry.strip() for entry in visible.split(",")]
    if all(entry.isdigit() for entry in indices):
        return [names[int(entry)] for entry in indices if int(entry) < len(names)]
    return names if visible.strip(" -1") else []


@functools.cache
def _all_gpu_names() -> list[str]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=name", "--format=csv,noheader"]
    result = subprocess.run(query, capture_output=True, text=True, check=False)
    return result.stdout.split("\n")[:-1] if result.returncode == 0 else []
