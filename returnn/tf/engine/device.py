"""Which devices a session may use, by the option `device`."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from returnn.config import Config
from returnn.util.errors import ConfigError
from returnn.util.system.gpu import get_gpu_names


def device_options(config: Config) -> dict[str, Any]:
    """
    :param config: its option `device`
    :return: options of a session: without GPUs, if only "cpu" is asked for
    :raises ConfigError: if a GPU is asked for, and TensorFlow has none; says what was found
    """
    names = [str(name) for name in config.options.device if name]
    if not names:
        return {}
    if not any(name.startswith("gpu") for name in names):
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
