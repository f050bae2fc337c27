"""
Which devices and cores a session may use, and whether it compiles: the options `device` and `tf_jit`, and what the
environment says of cores.
"""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from returnn.config import Config
from returnn.config.device import asks_for_gpu
from returnn.util.errors import ConfigError
from returnn.util.system.gpu import get_gpu_names
from returnn.util.system.machine import guess_requested_max_num_threads

_JIT_ON_CPUS = "--tf_xla_cpu_global_jit"


def session_options(config: Config) -> dict[str, Any]:
    """
    :param config: its options `device` and `tf_jit`
    :return: options of a session
    :raises ConfigError: if a device is asked for which is not there
    """
    return {**_device_options(config), **_thread_options(), **(_jit_options() if config.options.tf_jit else {})}


def computes_on_host(config: Config) -> bool:
    """
    :param config: its option `device`
    :return: whether there is no GPU, or it is not to be used
    """
    names = [name for name in config.options.device if name]
    return not tf.config.list_physical_devices("GPU") or bool(names and not asks_for_gpu(config))


def _thread_options() -> dict[str, int]:
    """:return: options of a session: as many threads as the user or the batch system asks for, if it does"""
    num_threads = guess_requested_max_num_threads(fallback_num_cpus=False)
    if num_threads is None:
        return {}
    return {"intra_op_parallelism_threads": num_threads, "inter_op_parallelism_threads": num_threads}


def _jit_options() -> dict[str, Any]:
    """Operations that follow each other are compiled together, once for each shape of the data."""
    flags = os.environ.get("TF_XLA_FLAGS", "")
    if _JIT_ON_CPUS not in flags:  # TensorFlow reads it with the first session
        os.environ["TF_XLA_FLAGS"] = f"{flags} {_JIT_ON_CPUS}".strip()
    return {"graph_options": {"optimizer_options": {"global_jit_level": 1}}}


def _device_options(config: Config) -> dict[str, Any]:
    """
    :param config: its option `device`
    :return: options of a session: without GPUs, if only "cpu" is asked for
    :raises ConfigError: if there is no such device; if a GPU is asked for, and TensorFlow has none; says what was found
    """
    names = [str(name) for name in config.options.device if name]
    if not names:
        return {}
    if not asks_for_gpu(config):
        return {"device_count": {"GPU": 0}}
    if not tf.config.list_physical_devices("GPU"):
        raise ConfigError(
            f"option 'device': {names[0]!r} is asked for, but TensorFlow {tf.__version__} finds no GPU.\n  {_found()}"
        )
    return {}


def _found() -> str:
    gpus = get_gpu_names()
    facts = [f"Found by nvidia-smi: {', '.join(gpus) or 'none'}."]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        facts.append(f"CUDA_VISIBLE_DEVICES is {visible!r}.")
    if not tf.test.is_built_with_cuda():
        facts.append("This TensorFlow is for CPUs; `pip install tensorflow[and-cuda]` is the one for GPUs.")
    facts.append("Without the option, a GPU is used if there is one.")
    return " ".join(facts)
