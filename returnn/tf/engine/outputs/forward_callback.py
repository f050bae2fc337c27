"""Outputs of a network for a data set, sequence by sequence, to an object of the config (`forward_callback`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy
import tensorflow as tf

from returnn.datasets.core.dataset import Dataset
from returnn.forward_iface import ForwardCallbackIface
from returnn.tensor import Dim, Tensor, TensorDict, batch_dim
from returnn.tf.engine.feeding.batches import forward_batches
from returnn.tf.engine.passes.data_pass import DataPass
from returnn.tf.engine.session.network_session import NetworkSession


def forward_with_callback(
    session: NetworkSession,
    *,
    dataset: Dataset,
    callback: ForwardCallbackIface,
    dataset_init_epoch: bool = True,
    batch_size: int = 0,
    train_flag: bool = False,
    layers: Collection[str] | None = None,
) -> None:
    """
    :param session: with a network
    :param dataset: what goes in
    :param callback: gets the outputs of each sequence: of all output layers, by their names
    :param dataset_init_epoch: whether an epoch of the data set begins
    :param batch_size: 0: that of the config
    :param train_flag: whether dropout and the like are on, for a network that was built with `eval_use_train_flag`
    :param layers: names of the layers that are wanted, such as "output/prob" in a loop; None: all output layers
    """
    network = session.network
    wanted = {layer.name: layer for layer in network.get_output_layers()}
    if layers is not None:
        wanted = {name: network.get_layer(name) for name in layers}
    outputs = {name: layer.output for name, layer in wanted.items() if _has_batch(layer.output)}
    fetches = _fetches(outputs)
    if dataset_init_epoch:
        dataset.init_seq_order(session.epoch or 1)
    callback.init(model=session.network)

    def process(**values: Any) -> None:
        for b, tag in enumerate(data_pass.current_tags):
            tensors = {name: _of_seq(name, output, values, b) for name, output in outputs.items()}
            callback.process_seq(seq_tag=tag, outputs=TensorDict(tensors))

    data_pass = DataPass(
        session,
        dataset_name="forward",
        dataset=dataset,
        eval=False,
        train_flag=train_flag,
        batches=forward_batches(session, dataset, batch_size=batch_size),
        extra_fetches=fetches,
        extra_fetches_callback=process,
    )
    data_pass.run("forward", raise_exception=True)
    callback.finish()


def _has_batch(output: Tensor | None) -> bool:
    return output is not None and output.raw_tensor is not None and output.have_batch_axis()


def _fetches(outputs: Mapping[str, Tensor]) -> dict[str, tf.Tensor]:
    fetches = {}
    for name, output in outputs.items():
        fetches[f"value/{name}"] = output.copy_as_batch_major().raw_tensor
        for axis, dim in enumerate(_dims_of_seq(output)):
            if dim.size is None:
                fetches[f"size/{name}/{axis}"] = dim.get_size_tensor().copy_as_batch_major().raw_tensor
    return fetches


def _dims_of_seq(output: Tensor) -> list[Dim]:
    return [dim for dim in output.copy_as_batch_major().dims if dim != batch_dim]


def _of_seq(name: str, output: Tensor, values: Mapping[str, Any], b: int) -> Tensor:
    """:return: without batch dim and padding"""
    dims = []
    feature_dim = output.feature_dim  # can be one of varying size, as that of attention weights
    for axis, dim in enumerate(_dims_of_seq(output)):
        sizes = values.get(f"size/{name}/{axis}")
        if sizes is None:
            dims.append(dim)
        else:
            sizes = numpy.asarray(sizes)
            dims.append(Dim(int(sizes[b] if sizes.ndim else sizes), name=dim.name, kind=dim.kind))
            feature_dim = dims[-1] if dim == output.feature_dim else feature_dim
    raw = values[f"value/{name}"][b][tuple(slice(0, dim.dimension) for dim in dims)]
    return Tensor(
        name,
        dims=dims,
        dtype=output.dtype,
        sparse_dim=output.sparse_dim,
        feature_dim=feature_dim,
        raw_tensor=numpy.asarray(raw),
    )
