"""
Which config is the global one. The value alone stands here, so that `Config` itself can set it while a file runs.

Python has no way to tell a config's functions apart from those of a module, when they are pickled: it asks for
`__returnn_config__.NAME`. So the current config is found there as a module.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Protocol

MODULE_NAME = "__returnn_config__"


class HasOptions(Protocol):
    """What is known of a config here."""

    typed_dict: dict[str, Any]


_current: HasOptions | None = None


def current_config() -> Any:  # a `Config`, whose module imports this one
    """:return: the global config, if there is one"""
    return _current


def replace_current_config(config: HasOptions | None) -> Any:
    """:return: the one before"""
    global _current
    before, _current = _current, config
    return before


class _ConfigModule(ModuleType):
    """The options of the current config as a module."""

    def __getattr__(self, name: str) -> Any:
        if _current is not None and not name.startswith("__") and name in _current.typed_dict:
            return _current.typed_dict[name]
        raise AttributeError(f"the config has no {name!r}")


sys.modules.setdefault(MODULE_NAME, _ConfigModule(MODULE_NAME, "The options of the current config."))
