"""Which device a config asks for."""

from __future__ import annotations

import re

from returnn.config.config import Config
from returnn.util.errors import ConfigError
from returnn.util.system.gpu import have_gpu

GPU_NAMES = ("gpu", "cuda")


def tf_should_use_gpu(config: Config) -> bool:
    """
    :return: as the option `device` says; if it says nothing, whether there is a GPU
    :raises ConfigError: if a GPU is asked for on a machine without one
    """
    names = [name for name in config.options.device if name]
    if not names:
        return have_gpu()
    if not asks_for_gpu(config):
        return False
    if not have_gpu():
        raise ConfigError(f"option 'device': {names[0]!r} is asked for, but there is no GPU.\n  Possible: 'cpu', None.")
    return True


def asks_for_gpu(config: Config) -> bool:
    """
    :return: whether one of the devices that TensorFlow is to use is a GPU
    :raises ConfigError: if there is no device of such a name
    """
    names = [str(name) for name in config.options.device if name]
    unknown = [name for name in names if not re.fullmatch(rf"({'|'.join(('cpu', *GPU_NAMES))})([^a-z]*)", name)]
    if unknown:
        raise ConfigError(f"option 'device': TensorFlow has no {unknown[0]!r}.\n  Possible: 'cpu', 'gpu', 'gpu0'.")
    return any(name.startswith(GPU_NAMES) for name in names)
