"""Runs a random network on random data, in a graph of its own."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy
import tensorflow as tf
from numpy import ndarray

from returnn.config import Config
from returnn.tf.network import TFNetwork
from returnn.util.behavior_version import BehaviorVersion
from tests.fuzz.grammar import Net
from tests.golden import golden

tf1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class Result:
    """What came out: as in the recorded cases."""

    arrays: dict[str, ndarray]
    inputs: dict[str, ndarray]
    params: dict[str, ndarray]
    outputs: dict[str, Any]  # the templates

    def differences(self, other: Result) -> list[str]:
        """:return: a line for each; empty if both are the same but for the order of axes and padded frames"""
        return golden.compare(other._in_layout_of(self), self.arrays, golden.CaseOptions())

    def _in_layout_of(self, other: Result) -> dict[str, ndarray]:
        """:return: the arrays; with the axes in the order of the other one, as far as names of dims tell them apart"""
        arrays = dict(self.arrays)
        for name in self.outputs.keys() & other.outputs.keys():
            own, wanted = ([str(dim) for dim in result.outputs[name].dims] for result in (self, other))
            if len(set(own)) == len(own) and sorted(own) == sorted(wanted) and f"out:{name}" in arrays:
                perm = [own.index(dim) for dim in wanted]
                arrays[f"out:{name}"] = arrays[f"out:{name}"].transpose(perm)
                lengths = {axis: arrays.pop(f"outlen:{name}:{axis}", None) for axis in range(len(own))}
                moved = {f"outlen:{name}:{new}": lengths[axis] for new, axis in enumerate(perm)}
                arrays.update({key: value for key, value in moved.items() if value is not None})
        return arrays


def run(net: Net, wanted: list[str], *, n_batch: int = 3, search: bool = False) -> Result:
    """
    :param net: the network
    :param wanted: layers whose outputs are computed
    :param n_batch: number of sequences
    :param search: whether it searches
    """
    BehaviorVersion.reset()
    BehaviorVersion.set(net.version)
    options = golden.CaseOptions(train=net.train, same_time=True, n_batch=n_batch)
    version = {} if net.version is None else {"behavior_version": net.version}
    config = Config({"network": net.layers, "extern_data": net.extern_data, **version})
    with tf.Graph().as_default() as graph, tf1.Session(graph=graph) as session:
        tf1.set_random_seed(1)
        network = TFNetwork(config=config, train_flag=net.train, search_flag=search, eval_flag=True)
        network.construct_from_dict(net.layers)
        outputs = {name: _batch_major(network.get_layer(name).output) for name in wanted}
        fetches = {**_fetches_of(outputs), **_objective(network, train=net.train)}
        network.extern_data.data.pop("seq_tag", None)  # for messages of losses
        session.run(tf1.global_variables_initializer())
        params = _set_params(network, session, options)
        inputs = _inputs(network, options)
        return Result(session.run(fetches, _feed(network, inputs, n_batch)), inputs, params, outputs)


def _batch_major(out: Any) -> Any:
    return out.copy_as_batch_major() if out.have_batch_axis() else out


def _fetches_of(outputs: dict[str, Any]) -> dict[str, Any]:
    fetches = {f"out:{name}": out.raw_tensor for name, out in outputs.items()}
    for name, out in outputs.items():
        fetches.update((f"outlen:{name}:{axis}", lengths) for axis, lengths in golden._dyn_lens_of(out).items())
    return fetches


def _objective(network: TFNetwork, *, train: bool) -> dict[str, Any]:
    losses, loss, constraints = network.get_losses_initialized(with_total=True)
    if not losses:
        return {}
    total = loss + constraints
    fetches = {f"loss:{name}": loss.get_loss_value() for name, loss in losses.items()}
    params = [param for param in network.get_params_list() if param.trainable] if train else []
    for param, gradient in zip(params, tf1.gradients(total, params) if params else [], strict=True):
        if gradient is not None:
            fetches[f"grad:{param.op.name}"] = tf.convert_to_tensor(gradient)
    return {**fetches, "total": total}


def _set_params(network: TFNetwork, session: Any, options: golden.CaseOptions) -> dict[str, ndarray]:
    values = {}
    for param in network.get_params_list():
        value = golden._make_param(param.op.name, tuple(param.shape), param.dtype.base_dtype.name, options)
        if value is not None:
            session.run(param.initializer, {param.initializer.inputs[1]: value})
            values[param.op.name] = value
    return values


def _inputs(network: TFNetwork, options: golden.CaseOptions) -> dict[str, ndarray]:
    """:return: the same values for data which is time-major and data which is batch-major"""
    inputs = golden._make_inputs(network, options)
    for key, data in network.extern_data.data.items():
        value = inputs.get(f"in:{key}")
        if value is not None and data.batch_dim_axis == 1:
            value = golden._rnd("in", key).normal(0.0, 1.0, size=value.swapaxes(0, 1).shape).astype(value.dtype)
            inputs[f"in:{key}"] = numpy.ascontiguousarray(value.swapaxes(0, 1))
    return inputs


def _feed(network: TFNetwork, inputs: dict[str, ndarray], n_batch: int) -> dict[Any, Any]:
    feed: dict[Any, Any] = {}
    for name, value in inputs.items():
        kind, key = name.split(":", 1)
        if kind == "in":
            data = network.extern_data.data[key]
            feed[data.raw_tensor] = value
            feed[data.batch.dim] = n_batch
        else:
            key, axis = key.rsplit(":", 1)
            feed[network.extern_data.data[key].dims[int(axis)].dyn_size_ext.raw_tensor] = value
    return feed
