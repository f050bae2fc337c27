"""Options that hold as long as a network does: the key `#config` of its net dict."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from returnn.config import Config
from returnn.config.unsupported_options import KNOWN_OPTIONS
from returnn.util.errors import ConfigError, check_known

_KEYS = ("#config", "#copy_param_mode", "#finish_all_data", "#repetition", "#trainable")
_UNSET = object()


def check_special_keys(net_dict: Mapping[str, Any]) -> None:
    """
    Keys with "#" are no layers. Those which mean nothing are notes of the config, such as `#pretrain_idx`.

    :raises ConfigError: if one looks like a known key that is misspelt
    """
    for key in net_dict:
        if key.startswith("#") and difflib.get_close_matches(key, _KEYS, n=1, cutoff=0.8):
            check_known("key", key, _KEYS, where="net dict")


class OptionsOfNet:
    """Changes a config by `#config`, and puts back what was there before."""

    def __init__(self, config: Config) -> None:
        """:param config: is changed"""
        self.config = config
        self.original: dict[str, Any] = {}  # options that are changed now -> what they were

    def apply(self, net_dict: Mapping[str, Any]) -> None:
        """
        :param net_dict: options of its key `#config` hold, and no longer those of the net dict before
        :raises ConfigError: if it is no dict of options
        """
        self._restore()
        options = net_dict.get("#config") or {}
        if not isinstance(options, Mapping):
            raise ConfigError(f"net dict: '#config' is {options!r}.\n  It has to be a dict of options.")
        for key, value in options.items():
            check_known("option", key, [*KNOWN_OPTIONS, *self.config.typed_dict], where="net dict: '#config'")
            self.original[key] = self.config.typed_dict.get(key, _UNSET)
            self.config.set(key, value)

    def _restore(self) -> None:
        for key, value in self.original.items():
            if value is _UNSET:
                self.config.typed_dict.pop(key, None)
            else:
                self.config.set(key, value)
        self.original.clear()
