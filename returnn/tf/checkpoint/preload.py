"""
Option `preload_from_files`: parameters from other checkpoints, e.g. of a model that was trained before.

    preload_from_files = {
        "encoder": {"filename": "pretrained/network.100", "prefix": "enc_", "init_for_train": True},
    }

Without `init_for_train`, a file is loaded for search, forward and evaluation alone, into parameters that the training
does not have. With True, it gives the parameters their first value, when a training begins. With "always", it is loaded
whenever the network is built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal

import tensorflow as tf

from returnn.log import log
from returnn.tf.checkpoint.load import CustomCheckpointLoader, CustomLoadParamFunc, NetworkWithLayers
from returnn.util.errors import ConfigError, check_known


@dataclass(frozen=True)
class PreloadedFile:
    """One entry; see `CustomCheckpointLoader` for what the options mean. `prefix` is `load_if_prefix` there."""

    name: str
    filename: str
    prefix: str = ""
    init_for_train: bool | Literal["always"] = False
    ignore_missing: bool = False
    ignore_params: Sequence[str] = ()
    ignore_params_prefixes: Sequence[str] = ()
    var_name_mapping: Mapping[str, str] = field(default_factory=dict)
    custom_missing_load_func: CustomLoadParamFunc | None = None

    def is_needed(self, *, is_training: bool, has_own_checkpoint: bool) -> bool:
        """
        :param is_training: the network is built to be trained
        :param has_own_checkpoint: a checkpoint of this model is loaded, or was, so the training does not begin now
        """
        if self.init_for_train == "always":
            return True
        if is_training:
            return bool(self.init_for_train) and not has_own_checkpoint
        return not self.init_for_train

    def loader(
        self, variables: Sequence[tf.Variable], *, params_prefix: str = "", network: NetworkWithLayers | None = None
    ) -> CustomCheckpointLoader:
        """:raises CheckpointError: if the file does not fit"""
        return CustomCheckpointLoader(
            filename=self.filename,
            saveable_params=variables,
            params_prefix=params_prefix,
            load_if_prefix=self.prefix,
            ignore_missing=self.ignore_missing,
            ignore_params=self.ignore_params,
            ignore_params_prefixes=self.ignore_params_prefixes,
            var_name_mapping=self.var_name_mapping,
            network=network,
            custom_missing_load_func=self.custom_missing_load_func,
        )


def preloaded_files(option: Mapping[str, Mapping[str, object]] | None) -> list[PreloadedFile]:
    """
    :param option: `preload_from_files` of the config
    :return: entries in the order of their names
    :raises ConfigError: if an entry is not as it has to be
    """
    if not isinstance(option or {}, Mapping):
        raise ConfigError(f"option 'preload_from_files' is {option!r}.\n  It has to be a dict: name -> dict.")
    return [_entry(name, options) for name, options in sorted((option or {}).items())]


def set_preloaded_values(
    files: Sequence[PreloadedFile],
    variables: Sequence[tf.Variable],
    *,
    is_training: bool,
    has_own_checkpoint: bool,
    params_prefix: str = "",
    network: NetworkWithLayers | None = None,
) -> list[tf.Variable]:
    """
    Parameters will get their values when the network is initialized.

    :param variables: parameters of the network
    :return: those that get a value
    """
    found: dict[object, tf.Variable] = {}
    for file in files:
        if file.is_needed(is_training=is_training, has_own_checkpoint=has_own_checkpoint):
            print(f"Load parameters from {file.filename!r} (preload_from_files {file.name!r}).", file=log.v2)
            loader = file.loader(variables, params_prefix=params_prefix, network=network)
            loader.set_as_custom_init()
            found.update({ref: ref.deref() for ref in loader.get_variable_value_map()})
    return list(found.values())


def _entry(name: str, options: Mapping[str, object]) -> PreloadedFile:
    where = f"option 'preload_from_files': {name!r}"
    if not isinstance(options, Mapping) or "filename" not in options:
        raise ConfigError(f"{where} is {options!r}.\n  It has to be a dict with 'filename'.")
    known = [f.name for f in fields(PreloadedFile) if f.name != "name"]
    for key in options:
        check_known("key", key, known, where=where)
    if options.get("init_for_train", False) not in (True, False, "always"):
        raise ConfigError(
            f"{where}: 'init_for_train' is {options['init_for_train']!r}.\n  Possible: True, False, 'always'."
        )
    return PreloadedFile(name=name, **options)
