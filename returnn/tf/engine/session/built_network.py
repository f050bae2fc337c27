"""`BuiltNetwork`: the network of a net dict in a graph, and what updates it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.config import Config
from returnn.engine.run.mixed_precision import amp_dtype
from returnn.tensor import batch_dim
from returnn.tf.engine.passes.non_finite import checked_objective
from returnn.tf.frontend_low_level.later_gradients import gradients_come_first
from returnn.tf.frontend_low_level.users_random import without_state
from returnn.tf.network import TFNetwork
from returnn.tf.network.extern_data import ExternData
from returnn.tf.network.losses import no_loss_text
from returnn.tf.updater import Updater
from returnn.util.errors import ConfigError

tf1 = tf.compat.v1

NetDict = dict[str, Any]


@dataclass(frozen=True)
class BuiltNetwork:
    """One graph with everything in it. For another net dict, there is another one."""

    net_dict: NetDict
    epoch: int  # for which it was built
    network: TFNetwork
    updater: Updater | None  # None if it is not trained
    train_flag: tf.Tensor | None  # what says in the graph whether it is training; None if it never is
    graph: tf.Graph
    _made: dict[Any, Any] = field(default_factory=dict, repr=False)

    def made_once(self, key: Any, make: Callable[[], Any]) -> Any:
        """
        :param key: what it is
        :param make: adds to the graph
        :return: result of `make`, which is called once
        """
        if key not in self._made:
            with self.graph.as_default():
                self._made[key] = make()
        return self._made[key]

    def flags_feed(self, *, train_flag: bool) -> dict[Any, Any]:
        """:return: what to feed so that the network is in training or not"""
        return {} if self.train_flag is None else {self.train_flag: train_flag}

    def variables_of_model(self) -> list[tf.Variable]:
        """:return: what a model file has, each once: parameters and the state of the optimizer"""
        variables = self.network.get_saveable_params_list()
        variables += self.updater.optimizer_vars if self.updater is not None else []
        return list({var.ref(): var for var in variables}.values())

    def all_variables(self) -> dict[str, tf.Variable]:
        """:return: everything that steps can change: also states that are kept, and variables of a config's own code"""
        return {var.op.name: var for var in self.graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)}


def build_network(
    config: Config, net_dict: NetDict, *, epoch: int, is_training: bool, eval_flag: bool, search_flag: bool
) -> BuiltNetwork:
    """
    :param config: options
    :param net_dict: options of each layer, by name
    :param epoch: whose network it is
    :param is_training: whether parameters are updated
    :param eval_flag: whether losses are computed
    :param search_flag: whether choices search
    :return: in a new graph, which is the default one from now on
    """
    tf1.reset_default_graph()
    tf1.disable_eager_execution()
    batch_dim.reset_raw()
    seed = config.options.random_seed
    tf1.set_random_seed(seed)
    train_flag: tf.Tensor | None = None
    if is_training or config.options.eval_use_train_flag:
        train_flag = tf1.placeholder_with_default(tf.constant(False), (), name="train_flag")
    with without_state():
        network, updater = create_network(
            config,
            rnd_seed=seed,
            train_flag=False if train_flag is None else train_flag,
            eval_flag=eval_flag,
            search_flag=search_flag,
            net_dict=net_dict,
            initial_learning_rate=config.options.learning_rate,
        )
    updater = updater if is_training else None
    return BuiltNetwork(net_dict, epoch, network, updater, train_flag, tf1.get_default_graph())


def check_has_loss(network: TFNetwork, *, purpose: str) -> None:
    """
    :param network: with its losses
    :param purpose: what they are needed for, for the error
    :raises ConfigError: if there are none
    """
    network.maybe_construct_objective()
    has_constraints = network.total_constraints.op.type != "Const"
    if not network.losses_dict and not has_constraints:
        raise ConfigError(no_loss_text(network.layers_desc, purpose=purpose))


def create_network(
    config: Config,
    rnd_seed: int,
    train_flag: bool | tf.Tensor,
    eval_flag: bool,
    search_flag: bool,
    net_dict: NetDict,
    extern_data: ExternData | None = None,
    initial_learning_rate: float = 1.0,
) -> tuple[TFNetwork, Updater | None]:
    """
    :param config: options
    :param rnd_seed: for parameters and dropout
    :param train_flag: False, or what says in the graph whether it is training
    :param eval_flag: whether losses are computed
    :param search_flag: whether choices search
    :param net_dict: options of each layer, by name
    :param extern_data: default: from the config, with placeholders
    :param initial_learning_rate: for the updater
    :return: network, and what updates it, if it may be trained
    """
    network = TFNetwork(
        name="root",
        config=config,
        extern_data=extern_data,
        rnd_seed=rnd_seed,
        train_flag=train_flag,
        eval_flag=eval_flag,
        search_flag=search_flag,
    )
    with rf.set_amp_policy_ctx(amp_dtype(config.options.tf_amp, name="tf_amp")), gradients_come_first():
        network.construct_from_dict(net_dict)
        if train_flag is not False and config.options.search_train_network_layers:
            network.construct_extra_net(net_dict, config.options.search_train_network_layers, search_flag=True)
        if eval_flag:
            network.maybe_construct_objective()  # losses say which data is used, and batches need to know that
    if train_flag is False:
        return network, None
    check_has_loss(network, purpose="training")
    objective = network.get_objective()
    if config.options.stop_on_nonfinite_train_score:
        objective = checked_objective(objective)
    updater = Updater(config, network, initial_learning_rate, objective=objective)
    updater.set_trainable_vars(network.get_trainable_params())
    return network, updater
