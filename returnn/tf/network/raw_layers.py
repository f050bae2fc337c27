"""
Layers of users' own classes, whose code works on raw tensors.

Such a class says by `get_out_data_from_opts` what its output looks like, and sets `self.output.placeholder` in
`__init__`. It sees what the protocol promises: batch and beam are one axis. In a loop, it can have a state: what
`get_rec_initial_extra_outputs` says is there before the first frame; then `self._rec_previous_layer.rec_vars_outputs`
is what the layer has set as `self.rec_vars_outputs` in the frame before.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from returnn.frontend import backend_ctx
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tf.layers.core.floors.layer_rec import LayerRec
from returnn.tf.layers.core.layer_base import InternalLayer, LayerBase, WrappedInternalLayer
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.core.step_state import StateTemplate, UndefinedSource
from returnn.tf.layers.options.layer_options import layers_in_options, map_layers, options_of
from returnn.tf.layers.search.search_choices import SearchChoices
from returnn.tf.layers.user_code.beam_axis import BeamAxis
from returnn.tf.network.raw_choices import RawChoice
from returnn.tf.network.scopes import layer_creation_scope
from returnn.util.errors import ConfigError

tf1 = tf.compat.v1


def is_raw_class(layer_class: type[LayerBase]) -> bool:
    """:return: whether the class works on raw tensors"""
    return layer_class.compute is LayerBase.compute


def create_raw_layer(
    network: Network, name: str, layer_class: type[LayerBase], options: Mapping[str, Any]
) -> LayerBase:
    """
    :param network: the network
    :param name: of the layer
    :param layer_class: see `is_raw_class`
    :param options: with layers in place of their names
    :return: the layer; while dims are inferred, one that stands for it
    """
    used = [layer.output for layer in known_layers_in(options)]
    axis, choice = BeamAxis.of(used), RawChoice.of(layer_class, network, name, options, used)
    seen = dict(options) if axis is None else _with_merged_beam(options, axis)
    output = seen.pop("output", None)
    if output is None:
        output = layer_class.get_out_data_from_opts(name=name, network=network, **seen)
        shape = {key: seen[key] for key in ("out_shape",) if key in seen}
        output = layer_class.fixup_out_data(output, network=network, **shape)
    arguments = {**seen, "name": name, "network": network, "output": output}
    if network.only_template:
        return RawLayerTemplate(layer_class, arguments, axis, choice)
    past = _past(network, name, axis, choice)
    if past is not None:
        arguments["rec_previous_layer"] = past
    with layer_creation_scope(network, layer_class, name=name, name_scope=seen.get("name_scope")):
        layer = layer_class(**arguments)
    if layer.output.raw_tensor is None:
        raise ConfigError(f"{layer.where()}: `__init__` has to set `self.output.placeholder`.")
    if choice is not None:
        choice.take(layer)
    layer.output = _split(layer.output, axis, choice, layer)
    if past is not None:
        _take_new_state(layer, past, choice)
    if layer_class.post_process_final_rec_vars_outputs is not LayerRec.post_process_final_rec_vars_outputs:
        layer.final_state = functools.partial(_post_processed, layer)  # type: ignore[method-assign]
    return layer


def _split(x: Tensor, axis: BeamAxis | None, choice: RawChoice | None, layer: LayerBase) -> Tensor:
    """:return: what the class has made, with batch and hypotheses apart: those that it has made itself, or got"""
    if choice is not None:
        return choice.split(layer, x)
    return x if axis is None else axis.split(x)


def _with_merged_beam(options: Mapping[str, Any], axis: BeamAxis) -> dict[str, Any]:
    def merged(layer: LayerBase) -> LayerBase:
        output = axis.merge(layer.output)
        if output is layer.output:
            return layer
        return WrappedInternalLayer(
            base_layer=layer, name=layer.name, network=layer.network, output=output, sources=[layer]
        )

    result = dict(options)
    map_layers(result, lambda layer: layer if isinstance(layer, UnknownPast) else merged(layer))
    return result


class RawLayerTemplate(InternalLayer):
    """What is known of a layer of a user's own class while dims are inferred."""

    def __init__(
        self,
        raw_class: type[LayerBase],
        arguments: Mapping[str, Any],
        axis: BeamAxis | None,
        choice: RawChoice | None = None,
    ) -> None:
        """
        :param raw_class: the class
        :param arguments: for its `__init__`
        :param axis: batch and beam as the class knows them; None if there is no beam
        :param choice: which hypotheses it makes; None if it makes none
        """
        common = {key: value for key, value in arguments.items() if key in options_of(LayerBase)}
        super().__init__(debug_type_name=raw_class.class_name(), **common)
        self.raw_class = raw_class
        self.axis = axis
        self.arguments = dict(arguments)
        self.layer_class = raw_class.layer_class
        self.choice = choice
        if choice is not None:
            choice.declare(self)
        self.output = _split(self.output, axis, choice, self)
        if self.network.step.innermost_frame() is not None:
            self._find_state()
        self.works_on_sequences = not raw_class.recurrent and not self.state_templates

    def get_dep_layers(self) -> list[LayerBase]:
        """:return: all layers that its options have"""
        return known_layers_in(self.arguments)

    def get_sub_layer(self, layer_name: str) -> LayerBase | None:
        """:return: what the class says of this sub layer, None if there is no such"""
        found = self.raw_class.get_sub_layer_out_data_from_opts(layer_name, parent_layer_kwargs=self.arguments)
        if found is None:
            return None
        output = _split(found[0], self.axis, self.choice, self)
        return InternalLayer(name=f"{self.name}/{layer_name}", network=self.network, output=output, sources=[self])

    def must_be_in_loop(self) -> str:
        """:return: a reason, with search"""
        return "searches" if self.choice is not None else ""

    def _find_state(self) -> None:
        if _overrides(self.raw_class, "get_rec_initial_output"):
            self._initial_output = self._output_before_first_frame
        if not _overrides(self.raw_class, "get_rec_initial_extra_outputs"):
            return
        shapes = self._call("get_rec_initial_extra_outputs_shape_invariants") or {}
        with _scratch_graph_if(self.network.get_root_network().only_template):
            for key, raw in self._initial_state().items():
                dims = self._dims_of_state(key, shapes.get(key, raw.shape))
                template = Tensor(key, dims=dims, dtype=raw.dtype.base_dtype.name, version=1)
                initial = self._function_for_initial(key, dims)
                self.state_templates[key] = StateTemplate(template, initial, is_hidden_state=True)

    def _dims_of_state(self, key: str, shape: Any) -> list[Dim]:
        sizes = tf.TensorShape(shape).as_list()
        has_batch = bool(sizes) and sizes[0] is None
        kinds = [Dim.Types.Spatial] * (len(sizes) - 1) + [Dim.Types.Feature]
        dims = [
            self.new_dim(f"state {key} axis {i}", size, kind=kind, auto_generated=False)
            for i, (size, kind) in list(enumerate(zip(sizes, kinds, strict=False)))[has_batch:]
        ]
        batch = self.network.step.batch_dims() if has_batch else []
        own = None if self.axis is None else self.axis.beam
        own = own if self.choice is None else self.choice.dim_of(self)
        return [*batch, *([own] if own is not None and has_batch else []), *dims]

    def _function_for_initial(self, key: str, dims: list[Dim]) -> Callable[[], Tensor]:
        """:return: function that computes the state before the first frame, the same for all hypotheses"""
        dims = [dim for dim in dims if not dim.is_beam_dim()]

        def initial() -> Tensor:
            raw = self._initial_state()[key]
            return Tensor(key, dims=dims, dtype=raw.dtype.base_dtype.name, raw_tensor=raw)

        return initial

    def _initial_state(self) -> dict[str, Any]:
        with backend_ctx("tf"):
            state = self._call("get_rec_initial_extra_outputs", batch_dim=_batch_size())
        return {key: tf.convert_to_tensor(value) for key, value in state.items()}

    def _output_before_first_frame(self) -> Tensor:
        output = self.output.copy_as_batch_major()
        dims = [dim for dim in output.dims if not dim.is_beam_dim()]
        raw = self._call("get_rec_initial_output", batch_dim=_batch_size())
        return Tensor(output.name, dims=dims, dtype=output.dtype, raw_tensor=raw)

    def _call(self, method: str, **more: Any) -> Any:
        rec_layer = self.network.get_rec_parent_layer(inside_loop=False)
        return getattr(self.raw_class, method)(rec_layer=rec_layer, **{**self.arguments, **more})


class PreviousRawLayer(InternalLayer):
    """The layer in the frame before, with its state as raw tensors in `rec_vars_outputs`."""

    def __init__(self, state: Mapping[str, Tensor], choice: RawChoice | None = None, **kwargs: Any) -> None:
        """
        :param state: [B, beam, ...] each, by name
        :param choice: that the layer makes
        """
        super().__init__(**kwargs)
        if choice is not None and choice.before is not None:
            self.search_choices = SearchChoices(self, choice.before.dim.size or 0)
            self.search_choices.beam = choice.before
        self.state = dict(state)
        self.rec_vars_outputs = {key: _with_merged_axes(x) for key, x in state.items()}


def _past(network: Network, name: str, axis: BeamAxis | None, choice: RawChoice | None) -> PreviousRawLayer | None:
    """:return: the layer in the frame before; None if this is not a single frame, or there is nothing of it"""
    frame = network.step.innermost_frame()
    if frame is None or not network.step.is_inside():
        return None
    path = frame.path_of(network.get_absolute_name_prefix() + name)
    beam = None if axis is None else Tensor("hypotheses", dims=[axis.batch, axis.beam], dtype="int32")
    templates = frame.state_templates(path)
    state = {key: frame.state_before(path, key, x if beam is None else beam) for key, x in templates.items()}
    output = frame.output_before(path)
    if output is None and not state and choice is None:
        return None
    if output is not None and beam is not None:
        output = axis.merge(network.beams.translate(output, network.beams.of(beam)))
    return PreviousRawLayer(state, choice, name=f"prev:{name}", network=network, output=output)


def _take_new_state(layer: LayerBase, past: PreviousRawLayer, choice: RawChoice | None) -> None:
    for key, before in past.state.items():
        if key not in layer.rec_vars_outputs:
            raise ConfigError(
                f"{layer.where()}: it has the state {key!r}, but `self.rec_vars_outputs` does not say what it is after "
                f"this frame.\n  There is: {', '.join(layer.rec_vars_outputs) or 'nothing'}."
            )
        after = before.copy_template()
        beams = [i for i, dim in enumerate(before.dims) if dim.is_beam_dim()]
        if choice is not None and beams:
            after = before.copy_template_replace_dim_tag(beams[0], choice.dim_of(layer))
        after.raw_tensor = _with_split_axes(tf.convert_to_tensor(layer.rec_vars_outputs[key]), after)
        layer.new_state(key, after)


def _post_processed(layer: LayerBase, parts: dict[str, Tensor], lengths: Tensor) -> dict[str, Tensor]:
    """See `LayerRec.final_state`."""
    raw = {key: _with_merged_axes(part) for key, part in parts.items()}
    changed = layer.post_process_final_rec_vars_outputs(raw, seq_len=_with_merged_axes(lengths))
    result = {}
    for key, part in parts.items():
        result[key] = part.copy_template()
        result[key].raw_tensor = _with_split_axes(tf.convert_to_tensor(changed[key]), part)
    return result


# A part of a state can have dims that grow from frame to frame, of which nobody knows the lengths.


def _with_merged_axes(x: Tensor) -> Any:
    """
    :param x: [B, beam, ...] in this order, or without beam
    :return: raw (B * beam, ...)
    """
    if not any(dim.is_beam_dim() for dim in x.dims):
        return x.raw_tensor
    merged = tf.reshape(x.raw_tensor, tf.concat([[-1], tf.shape(x.raw_tensor)[2:]], axis=0))
    merged.set_shape([None, *x.batch_shape[2:]])
    return merged


def _with_split_axes(raw: Any, template: Tensor) -> Any:
    """
    :param raw: (B * beam, ...)
    :param template: [B, beam, ...] in this order, or without beam
    """
    beam = next((dim for dim in template.dims if dim.is_beam_dim()), None)
    if beam is None:
        return raw
    split = tf.reshape(raw, tf.concat([[-1, beam.get_dim_value()], tf.shape(raw)[1:]], axis=0))
    split.set_shape([None, beam.dimension, *raw.shape[1:]])
    return split


def _overrides(layer_class: type[LayerBase], method: str) -> bool:
    return getattr(layer_class, method).__func__ is not vars(LayerRec)[method].__func__


def _batch_size() -> Any:
    if batch_dim.dyn_size is None:
        return tf1.placeholder(tf.int32, shape=(), name="batch_size")
    return batch_dim.get_dim_value()


@contextlib.contextmanager
def _scratch_graph_if(is_needed: bool) -> Iterator[None]:
    with tf.Graph().as_default() if is_needed else contextlib.nullcontext():
        yield


class UnknownPast(InternalLayer):
    """A layer in the frame before, as long as nothing is known of it. It may be that nobody wants to know."""

    def __init__(self, cause: UndefinedSource, **kwargs: Any) -> None:
        """
        :param cause: why it is not known
        """
        self.cause = cause
        super().__init__(output=None, **kwargs)

    @property
    def output(self) -> Tensor:
        """:raises UndefinedSource: always"""
        raise self.cause

    @output.setter
    def output(self, output: None) -> None:
        pass


def known_layers_in(options: Mapping[str, Any]) -> list[LayerBase]:
    """:return: the layers in the options of a layer, as far as something is known of them"""
    return [layer for layer in layers_in_options(options) if not isinstance(layer, UnknownPast)]


def with_unknown_past(get_layer: Callable[[str], LayerBase], network: Network) -> Callable[[str], LayerBase]:
    """
    :param get_layer: function that gives the layer of a name
    :param network: the network
    :return: the same function. A layer of the frame before of which nothing is known yet is only missed by who looks
    """

    def get_layer_or_unknown(name: str) -> LayerBase:
        try:
            return get_layer(name)
        except UndefinedSource as exc:
            if not name.startswith("prev:"):
                raise
            return UnknownPast(exc, name=name, network=network)

    return get_layer_or_unknown
