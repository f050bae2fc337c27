"""Option `preload_from_files`, see `returnn.config.preloaded_file`, for variables of TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from returnn.config.preloaded_file import PreloadedFile
from returnn.log import log
from returnn.tf.checkpoint.load import CustomCheckpointLoader, NetworkWithLayers


def set_preloaded_values(
    files: Sequence[PreloadedFile],
    variables: Sequence[tf.Variable],
    *,
    is_training: bool,
    has_own_checkpoint: bool,
    params_prefix: str = "",
    network: NetworkWithLayers | None = None,
    on_loaded: Callable[[PreloadedFile, dict[str, list[int | None]]], None] | None = None,
) -> list[tf.Variable]:
    """
    Parameters will get their values when the network is initialized.

    :param variables: parameters of the network
    :param on_loaded: called with each file, and the shapes of the parameters that get their values from it, by name
    :return: those that get a value
    """
    found: dict[object, tf.Variable] = {}
    for file in files:
        if file.is_needed(is_training=is_training, has_own_checkpoint=has_own_checkpoint):
            with file.opened():
                # For what the options mean, see there.
                loader = CustomCheckpointLoader(
                    filename=file.filename,
                    saveable_params=variables,
                    params_prefix=params_prefix,
                    load_if_prefix=file.prefix,
                    ignore_missing=file.ignore_missing,
                    ignore_params=file.ignore_params,
                    ignore_params_prefixes=file.ignore_params_prefixes,
                    var_name_mapping=file.var_name_mapping,
                    network=network,
                    custom_missing_load_func=file.custom_missing_load_func,
                )
                loader.set_as_custom_init()
            file.warn_of_names_without_effect(
                in_file=loader.var_ckpt_names,
                in_model=[variable.op.name.removeprefix(params_prefix) for variable in variables],
            )
            loader.warn_of_misspelt(file.where)
            loaded = {ref: ref.deref() for ref in loader.get_variable_value_map()}
            if not loaded:  # no error, as a pretraining may add these layers later
                what = f"no parameter with {file.prefix!r} in its name" if file.prefix else "no parameter"
                log.print_warning(f"{file.where}: the network has {what} that is loaded from {file.filename!r}.")
            elif on_loaded is not None:
                on_loaded(file, {variable.op.name: variable.shape.as_list() for variable in loaded.values()})
            found.update(loaded)
    return list(found.values())
