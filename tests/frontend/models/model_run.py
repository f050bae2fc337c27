"""Runs a model on a backend, with the same parameters and inputs on each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import tensorflow as tf
import torch

import returnn.frontend as rf
from returnn.config import Config
from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_layers import Layer, register_extern_data
from returnn.tf.frontend_layers.recording import as_recorded
from returnn.tf.network import ExternData, TFNetwork

BACKENDS = ("numpy", "torch", "tf", "returnn_layers_tf")
SEARCH_BACKENDS = BACKENDS[:-1]  # in layers, the lengths of dims cannot change from step to step


@dataclass
class Batch:
    """Sequences as they come from a data set: arrays, padded with what may not matter."""

    values: numpy.ndarray  # [B, T, ...]
    lengths: Sequence[int]

    def only(self, number: int) -> Batch:
        """:return: one sequence, without padding"""
        length = self.lengths[number]
        return Batch(self.values[number : number + 1, :length], [length])


class Inputs:
    """The batch as tensors of a backend."""

    def __init__(self, batch: Batch, last: Dim, as_raw: Callable[[numpy.ndarray], Any]) -> None:
        self.batch_dim = Dim(len(batch.lengths), name="batch", kind=Dim.Types.Batch)
        lengths = Tensor("lengths", [self.batch_dim], "int32", raw_tensor=as_raw(numpy.asarray(batch.lengths, "int32")))
        self.time_dim = Dim(lengths, name="time")
        dims = [self.batch_dim, self.time_dim]
        is_sparse = batch.values.dtype.kind == "i"
        self.source = Tensor(
            "source",
            dims if is_sparse else [*dims, last],
            str(batch.values.dtype),
            sparse_dim=last if is_sparse else None,
            feature_dim=None if is_sparse else last,
            raw_tensor=as_raw(batch.values),
        )


Model = Callable[[], rf.Module]
Call = Callable[[Any, Inputs], Tensor | Sequence[Tensor]]


def run(
    backend: str,
    make: Model,
    call: Call,
    batch: Batch,
    last: Dim,
    *,
    params: Mapping[str, numpy.ndarray] | None = None,
    train: bool = False,
) -> tuple[Any, dict[str, numpy.ndarray]]:
    """
    :param backend: one of `BACKENDS`
    :param make: makes the model
    :param call: with the model and its inputs
    :param batch: the sequences
    :param last: features or labels of the batch
    :param params: values; default: drawn
    :param train: whether in a training step
    :return: output [B, T', ...], with 0 behind the ends, or several; parameters
    """
    with rf.set_default_float_dtype_ctx("float64"):
        if backend == "tf":
            return _run_tf(make, call, batch, last, params, train)
        if backend == "returnn_layers_tf":
            return _run_net_dict(make, call, batch, last, params, train)
        to_raw = torch.tensor if backend == "torch" else numpy.asarray
        with rf.backend_ctx(backend):
            rf.init_train_step_run_ctx(train_flag=train)
            model = _made(make, params)
            raw = _all_masked(call(model, Inputs(batch, last, to_raw)))
            arrays = [numpy.asarray(_detached(x)) for x in raw] if isinstance(raw, list) else _detached(raw)
            known = {name: numpy.asarray(_detached(p.raw_tensor)) for name, p in model.named_parameters()}
            return arrays, {name: value.copy() for name, value in known.items()}


def _run_tf(make: Model, call: Call, batch: Batch, last: Dim, params: Any, train: bool) -> Any:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session, rf.backend_ctx("tf"):
        rf.init_train_step_run_ctx(train_flag=train)
        model = _made(make, params)
        out = _all_masked(call(model, Inputs(batch, last, tf.constant)))
        raws = {name: p.raw_tensor for name, p in model.named_parameters()}
        session.run(tf.compat.v1.global_variables_initializer())
        return session.run((out, raws))


class _DataOfNet(Inputs):
    """The batch as data of a net dict."""

    def __init__(self, batch: Batch, last: Dim) -> None:
        self.batch_dim = Dim(len(batch.lengths), name="batch", kind=Dim.Types.Batch)
        self.time_dim = Dim(Tensor("lengths", [self.batch_dim], "int32"), name="time")
        dims, is_sparse = [self.batch_dim, self.time_dim], batch.values.dtype.kind == "i"
        options = {"sparse_dim": last} if is_sparse else {"feature_dim": last}
        template = Tensor("source", dims if is_sparse else [*dims, last], str(batch.values.dtype), **options)
        self.source = register_extern_data(template)

    def as_extern_data(self, batch: Batch) -> ExternData:
        lengths = tf.constant(numpy.asarray(batch.lengths, "int32"))
        self.time_dim.dyn_size_ext = Tensor("lengths", [self.batch_dim], "int32", raw_tensor=lengths)
        data = self.source.copy_template()
        data.raw_tensor = tf.constant(batch.values)
        extern_data = ExternData()
        extern_data.data["source"] = data
        return extern_data


def _run_net_dict(make: Model, call: Call, batch: Batch, last: Dim, params: Any, train: bool) -> Any:
    with rf.backend_ctx("returnn_layers_tf"), Layer.new_root() as root:
        rf.init_train_step_run_ctx(train_flag=train)
        model = _made(make, params)
        inputs = _DataOfNet(batch, last)
        found = call(model, inputs)
        outputs = [as_recorded(x) for x in ([found] if isinstance(found, Tensor) else found)]
        root.marked_outputs += outputs
        names = {name for name, p in model.named_parameters() if p.raw_tensor is not None}
        net_dict = root.make_net().make_net_dict_raw()
        paths = [x.raw_tensor.get_name_in_ctx(root) for x in outputs]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session, rf.backend_ctx("tf"):
        config = Config({"behavior_version": 24, "default_float_dtype": "float64"})
        network = TFNetwork(config=config, extern_data=inputs.as_extern_data(batch), train_flag=train, eval_flag=True)
        network.layers_desc.update(net_dict)
        for name, options in net_dict.items():
            if options["class"] == "variable" or options.get("is_output_layer"):
                network.construct_layer(network.layers_desc, name)
        layers = [network.construct_layer(network.layers_desc, path) for path in paths]
        values = [layer.output.copy_compatible_to_dims(x.dims) for layer, x in zip(layers, outputs, strict=True)]
        raw = _all_masked(values[0] if isinstance(found, Tensor) else values)
        variables = {var.op.name.replace("/", "."): var for var in tf.compat.v1.global_variables()}
        session.run(tf.compat.v1.global_variables_initializer())
        return session.run((raw, {name: variables[name] for name in names if name in variables}))


def _made(make: Model, params: Mapping[str, numpy.ndarray] | None) -> rf.Module:
    rf.set_random_seed(3)
    model = make()
    for name, parameter in model.named_parameters():
        if params is not None:
            parameter.initial = params[name]
    return model


def _all_masked(out: Tensor | Sequence[Tensor]) -> Any:
    return _masked(out) if isinstance(out, Tensor) else [_masked(x) for x in out]


def _masked(out: Tensor) -> Any:
    """:return: raw, [B, ...], with 0 behind the ends"""
    for dim in out.dims:
        if dim.need_masking():
            mask = dim.get_mask(dim_order=out.dims)
            out = rf.where(mask, out, 0)
    batch = [dim for dim in out.dims if dim.is_batch_dim()]
    rest = [dim for dim in out.dims if dim not in batch]
    return out.copy_compatible_to_dims_raw([*batch, *rest])


def _detached(x: Any) -> Any:
    return x.detach().numpy() if isinstance(x, torch.Tensor) else x


def random_batch(lengths: Sequence[int], last: Dim, *, labels: bool = False, seed: int = 1) -> Batch:
    """:return: sequences of features, or of labels"""
    rnd = numpy.random.RandomState(seed)
    shape = (len(lengths), max(lengths))
    if labels:
        return Batch(rnd.randint(0, last.dimension, shape).astype("int32"), list(lengths))
    return Batch(rnd.normal(size=(*shape, last.dimension)), list(lengths))


def other_padding(batch: Batch) -> Batch:
    """:return: the same sequences, with other values behind their ends"""
    values = batch.values.copy()
    for b, length in enumerate(batch.lengths):
        values[b, length:] = 0 if values.dtype.kind == "i" else 1e6
    return Batch(values, batch.lengths)
