"""Option `load_on_init` of subnetworks: the parameters inside come from a checkpoint of another model."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable
from typing import Any

import numpy
import tensorflow as tf

from returnn.log import log
from returnn.tf.checkpoint import CheckpointError, CustomCheckpointLoader, read_values
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.structure.subnetwork import SubnetworkLayer
from returnn.util.errors import ConfigError, check_known
from returnn.util.files.checkpoint_names import is_missing
from returnn.util.texts.counted import counted, some_of


def set_load_on_init(layers: Iterable[LayerBase], *, trained: Collection[str] = ()) -> list[tf.Variable]:
    """
    The parameters inside of subnetworks with that option get their values when the network is initialized.

    :param layers: of the network, also those inside of others
    :param trained: names of parameters that the training which goes on has values of. These are newer ones
    :return: those that get a value
    :raises ConfigError: if a file is missing, or does not fit
    """
    found: dict[Any, tf.Variable] = {}
    for layer in layers:
        options = _options_of(layer)
        if options is None:
            continue
        prefix = options.setdefault("params_prefix", layer.get_absolute_name_scope_prefix())
        inside = [param for param in layer.params.values() if param.op.name.startswith(prefix)]
        params = [param for param in inside if param.op.name not in trained]
        if not params and inside:
            continue  # so the file is not needed any more
        print(f"Load parameters from {options['filename']!r} ({_where(layer)}).", file=log.v2)
        try:
            loader = CustomCheckpointLoader(**{"saveable_params": params, **options})
            loader.set_as_custom_init()
            loader.warn_of_misspelt(_where(layer))
        except CheckpointError as exc:
            raise ConfigError(f"{_where(layer)}: {exc}") from exc
        refs: list[Any] = list(loader.get_variable_value_map())
        found |= {ref: ref.deref() for ref in refs}
    return list(found.values())


def missing_files_on_init(layers: Iterable[LayerBase]) -> list[str]:
    """:return: what is wrong with the option, for each layer where it names a file that is not there"""
    errors = []
    for layer in layers:
        options = _options_of(layer)
        if options is not None and is_missing(options["filename"]):
            errors.append(f"{_where(layer)}: checkpoint {options['filename']!r} does not exist.")
    return errors


def warn_of_other_values(params: Collection[tf.Variable], filename: str, session: tf.compat.v1.Session) -> None:
    """
    For tasks other than training, where the file of the option counts, also if the model has the parameters.

    :param params: that come from files of `load_on_init`
    :param filename: of the checkpoint of the whole model
    :param session: with the values of the parameters
    """
    trained = read_values(filename, [param.op.name for param in params])
    used = session.run({param.op.name: param for param in params if param.op.name in trained})
    others = [name for name, value in used.items() if not numpy.array_equal(value, trained[name])]
    if others:
        log.print_warning(
            f"{filename}: {counted(len(others), 'parameter')} there have other values than in the file of "
            f"'load_on_init', which counts: {some_of(others)}. Without "
            "'load_on_init', the values of the model count."
        )


def _options_of(layer: LayerBase) -> dict[str, Any] | None:
    """:return: for `CustomCheckpointLoader`; None if it is no subnetwork with that option"""
    options = layer.checkpoint_on_init() if isinstance(layer, SubnetworkLayer) else None
    known = inspect.signature(CustomCheckpointLoader).parameters
    for name in options or ():
        check_known("option", name, known, where=_where(layer))
    if options is not None and "filename" not in options:
        raise ConfigError(f"{_where(layer)} is {options!r}.\n  It has to be a file, or a dict with 'filename'.")
    return options


def _where(layer: LayerBase) -> str:
    return f"{layer.where()}: option 'load_on_init'"
