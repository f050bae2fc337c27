"""
How long it takes to build a network of 300 layers, and how many ops its graph has, against the same in TensorFlow.

The network is a stack of residual blocks: layer norm, linear with ReLU, dropout, linear, add, and a softmax with
cross entropy at its end. By hand, it is written as somebody would who knows the layout of the data. Both are built
with the gradients of all parameters as well.

    python benchmarks/construct.py [--blocks N] [--repeat N] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import os
import pstats
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

import returnn.frontend as rf
from returnn.config import Config
from returnn.tf.inspection.template_network import TemplateNetwork
from returnn.tf.network import TFNetwork

tf1 = tf.compat.v1
DIM, INNER, CLASSES, DROPOUT = 32, 64, 10, 0.1
EXTERN_DATA = {
    "data": {"dim": DIM, "shape": (None, DIM)},
    "classes": {"dim": CLASSES, "sparse": True, "shape": (None,)},
}


def net_dict(blocks: int) -> dict[str, Any]:
    """:return: network with five layers in each block"""
    net: dict[str, Any] = {}
    source = "data"
    for i in range(blocks):
        net[f"norm{i}"] = {"class": "layer_norm", "from": source}
        net[f"inner{i}"] = {"class": "linear", "activation": "relu", "n_out": INNER, "from": f"norm{i}"}
        net[f"drop{i}"] = {"class": "dropout", "dropout": DROPOUT, "from": f"inner{i}"}
        net[f"outer{i}"] = {"class": "linear", "activation": None, "n_out": DIM, "from": f"drop{i}"}
        net[f"sum{i}"] = {"class": "combine", "kind": "add", "from": [source, f"outer{i}"]}
        source = f"sum{i}"
    net["output"] = {"class": "softmax", "from": source, "loss": "ce", "target": "classes"}
    return net


def build_network(blocks: int) -> tuple[tf.Tensor, list[tf.Variable]]:
    """:return: loss and parameters of the network"""
    net = net_dict(blocks)
    config = Config({"extern_data": EXTERN_DATA, "network": net, "behavior_version": 21})
    with rf.backend_ctx("tf"):
        network = TFNetwork(config=config, train_flag=True)
        network.construct_from_dict(net)
        return network.get_objective(), network.get_trainable_params()


def build_templates(blocks: int) -> None:
    """Only infers the dims, as `++task check` does."""
    net = net_dict(blocks)
    config = Config({"extern_data": EXTERN_DATA, "network": net, "behavior_version": 21})
    TemplateNetwork.of_net_dict(net, config, train_flag=True, search_flag=False)


def build_by_hand(blocks: int) -> tuple[tf.Tensor, list[tf.Variable]]:
    """:return: the same in TensorFlow"""
    variables: list[tf.Variable] = []

    def variable(name: str, *shape: int, ones: bool = False) -> tf.Variable:
        initializer = tf1.glorot_uniform_initializer() if len(shape) == 2 else tf1.zeros_initializer()
        initializer = tf1.ones_initializer() if ones else initializer
        variables.append(tf1.get_variable(name, shape, initializer=initializer, use_resource=True))
        return variables[-1]

    def linear(name: str, x: tf.Tensor, num_in: int, num_out: int) -> tf.Tensor:
        weights, bias = variable(f"{name}/W", num_in, num_out), variable(f"{name}/b", num_out)
        flat = tf.matmul(tf.reshape(x, [-1, num_in]), weights)
        return tf.reshape(flat, tf.concat([tf.shape(x)[:-1], [num_out]], axis=0)) + bias

    x = tf1.placeholder(tf.float32, [None, None, DIM])
    labels, lengths = tf1.placeholder(tf.int32, [None, None]), tf1.placeholder(tf.int32, [None])
    for i in range(blocks):
        mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
        normalized = (x - mean) * tf.math.rsqrt(variance + 1e-6)
        normalized = normalized * variable(f"norm{i}/scale", DIM, ones=True) + variable(f"norm{i}/bias", DIM)
        inner = tf.nn.relu(linear(f"inner{i}", normalized, DIM, INNER))
        x = x + linear(f"outer{i}", tf.nn.dropout(inner, DROPOUT), INNER, DIM)
    logits = linear("output", x, DIM, CLASSES)
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_sum(tf.where(tf.sequence_mask(lengths, tf.shape(x)[1]), loss, 0.0)), variables


def measure(build: Callable[[int], Any], blocks: int) -> dict[str, float]:
    """:return: seconds of CPU time and number of ops, of the forward pass and of the gradients"""
    gc.collect()
    with tf.Graph().as_default() as graph:
        start = time.process_time()
        result = build(blocks)
        forward_s, forward_ops = time.process_time() - start, len(graph.get_operations())
        if result is None:
            return {"forward_s": forward_s}
        loss, params = result
        tf.gradients(loss, params)
        return {
            "forward_s": forward_s,
            "forward_ops": forward_ops,
            "gradient_s": time.process_time() - start - forward_s,
            "all_ops": len(graph.get_operations()),
        }


def best_of(build: Callable[[int], Any], blocks: int, repeat: int) -> dict[str, float]:
    """:return: the least of each figure"""
    runs = [measure(build, blocks) for _ in range(repeat)]
    return {key: min(run[key] for run in runs) for key in runs[0]}


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=60, help="of five layers each")
    parser.add_argument("--repeat", type=int, default=3, help="the best of so many runs counts")
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    args = parser.parse_args()
    if args.profile:
        profile = cProfile.Profile()
        profile.runcall(measure, build_network, args.blocks)
        pstats.Stats(profile).sort_stats("cumulative").print_stats(60)
        return
    measure(build_network, 2)  # imports and caches
    ours, by_hand = (best_of(build, args.blocks, args.repeat) for build in (build_network, build_by_hand))
    print(f"{len(net_dict(args.blocks))} layers: {'network':>16} {'by hand':>10} {'ratio':>7}")
    for key, value in ours.items():
        print(f"{key:>12} {value:16.2f} {by_hand[key]:10.2f} {value / by_hand[key]:7.2f}")
    small = best_of(build_network, max(1, args.blocks // 4), args.repeat)
    factor = len(net_dict(args.blocks)) / len(net_dict(max(1, args.blocks // 4)))
    print(f"time per layer, against a network of a quarter: {ours['forward_s'] / small['forward_s'] / factor:.2f}")
    print(f"templates alone: {best_of(build_templates, args.blocks, args.repeat)['forward_s']:.2f} s")


if __name__ == "__main__":
    main()
