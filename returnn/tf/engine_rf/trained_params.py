"""The model as the updater of net dicts sees a network: a layer for each parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

import returnn.frontend as rf

tf1 = tf.compat.v1


@dataclass(frozen=True)
class ParamAsLayer:
    """See `returnn.tf.updater.network_protocol.TrainedLayer`."""

    name: str
    params: Mapping[str, tf.Variable]
    L2: float | None
    updater_opts: Mapping[str, object] | None = None

    def get_absolute_name(self) -> str:
        """:return: path of the parameter"""
        return self.name


@dataclass
class ModelAsNetwork:
    """See `returnn.tf.updater.network_protocol.TrainedNetwork`."""

    params: Mapping[str, rf.Parameter]  # by path
    objective: Any
    global_train_step_var: tf.Variable
    extra_vars_to_save: list[tf.Variable] = field(default_factory=list)

    def get_objective(self) -> tf.Tensor:
        """:return: what is minimized, a scalar"""
        return self.objective

    def get_trainable_params(self) -> list[tf.Variable]:
        """:return: what is updated"""
        return [param.raw_tensor for param in self.params.values() if param.trainable]

    def get_all_layers_deep(self) -> list[ParamAsLayer]:
        """:return: one for each parameter"""
        return [
            ParamAsLayer(name, {name: param.raw_tensor}, param.weight_decay or None)
            for name, param in self.params.items()
        ]

    def get_post_control_dependencies(self) -> Sequence[tf.Operation]:
        """:return: nothing: what a model assigns is among the updates of the graph"""
        return ()

    def reset_saver(self) -> None:
        """The checkpoint is written from a list of all variables."""
