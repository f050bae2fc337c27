"""What the updater asks of a network. `returnn.tf.network.TFNetwork` has all of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import tensorflow as tf

from returnn.tf.updater.gradient_options import GradientOptions, VariableOptions, options_of_layer


class TrainedLayer(Protocol):
    """A layer with its parameters, and what it asks of the update."""

    L2: float | None

    @property
    def params(self) -> Mapping[str, tf.Variable]:
        """By name."""

    @property
    def updater_opts(self) -> Mapping[str, object] | None:
        """Options of the update for its parameters."""

    def get_absolute_name(self) -> str:
        """:return: e.g. "decoder/att" """


class TrainedNetwork(Protocol):
    """A network whose parameters are updated."""

    @property
    def global_train_step_var(self) -> tf.Variable:
        """Number of the training step."""

    @property
    def extra_vars_to_save(self) -> list[tf.Variable]:
        """Variables that belong to no layer, and go into checkpoints."""

    def get_objective(self) -> tf.Tensor:
        """:return: sum of all losses and constraints, a scalar"""

    def get_trainable_params(self) -> Sequence[tf.Variable]:
        """:return: what is to be updated"""

    def get_all_layers_deep(self) -> Iterable[TrainedLayer]:
        """:return: all layers, with those of subnetworks"""

    def get_post_control_dependencies(self) -> Sequence[tf.Operation]:
        """:return: what has to run in each step, e.g. updates of running means"""

    def reset_saver(self) -> None:
        """Other variables are to be saved than before."""


@dataclass(frozen=True)
class LayerDemands:
    """What layers ask of the update, by variable."""

    options: Mapping[object, VariableOptions]
    l2: Mapping[object, float]


def demands_of_layers(layers: Iterable[TrainedLayer], base: GradientOptions) -> LayerDemands:
    """
    :param layers: those of a subnetwork may come together with it; then the layer with the fewest parameters decides
    :param base: options of the config
    """
    layers = sorted(layers, key=lambda layer: -len(layer.params))
    options: dict[object, VariableOptions] = {}
    l2: dict[object, float] = {}
    for layer in layers:
        for var in layer.params.values():
            if layer.updater_opts:
                options[var.ref()] = options_of_layer(layer.updater_opts, base, layer=layer.get_absolute_name())
            if layer.L2:
                l2[var.ref()] = l2.get(var.ref(), 0.0) + layer.L2
    return LayerDemands(options, l2)
