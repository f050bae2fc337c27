"""
From the network of one epoch to that of the next one, as in pretraining: parameters and the state of the optimizer.

Parameters go by layer and name, the variables of the optimizer by name. With the same shape, the value stays. With
another one, it depends on the mode: "ifpossible" starts anew, "subset" keeps the part that both shapes have.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy
import tensorflow as tf

from returnn.log import log
from returnn.tf.network import TFNetwork
from returnn.tf.updater import Updater
from returnn.tf.util.parameters.assign import assign_values
from returnn.util.errors import ConfigError, check_known
from returnn.util.texts.counted import some_of

tf1 = tf.compat.v1

COPY_MODES = ("ifpossible", "subset")


@dataclass(frozen=True)
class CopyRules:
    """What is carried over."""

    mode: str = "ifpossible"  # one of `COPY_MODES`
    skipped_layers: Collection[str] = ()  # start anew
    strict_layers: Collection[str] = ()  # it is an error if their shapes differ

    def __post_init__(self) -> None:
        check_known("mode", self.mode, COPY_MODES, where="'copy_param_mode'")


@dataclass(frozen=True)
class NetworkState:
    """Values of the variables that a checkpoint has."""

    params: Mapping[str, Mapping[str, numpy.ndarray]]  # layer -> name -> value
    others: Mapping[str, numpy.ndarray]  # name of the variable -> value


def take_state(network: TFNetwork, updater: Updater | None, session: tf.compat.v1.Session) -> NetworkState:
    """:return: all values, independent of the session"""
    params = network.params.values_by_inner_layer(session)
    others = {var.op.name: var for var in _other_variables(network, updater)}
    return NetworkState(params, session.run(others))


def restore_state(
    state: NetworkState, network: TFNetwork, updater: Updater | None, session: tf.compat.v1.Session, rules: CopyRules
) -> None:
    """
    Sets what the new network has in common with the old one.

    :param state: of the old network
    :param network: the new one, with its initial values
    :param updater: of the new network
    :param session: with the new network
    :param rules: what is carried over
    :raises ConfigError: if something has to fit and does not
    """
    new: list[str] = []
    for layer in network.get_all_layers_deep():
        name = layer.get_absolute_name()
        if name in rules.skipped_layers:
            new += [param.op.name for param in layer.own_params.values()]
        elif layer.own_params:
            new += _restore_layer(layer, state.params.get(name, {}), session, rules)
    values = {
        var.ref(): state.others[var.op.name]
        for var in _other_variables(network, updater)
        if var.op.name in state.others and state.others[var.op.name].shape == tuple(var.shape.as_list())
    }
    assign_values(session, values)
    if new:
        print(f"parameters that start anew: {some_of(new)}", file=log.v3)


def _other_variables(network: TFNetwork, updater: Updater | None) -> list[tf.Variable]:
    variables = [*network.extra_vars_to_save, *(updater.optimizer_vars if updater is not None else [])]
    return list({var.ref(): var for var in variables}.values())


def _restore_layer(
    layer: Any, values: Mapping[str, numpy.ndarray], session: tf.compat.v1.Session, rules: CopyRules
) -> list[str]:
    """:return: names of parameters that start anew"""
    wrong = {
        name: param
        for name, param in layer.own_params.items()
        if name not in values or values[name].shape != tuple(param.shape.as_list())
    }
    if wrong and values and layer.get_absolute_name() in rules.strict_layers:
        raise ConfigError(
            f"{layer.where()}: the parameter {next(iter(wrong))!r} has another shape than in the epoch before.\n"
            "  It has to fit, as 'copy_output_layer' is True; 'ifpossible' lets it start anew."
        )
    if not wrong:
        assign_values(session, {param.ref(): values[name] for name, param in layer.own_params.items()})
    elif values:
        layer.set_param_values_by_dict(values, session, copy_param_mode=rules.mode)
    return [
        param.op.name
        for name, param in wrong.items()
        if rules.mode != "subset" or name not in values or values[name].ndim != param.shape.rank
    ]
