"""Runs cases of operations as layers of a net dict: recorded, built as `TFNetwork`, and computed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy
import tensorflow as tf

import returnn.frontend as rf
from returnn.config import Config
from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_layers import Layer, register_extern_data
from returnn.tf.frontend_layers.recording import as_recorded
from returnn.tf.network import ExternData, TFNetwork
from tests.frontend.op_case import Input, Inputs, OpCase, Variant
from tests.frontend.op_run import Result, all_gradients, describe, float_inputs, loss_terms, outputs_of

tf1 = tf.compat.v1
EXACT_BEHAVIOR = 24


class NetInputs(Inputs):
    """Inputs which are data of a net dict. Lengths are those of data with the dim."""

    def __init__(
        self, case: OpCase, seed: int, *, prefix: str, layout: int = 0, variant: Variant | None = None
    ) -> None:
        self._prefix = prefix
        self.data: dict[str, tuple[Tensor[Any], numpy.ndarray]] = {}  # by key: template, value
        self.lengths: dict[Dim, tuple[numpy.ndarray, tuple[Dim, ...]]] = {}
        super().__init__(case, seed, self._register, layout=layout, variant=variant)

    def _register(self, value: numpy.ndarray, dims: Sequence[Dim]) -> Layer:
        template: Tensor[Any] = Tensor(f"{self._prefix}data{len(self.data)}", list(dims), value.dtype.name)
        self.data[template.name] = template.copy_template(), value
        return register_extern_data(template).raw_tensor

    def _tensor(self, name: str, *args: Any, **options: Any) -> Tensor[Any]:
        tensor = super()._tensor(name, *args, **options)
        layer: Layer = tensor.raw_tensor
        layer.tensor = tensor.copy()
        key = (layer.name or "").removeprefix("data:")
        self.data[key] = tensor.copy_template(), self.data[key][1]
        return tensor

    def _set_lengths(self, dim: Dim, lengths: numpy.ndarray, over: tuple[Dim, ...]) -> None:
        self._lengths[dim] = lengths, over
        self.lengths[dim] = numpy.asarray(lengths), over
        dim.dyn_size_ext = Tensor(f"{dim.name}:lengths", over, "int32")
        shape = [*(self._size(d) for d in over), int(numpy.max(lengths, initial=0))]
        if dim is self._batch:
            shape = [self.batch_size]
        self._register(numpy.zeros(shape, "float32"), [*(d for d in over if d is not dim), dim])
        self.inputs.append(Input(None, lambda variant: lengths, None, range(len(over)), None))


class NetRuns:
    """Cases in one net dict. With a layout, axes are in another order; with gradients, padded frames are no NaN."""

    def __init__(
        self, cases: Sequence[OpCase], seed: int, *, layout: int = 0, gradients_of: Variant | None = None
    ) -> None:
        self._seed, self._gradients_of = seed, gradients_of
        self._gradients: dict[str, list[Any]] = {}
        self._recorded: dict[str, Any] = {}
        with rf.backend_ctx("returnn_layers_tf"), Layer.new_root() as root:
            for case in cases:
                place = root.get_new_child(case.name)
                place.is_subnet = True
                try:
                    with place:
                        inputs = NetInputs(case, seed, prefix=f"{case.name}_", layout=layout, variant=gradients_of)
                        outputs = [as_recorded(x) for x in outputs_of(case, inputs)]
                        root.marked_outputs.extend(outputs)
                    self._recorded[case.name] = inputs, outputs
                except Exception as exc:  # noqa: BLE001 - the test of the case raises it
                    self._recorded[case.name] = exc
            self.net_dict = root.make_net().make_net_dict_raw()
            self._cases = {case.name: case for case in cases}
            self.names = {
                name: [x.raw_tensor.get_name_in_ctx(root) for x in found[1]]
                for name, found in self._recorded.items()
                if not isinstance(found, Exception)
            }
        self._build()

    def _build(self) -> None:
        self._graph = tf.Graph()
        self._feed: dict[Any, Any] = {}
        self._placeholders: dict[str, Any] = {}
        self._values: dict[str, Any] = {}
        with self._graph.as_default(), rf.backend_ctx("tf"):
            extern_data = ExternData()
            for found in self._recorded.values():
                if not isinstance(found, Exception):
                    self._add_data(extern_data, found[0])
            config = Config({"behavior_version": EXACT_BEHAVIOR})
            network = TFNetwork(config=config, extern_data=extern_data, train_flag=False, eval_flag=True)
            self.network = network
            network.layers_desc.update(self.net_dict)
            for name, names in self.names.items():
                _, outputs = self._recorded[name]
                try:
                    layers = [network.construct_layer(network.layers_desc, x) for x in names]
                    results = []
                    for layer, template in zip(layers, outputs, strict=True):
                        results.append(check_fits(layer.output, template))
                    values = [describe(x, tf.identity) for x in results]
                    self._values[name] = values
                    if self._gradients_of is not None:
                        self._gradients[name] = self._make_gradients(self._cases[name], results)
                except Exception as exc:  # noqa: BLE001
                    self._values[name] = exc
            options = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
            options.graph_options.rewrite_options.disable_meta_optimizer = True
            self._session = tf1.Session(graph=self._graph, config=options)
            self._session.run(tf1.global_variables_initializer())

    def _make_gradients(self, case: OpCase, outputs: Sequence[Tensor[Any]]) -> list[Any]:
        """:return: for each float input, of the same sum of outputs as on the other backends"""
        inputs = self._recorded[case.name][0]
        terms = [
            tf.reduce_sum(tf.where(mask, x.raw_tensor, tf.zeros([], x.dtype)) * weights)
            for x, mask, weights in loss_terms(case, self._seed, outputs)
            if not x.dtype.startswith("complex")
        ]
        raws = [self._placeholders[(x.raw.name or "").removeprefix("data:")] for x in float_inputs(inputs)]
        total = tf.add_n([tf.cast(term, tf.float32) for term in terms]) if terms else tf.zeros([])
        gradients = tf.gradients(total, raws)
        return [tf.zeros_like(x) if grad is None else grad for x, grad in zip(raws, gradients, strict=True)]

    def _add_data(self, extern_data: ExternData, inputs: NetInputs) -> None:
        for dim, (lengths, over) in inputs.lengths.items():
            placeholder = tf1.placeholder("int32", [d.size for d in over])
            dim.dyn_size_ext = Tensor(f"{dim.name}:lengths", over, "int32", raw_tensor=placeholder)
            self._feed[placeholder] = lengths
        for key, (template, value) in inputs.data.items():
            placeholder = tf1.placeholder(value.dtype, [d.size for d in template.dims])
            data = template.copy_template()
            data.raw_tensor = placeholder
            extern_data.data[key] = data
            self._feed[placeholder] = value
            self._placeholders[key] = placeholder

    def result(self, case: OpCase) -> Result:
        recorded = self._recorded[case.name]
        if isinstance(recorded, Exception):
            raise recorded
        values = self._values[case.name]
        if isinstance(values, Exception):
            raise values
        gradients = self._gradients.get(case.name, [])
        arrays, grads = self._session.run(
            ([{"array": x.array, "sizes": x.sizes, "lengths": x.lengths} for x in values], gradients), self._feed
        )
        result = Result([dataclasses.replace(value, **known) for value, known in zip(values, arrays, strict=True)])
        if self._gradients_of is not None:
            result.gradients = all_gradients(recorded[0], grads, lambda x: x)
        return result


def check_fits(value: Tensor[Any], template: Tensor[Any]) -> Tensor[Any]:
    """:return: the value, in the roles that were recorded"""
    assert value.dims_set == template.dims_set, f"{value} was recorded as {template}"
    assert value.dtype == template.dtype, f"{value} was recorded as {template}"
    assert value.sparse_dim == template.sparse_dim, f"{value} was recorded as {template}"
    out = value.copy_compatible_to_dims(template.dims)
    out.feature_dim = template.feature_dim
    return out
