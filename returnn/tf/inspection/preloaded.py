"""Whether the files of `preload_from_files` are there, and fit the parameters of layers. No graph is needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from returnn.config import Config
from returnn.config.preloaded_file import preloaded_files, warn_of_missing_files
from returnn.engine.data import dataset_option
from returnn.engine.data_identity import warn_of_labels_of_preloaded
from returnn.engine.model_names import existing_models
from returnn.tf.checkpoint.preload import set_preloaded_values
from returnn.tf.inspection.report import NetReport
from returnn.tf.inspection.template_network import ParameterTemplate
from returnn.util.errors import UserError


def preload_errors(config: Config, networks: Sequence[NetReport]) -> Iterator[str]:
    """
    :param config: its option `preload_from_files`
    :param networks: at least one: the first is the one that a training begins with, the last one is for other tasks
    :return: errors, at most one for each file
    """
    trains = dataset_option(config, "train") is not None
    if trains:
        warn_of_missing_files(config.options.preload_from_files)
    has_own = bool(existing_models(config))
    for file in preloaded_files(config.options.preload_from_files):
        is_training = trains and bool(file.init_for_train)
        variables = _variables(networks[0 if is_training else -1])
        names = [variable.op.name for variable in variables]
        if file.is_to_check(trains=trains, has_own_checkpoint=has_own, names=names):
            try:
                set_preloaded_values(
                    [file],
                    variables,
                    is_training=is_training,
                    has_own_checkpoint=has_own,
                    on_loaded=lambda file, shapes: warn_of_labels_of_preloaded(file, config, shapes),
                )
            except UserError as exc:
                yield str(exc)


def _variables(network: NetReport) -> list[Any]:
    """:return: as many as have their values from a checkpoint without a function of the layer that does it"""
    layers = {found.name: found.layer for found in network.layers}
    variables = []
    for param in network.params:
        layer = layers.get(param.layer)
        if layer is None or not layer.custom_param_importer:
            variable = _TemplateVariable(param)
            if getattr(layer, "non_critical_for_restore", False):
                variable._returnn_non_critical_for_restore = True
            variables.append(variable)
    return variables


class _TemplateVariable:
    """What loading asks a variable for; it keeps no value."""

    _returnn_non_critical_for_restore: bool

    def __init__(self, param: ParameterTemplate) -> None:
        self.op = SimpleNamespace(name=param.name)
        self.shape = tf.TensorShape(param.shape)

    def ref(self) -> _TemplateVariable:
        return self

    def deref(self) -> _TemplateVariable:
        return self
