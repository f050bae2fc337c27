"""The config of this process, for code that has no other way to get it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from returnn.config.config import Config
from returnn.config.current import current_config, replace_current_config
from returnn.util.errors import ConfigError


def get_global_config(
    *, raise_exception: bool = True, auto_create: bool = False, return_empty_if_none: bool = False
) -> Config | None:
    """
    :param raise_exception: if there is none; otherwise the result is None
    :param auto_create: if there is none, an empty one becomes the global config
    :param return_empty_if_none: if there is none, the result is a new empty one
    :raises ConfigError: if there is none
    """
    config: Config | None = current_config()
    if config is not None:
        return config
    if auto_create:
        config = Config()
        set_global_config(config)
        return config
    if return_empty_if_none:
        return Config()
    if raise_exception:
        raise ConfigError("There is no global config.\n  returnn.config.set_global_config(config) sets it.")
    return None


def set_global_config(config: Config | None) -> None:
    """Makes it the config of the process, until the next call."""
    replace_current_config(config)


@contextlib.contextmanager
def global_config_ctx(config: Config | None) -> Iterator[None]:
    """It is the config of the process inside of this context."""
    before = replace_current_config(config)
    try:
        yield
    finally:
        replace_current_config(before)


class SubProcCopyGlobalConfigPreInitFunc:
    """Called first thing in a new process, it sets there the global config of the process that made this object."""

    def __init__(self) -> None:
        self.global_config = get_global_config(raise_exception=False)

    def __call__(self) -> None:
        set_global_config(self.global_config)
