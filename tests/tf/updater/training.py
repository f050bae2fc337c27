"""A tiny network and its training, to test the updater on."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence

import numpy
import tensorflow as tf

from returnn.config import Config
from returnn.tf.updater import Updater


class Layer:
    def __init__(self, name: str, params: Mapping[str, tf.Variable], updater_opts=None, L2=None):
        self.name, self.params, self.updater_opts, self.L2 = name, params, updater_opts, L2

    def get_absolute_name(self):
        return self.name


class Network:
    """
    Layers `hidden` and `output` with parameters W and b. The objective is the sum of `gradient * parameter`, so that
    each test chooses the gradients. `gradients` is a placeholder per parameter.
    """

    VALUES = types.MappingProxyType(
        {"hidden/W": [[1.0, -2.0], [3.0, 0.5]], "hidden/b": [1.0, 1.0], "output/W": [2.0, -1.0, 4.0]}
    )

    def __init__(self, layer_options: Mapping[str, Mapping] | None = None):
        self.params = {
            name: tf.compat.v1.get_variable(name, initializer=numpy.array(value, "float32"), use_resource=True)
            for name, value in self.VALUES.items()
        }
        self.gradients = {name: tf.compat.v1.placeholder(tf.float32, var.shape) for name, var in self.params.items()}
        self.objective = tf.add_n([tf.reduce_sum(self.gradients[n] * var) for n, var in self.params.items()])
        self.global_train_step_var = tf.compat.v1.get_variable(
            "global_step", initializer=numpy.int64(0), trainable=False, use_resource=True
        )
        self.extra_vars_to_save: list[tf.Variable] = []
        self.num_saver_resets = 0
        self.layers = [
            Layer(name, {n.split("/")[1]: v for n, v in self.params.items() if n.startswith(f"{name}/")}, **options)
            for name, options in {"hidden": {}, "output": {}, **(layer_options or {})}.items()
        ]

    def get_objective(self):
        return self.objective

    def get_trainable_params(self):
        return list(self.params.values())

    def get_all_layers_deep(self):
        return self.layers

    def get_post_control_dependencies(self):
        return []

    def reset_saver(self):
        self.num_saver_resets += 1


class Training:
    """Runs steps of the updater."""

    def __init__(self, layers: Mapping[str, Mapping] | None = None, *, learning_rate: float = 1.0, **options):
        self.graph = tf.Graph()
        with self.graph.as_default():
            tf.compat.v1.set_random_seed(42)
            self.session = tf.compat.v1.Session(graph=self.graph)
            self.network = Network(layers)
            self.updater = Updater(Config(options), self.network, learning_rate)
            self.updater.set_trainable_vars(self.network.get_trainable_params())
            self.op = self.updater.get_optim_op()
            self.session.run(tf.compat.v1.global_variables_initializer())
            self.updater.init_optimizer_vars(self.session)

    def step(self, gradients: Mapping[str, Sequence[float]] | None = None, fetch=()):
        """:param gradients: of some parameters; that of the others is 0"""
        feeds = {holder: numpy.zeros(holder.shape) for holder in self.network.gradients.values()}
        for name, gradient in (gradients or {}).items():
            feeds[self.network.gradients[name]] = gradient
        return self.session.run([self.op, *fetch], feeds)[1:]

    def value(self, name: str) -> numpy.ndarray:
        return self.session.run(self.network.params[name])

    def change(self, name: str) -> numpy.ndarray:
        """:return: how much the parameter differs from its initial value"""
        return self.value(name) - numpy.array(Network.VALUES[name])
