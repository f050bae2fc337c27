"""Which device a config asks for."""

from __future__ import annotations

from returnn.config.config import Config
from returnn.util.errors import ConfigError
from returnn.util.system.gpu import have_gpu


def tf_should_use_gpu(config: Config) -> bool:
    """
    :return: as the option `device` says; if it says nothing, whether there is a GPU
    :raises ConfigError: if a GPU is asked for on a machine without one
    """
    names = [name for name in config.options.device if name]
    if not names:
        return have_gpu()
    if not any(name.startswith("gpu") for name in names):
        return False
    if not have_gpu():
        raise ConfigError(f"option 'device': {names[0]!r} is asked for, but there is no GPU.\n  Possible: 'cpu', None.")
    return True
