"""Options, and data sets, that hold as long as a network does: the key `#config` of its net dict."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from returnn.config import Config
from returnn.config.unsupported_options import KNOWN_OPTIONS
from returnn.datasets.core.dataset import Dataset
from returnn.engine.data import dataset_names, dataset_option, load_dataset
from returnn.engine.net_diff import is_same_net
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


@contextlib.contextmanager
def options_of_net(config: Config, net_dict: Mapping[str, Any]) -> Iterator[None]:
    """
    :param config: is changed in the `with` block
    :param net_dict: options of its key `#config` hold there
    :raises ConfigError: if it is no dict of options
    """
    options = OptionsOfNet(config)
    options.apply(net_dict)
    try:
        yield
    finally:
        options.apply({})


class DataOfNet:
    """
    Makes data sets anew whose descriptions have changed.

    A net dict changes `train`, `dev`, `eval` or `eval_datasets`, and the data sets are there by then. Other options are
    asked for when they count; a data set has to follow its description. One that was given as an object, in place of
    a description, stays until a net dict describes another one.
    """

    def __init__(self, config: Config) -> None:
        """:param config: of the training"""
        self.config = config
        self._known: dict[str, Any] | None = None  # descriptions by name; None: nobody has asked for them

    def begin(self) -> None:
        """The data sets are there, as the config describes them now."""
        self._known = self._descriptions()

    def changed(self) -> dict[str, Dataset | None]:
        """
        :return: by name, the data sets whose descriptions are others than in the last call, or in `begin`; None: there
            is no such data any more
        :raises ConfigError: if there is nothing to train on
        """
        now = self._descriptions()
        before, self._known = now if self._known is None else self._known, now
        names = [name for name in {**before, **now} if not is_same_net(before.get(name), now.get(name))]
        datasets = {name: load_dataset(self.config, name) for name in names}
        if datasets.get("train", True) is None:
            raise ConfigError("net dict: '#config': 'train' is no description of data, but there is to be a training.")
        return datasets

    def _descriptions(self) -> dict[str, Any]:
        return {name: dataset_option(self.config, name) for name in ("train", *dataset_names(self.config))}
