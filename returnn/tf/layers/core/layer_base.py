"""
`LayerBase`: what all layers have in common.

A built-in layer has its options in the signature of `__init__` and computes its output in `compute`, with operations of
the frontend. That is all: the template of its output (`get_out_data_from_opts`), the check of its options and the
resolution of layer names follow from these two.

A layer class of a user, written for raw TensorFlow tensors, does it by the older protocol: `get_out_data_from_opts`
says what the output looks like, and `__init__` sets `self.output.placeholder`. Both kinds live side by side.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import tensorflow as tf

from returnn.frontend import backend_ctx
from returnn.tensor import Tensor
from returnn.tf.layers.core.floors.batch_norm import LayerBatchNorm
from returnn.tf.layers.core.floors.layer_losses import LayerLosses
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.core.output_debugging import with_debugging
from returnn.tf.layers.core.regularization import REGULARIZATION, keep_parts_of_frame
from returnn.tf.layers.core.step_state import UndefinedSource
from returnn.tf.layers.core.zero_padding import have_zero_padding
from returnn.tf.layers.options.layer_options import check_options, resolve_layers
from returnn.tf.layers.options.output_checks import check_output
from returnn.tf.layers.user_code.derived_class import InferredInInit, bases_with_output, with_own_beam
from returnn.tf.layers.user_code.outside_view import making_layers, note_made
from returnn.tf.layers.user_code.raw_template import template_like_source
from returnn.tf.util.cached import CollectionKeys
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import ConfigError, check_known


def _computes(cls: Any) -> bool:
    """:return: whether it is a class of ours, which computes by dims, not one of users on raw tensors"""
    return cls.compute is not LayerBase.compute


class _ComputesOutput(type):
    """After `__init__`, which keeps the options, the output is computed. So no layer has to care about the order."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
        return super().__new__(mcs, name, bases_with_output(bases, namespace), namespace)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        try:
            with making_layers() if _computes(cls) else contextlib.nullcontext():
                layer = super().__call__(*args, **kwargs)
                layer._compute_output()
                note_made(with_own_beam(layer))
        except InferredInInit as exc:
            return exc.layer
        return layer


class LayerBase(LayerLosses, LayerBatchNorm, metaclass=_ComputesOutput):
    """What all layers have in common. See the head of this module."""

    sources: list[LayerBase]

    recurrent: ClassVar[bool] = False  # whether frames depend on their order; keeps classes on raw tensors in a loop
    warning: str | None = None  # what looks like a mistake, in one line, for `++task check` and the start of a run
    depends_on_longest: bool = False  # whether frames of a sequence are others if another one of the batch is longer
    sees_padding: bool = False  # whether frames beyond the end of a sequence count at its end
    keeps_zeros: ClassVar[bool] = False  # whether the output is 0 wherever all sources are 0
    leaves_out_end: bool = False  # whether the output has no frame for the label that ended a loop
    fixed_options: ClassVar[tuple[str, ...]] = ()  # options of a base class which this class sets itself

    # What a layer class defines.

    def compute(self, *sources: Tensor) -> Tensor:
        """
        :param sources: outputs of the sources
        :return: output of the layer. It runs on templates and on values, for one frame and for all frames.
        """
        raise TypeError(f"{type(self).__name__} computes no output")

    def compute_inputs(self) -> list[Tensor]:
        """:return: what `compute` gets"""
        return [source.output for source in self.sources]

    def has_zero_padding(self) -> bool:
        """:return: whether frames beyond the end of sequences are surely 0"""
        return self.keeps_zeros and not self.use_batch_norm and have_zero_padding(self.sources)

    # How the output comes about.

    def _compute_output(self) -> None:
        if type(self).compute is not LayerBase.compute and (self.output is None or self.output.raw_tensor is None):
            declared = self.output
            with self.network.construction.compute_scope(self):
                inputs = self.compute_inputs()
                self._check_number_of_inputs(inputs)
                self.output = self._finished(self.compute(*inputs), declared)
            if self.copy_output_loss_from_source_idx is not None:
                self.output_loss = self.sources[self.copy_output_loss_from_source_idx].output_loss

    def _check_number_of_inputs(self, inputs: Sequence[Tensor]) -> None:
        names, any_number = _inputs_of(type(self))
        if len(inputs) != len(names) and not (any_number and len(inputs) > len(names)):
            expected = f"{'at least ' if any_number else ''}{len(names)} ({', '.join(names)})"
            raise ConfigError(
                f"{self.where()}: the number of sources has to be {expected}, not {len(inputs)} (option 'from')."
            )

    def _finished(self, output: Tensor, declared: Tensor | None) -> Tensor:
        output = self.with_distinct_dims(output.copy(name=self.name))
        output.version = 1
        if self.use_batch_norm and self.layer_class != "batch_norm":
            output = self.batch_normalized(output, **self._batch_norm_options())
            self.output_before_activation = None
        check_output(self, output, declared)
        self._note_maker(output)
        return output

    def _note_maker(self, output: Tensor) -> None:
        """A dim that is computed from others has no name of its own. A description finds it by those who did that."""
        before = [dim for source in self.sources for dim in source.output.dims]
        for dim in output.dims:
            if dim.is_derived() and dim not in before:
                dim.makers = (*(name for old in before if old not in output.dims for name in old.makers), self.name)
            elif dim.is_derived() and not dim.makers:
                dim.makers = next((old.makers for old in before if old == dim), ())

    def _batch_norm_options(self) -> dict[str, Any]:
        options = dict(self.use_batch_norm) if isinstance(self.use_batch_norm, dict) else {}
        known = [name for name in inspect.signature(self.batch_normalized).parameters if name != "data"]
        for option in options:
            check_known("option", option, known, where=f"{self.where()}: option 'batch_norm'")
        return options

    def post_init(self, layer_desc: dict[str, Any]) -> None:
        """Called after the layer was made, with the options it was made of."""
        self.kwargs = {**layer_desc, "name": self.name, "network": self.network, "output": self.output}
        if self.output.raw_tensor is not None:
            self._add_operations_before_output()
        if self.is_inside() and any(getattr(self, option) for option in REGULARIZATION):
            with self.network.construction.compute_scope(self, "regularization"):
                keep_parts_of_frame(self)
        if self.register_as_extern_data:
            self.network.extern_data.extra_added_keys.add(self.register_as_extern_data)
            self.network.extern_data.data[self.register_as_extern_data] = self.output
        for hook in self.post_init_hooks:
            hook()

    def _add_operations_before_output(self) -> None:
        if self.control_dependencies_on_output is not None:
            with tf.control_dependencies(self.control_dependencies_on_output(self)):
                self.output.raw_tensor = tf.identity(self.output.raw_tensor)
        debugged = with_debugging(self)
        if debugged is not self.output.raw_tensor:
            self.output.raw_tensor = debugged

    # The documented protocol of layer classes.

    @classmethod
    def transform_config_dict(cls, d: dict[str, Any], network: Network, get_layer: Callable[[str], Any]) -> None:
        """
        Turns the options of a net dict into arguments for `__init__`, in place: names of layers become layers.

        :param d: options of the layer in the net dict
        :param network: the network
        :param get_layer: function that gives the layer of a name, and makes it if necessary
        """
        where = f"layer {network.get_absolute_name_prefix() + str(d.get('_name', '?'))!r} (class {cls.class_name()!r})"
        d["sources"] = _resolve_sources(d, get_layer, where, takes_sources=_takes_sources(cls))
        cls._transform_targets_and_loss(d, network, get_layer)
        resolve_layers(cls, d, get_layer)
        cls._transform_reuse_params(d, network, get_layer)

    @classmethod
    def get_out_data_from_opts(cls, **kwargs: Any) -> Tensor:
        """
        :param kwargs: arguments for `__init__`
        :return: template of the output
        """
        if cls.compute is LayerBase.compute:
            return template_like_source(**kwargs)
        kwargs.pop("output", None)
        kwargs.setdefault("name", cls.layer_class or cls.__name__)
        if kwargs.get("network") is None:
            kwargs["network"] = _network_of_layers(kwargs)
        for layer in _layers_in(kwargs):
            _expect_lengths(layer.output)
        with backend_ctx("template"):
            return cls(**kwargs).output.copy_template()

    @classmethod
    def _base_get_out_data_from_opts(cls, **kwargs: Any) -> Tensor:
        """:return: like the first source, with `n_out` and `out_type`: what a class does that says nothing else"""
        return template_like_source(**kwargs)

    @classmethod
    def fixup_out_data(cls, output: Tensor, network: Network, out_shape: Any = None, **kwargs: Any) -> Tensor:
        """:return: the template of the output, after it was checked against `out_shape`"""
        if out_shape is not None:
            output.verify_out_shape(out_shape)
        return output

    @classmethod
    def check_options(cls, options: dict[str, Any], *, where: str) -> None:
        """:raises ConfigError: if there is no such option, or a required one is missing"""
        check_options(cls, options, where=where)

    @classmethod
    def get_available_sub_layer_names(cls, parent_layer_kwargs: dict[str, Any]) -> list[str]:
        """:return: names of sub layers, for which `get_sub_layer` gives something"""
        return []

    @classmethod
    def get_sub_layer_out_data_from_opts(
        cls, layer_name: str, parent_layer_kwargs: dict[str, Any]
    ) -> tuple[Tensor, Any, dict[str, Any]] | None:
        """:return: template, network, options of a sub layer; None if there is no such"""
        return None

    def get_sub_layer(self, layer_name: str) -> LayerBase | None:
        """
        :param layer_name: what stands behind the "/" in "layer/sub"
        :return: the layer inside of this one, None if there is no such
        """
        return None

    def get_sub_layers(self) -> list[LayerBase]:
        """:return: layers inside of this one"""
        return []

    @classmethod
    def cls_get_sub_network(cls, name: str, network: Network, layer_desc: dict[str, Any]) -> Any:
        """:return: the network inside of such a layer whose layers can be used one by one, None if there is none"""
        return None

    def get_normalized_layer(self) -> LayerBase:
        """:return: the layer itself; for a reference to the frame before, the layer of this frame"""
        return self

    @classmethod
    def get_global_layer_list(cls) -> list[LayerBase]:
        """:return: all layers of the current graph, in the order in which they were made"""
        return tf.compat.v1.get_collection_ref(CollectionKeys.RETURNN_LAYERS)  # type: ignore[no-any-return]

    @classmethod
    def get_recent_layer(cls) -> LayerBase:
        """:return: the layer of the current graph that was made last"""
        layers = cls.get_global_layer_list()
        assert layers, "there is no layer in this graph"
        return layers[-1]

    # Sizes.

    def get_batch_dim(self) -> Any:
        """:return: raw size of the batch, with the beam"""
        return self.output.get_batch_dim()

    def get_batch_info(self) -> Any:
        """:return: what the batch axis consists of"""
        return self.output.batch

    @property
    def is_template(self) -> bool:
        """Whether it only says what its output looks like."""
        return self.output is None or self.output.raw_tensor is None


def _resolve_sources(
    d: dict[str, Any], get_layer: Callable[[str], Any], where: str, *, takes_sources: bool
) -> list[Any]:
    if "from" not in d:
        if "sources" in d or not takes_sources:
            return d.get("sources", [])
        BehaviorVersion.require(False, f'{where}: the option "from" is required', 1)
    names = d.pop("from", ["data"])
    if not isinstance(names, (list, tuple)):
        names = [names] if names else []
    sources, undefined = [], None
    for name in names:
        if not isinstance(name, (str, LayerBase)):
            raise ConfigError(
                f"{where}: option 'from' has to be the name of a layer, or a list of names, not {name!r}."
            )
        try:
            sources.append(get_layer(name) if isinstance(name, str) else name)
        except UndefinedSource as exc:  # inside of a loop, where the others may be enough to begin with
            undefined = exc
    if undefined is not None and not sources:
        raise undefined
    return sources


def _network_of_layers(options: dict[str, Any]) -> Network:
    """:return: the network that the layers among the options are in, for those who do not say it"""
    network = next((layer.network for layer in _layers_in(options)), None)
    if network is None:
        raise ConfigError(f"layer {options['name']!r}: get_out_data_from_opts: a network or a source is required.")
    return network


def _layers_in(options: dict[str, Any]) -> list[LayerBase]:
    values = tf.nest.flatten([value for value in options.values() if isinstance(value, (LayerBase, list, tuple))])
    return [value for value in values if isinstance(value, LayerBase)]


def _expect_lengths(template: Tensor) -> None:
    """Data that was only described has sequences in each batch, whose lengths nobody has said yet."""
    for dim in template.dims:
        if not dim.is_dim_known():
            batch = [other for other in template.dims if other.is_batch_dim()]
            dim.dyn_size_ext = Tensor("lengths", dims=batch, dtype="int32")


@functools.cache
def _takes_sources(layer_class: type[LayerBase]) -> bool:
    """:return: whether `compute` has a parameter for sources; other classes may do with them what they like"""
    return len(inspect.signature(layer_class.compute).parameters) > 1


@functools.cache
def _inputs_of(layer_class: type[LayerBase]) -> tuple[list[str], bool]:
    """:return: names of the sources that `compute` takes; whether it takes more"""
    _, *parameters = inspect.signature(layer_class.compute).parameters.values()
    names = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    return names, any(p.kind is p.VAR_POSITIONAL for p in parameters)


class InternalLayer(LayerBase):
    """A layer that has its output already: the toolkit makes it, no config does."""

    def __init__(self, output: Tensor | None = None, debug_type_name: str | None = None, **kwargs: Any) -> None:
        """
        :param output: the output; if it is not given, `out_type` describes a template, which the caller gives a value
        :param debug_type_name: what it is, for people
        """
        if output is None and kwargs.get("out_type") is not None:
            output = Tensor(**{"name": f"{kwargs['name']}_output", **kwargs["out_type"]})
        super().__init__(output=output, **kwargs)
        self.debug_type_name = debug_type_name

    def where(self) -> str:
        """:return: the layer, as an error message begins with it"""
        return f"layer {self.get_absolute_name()!r} (class {self.debug_type_name or self.class_name()!r})"

    def __repr__(self) -> str:
        kind = f" {self.debug_type_name}" if self.debug_type_name else ""
        return f"<{type(self).__name__}{kind} {self.get_absolute_name()!r} out_type={self.output}>"


class WrappedInternalLayer(InternalLayer):
    """Another layer with another output, such as the same for other hypotheses. All else is asked of that layer."""

    def __init__(self, base_layer: LayerBase, **kwargs: Any) -> None:
        """
        :param base_layer: the other layer
        """
        super().__init__(**kwargs)
        self.base_layer = base_layer
        self.own_params = base_layer.params
        self.search_choices = base_layer.search_choices
        self.output_before_activation = None

    def get_absolute_name_scope_prefix(self) -> str:
        """:return: that of the other layer"""
        return self.base_layer.get_absolute_name_scope_prefix()

    def get_base_absolute_name_scope_prefix(self) -> str:
        """:return: that of the other layer"""
        return self.base_layer.get_base_absolute_name_scope_prefix()

    def get_sub_layer(self, layer_name: str) -> LayerBase | None:
        """:return: sub layer of the other layer"""
        return self.base_layer.get_sub_layer(layer_name)

    def get_last_hidden_state(self, key: int | str | None) -> Any:
        """:return: that of the other layer"""
        return self.base_layer.get_last_hidden_state(key)
