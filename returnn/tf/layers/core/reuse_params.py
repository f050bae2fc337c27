"""`ReuseParams`: a layer takes its parameters from elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import tensorflow as tf

from returnn.tf.layers.core.name_scope import scope_name, scope_of_params
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.core.step_state import FramesNotKept, LayerNeedsItself, UndefinedSource
from returnn.util.errors import ConfigError, check_known

_OPTIONS = ("reuse_layer", "map", "custom", "auto_create_missing", "layer_output", "shape")


@runtime_checkable
class HasVariableAsOutput(Protocol):
    """A layer whose output is the value of a variable."""

    def variable(self) -> tf.Variable:
        """:return: the variable"""
        ...


class LazyLayerResolver:
    """A layer by its name, made only when it is needed: two layers may share parameters with each other."""

    def __init__(self, layer_name: str, network: Network, get_layer: Callable[[str], Any]) -> None:
        self.layer_name = layer_name
        self.network = network
        self.get_layer_func = get_layer

    def get_layer(self) -> Any:
        """:return: the layer. If it is inside of a loop, it may be one whose output is of no use outside"""
        try:
            return self.get_layer_func(self.layer_name)
        except FramesNotKept as exc:
            return exc.layer

    def scope_of_params(self) -> str | None:
        """:return: name scope of the parameters of the layer, which need not exist; None if they are not its own"""
        desc = self.network.layers_desc.get(self.layer_name)
        if desc is None or desc.get("reuse_params") is not None:
            return None
        outer = self.network.get_absolute_name_scope_prefix()
        return scope_of_params(scope_name(self.layer_name), name_scope=desc.get("name_scope"), outer=outer)


class ReuseParams:
    """
    Where the parameters of a layer come from. In a config:

    - `"other"`: all from that layer
    - `{"reuse_layer": "other", "auto_create_missing": True}`: own ones where that layer has none of the name
    - `{"map": {"W": "other", "b": None}}`: by name of the parameter; None: an own one
    - `{"map": {"W": {"reuse_layer": "other", "custom": function}}}`: `function(reuse_layer=..., ...)` gives the value
    - `{"layer_output": "other", "shape": ...}`: the output of that layer is the value. What training changes other than
      by its gradient, such as a running mean, has to come from a layer of class "variable"
    """

    LazyLayerResolver = LazyLayerResolver

    def __init__(
        self,
        reuse_layer: Any = None,
        map: Mapping[str, ReuseParams | None] | None = None,
        custom: Callable[..., Any] | None = None,
        auto_create_missing: bool = False,
        layer_output: Any = None,
        shape: Any = None,
    ) -> None:
        """
        :param reuse_layer: layer, or `LazyLayerResolver`
        :param map: by name of the parameter
        :param custom: function that returns variable or raw tensor; gets what `variable_custom_getter` gets, and the
            layer as `reuse_layer`
        :param auto_create_missing: make own parameters where the layer has none of the name
        :param layer_output: layer whose output is the value
        :param shape: dims, the order of the axes for `layer_output`
        """
        self._reuse_layer = reuse_layer
        self.param_map = map
        self.custom_func = custom
        self.auto_create_missing = auto_create_missing
        self.layer_output = layer_output
        self.shape = shape

    @classmethod
    def from_config_dict(cls, opts: Any, network: Network, get_layer: Callable[[str], Any]) -> ReuseParams | None:
        """:return: from what stands in the config"""
        if opts is None or isinstance(opts, ReuseParams):
            return opts
        if isinstance(opts, str):
            return cls(reuse_layer=_lazy(opts, network, get_layer))
        if not isinstance(opts, Mapping):
            raise ConfigError(f"option 'reuse_params': expected the name of a layer or a dict, got {opts!r}.")
        for key in opts:
            check_known("key", key, _OPTIONS, where="option 'reuse_params'")
        if not isinstance(opts.get("map") or {}, Mapping):
            raise ConfigError(f"option 'reuse_params': 'map' has to be a dict, not {opts['map']!r}.")
        options = dict(opts)
        if options.get("reuse_layer"):
            options["reuse_layer"] = _lazy(options["reuse_layer"], network, get_layer)
        if options.get("layer_output"):
            options["layer_output"] = get_layer(options["layer_output"])
        if options.get("map"):
            options["map"] = {k: cls.from_config_dict(v, network, get_layer) for k, v in options["map"].items()}
        return cls(**options)

    @property
    def reuse_layer(self) -> Any:
        """The layer that the parameters come from."""
        if isinstance(self._reuse_layer, LazyLayerResolver):
            self._reuse_layer = self._reuse_layer.get_layer()
        return self._reuse_layer

    def note_use(self) -> None:
        """Inside of a loop, where the layer is that the parameters come from, decides about where they can be used."""
        for inner in (self.param_map or {}).values():
            if inner is not None:
                inner.note_use()
        with contextlib.suppress(LayerNeedsItself, UndefinedSource):
            _ = self.reuse_layer

    def get_variable_scope(self, base_layer: Any, **kwargs: Any) -> Any:
        """:return: variable scope of the layer that the parameters come from"""
        return base_layer.var_creation_scope(**kwargs)

    def variable_custom_getter(
        self,
        base_layer: Any,
        name: str,
        shape: Any,
        dtype: Any,
        getter: Callable[..., Any],
        **kwargs: Any,
    ) -> Any:
        """:return: variable or raw tensor, instead of the variable which `getter` would make for `base_layer`"""
        prefix = base_layer.get_absolute_name_scope_prefix()
        param_name = name[len(prefix) :] if name.startswith(prefix) else name
        if self.param_map is not None:
            if param_name not in self.param_map and not self.auto_create_missing:
                known = ", ".join(sorted(self.param_map))
                raise ConfigError(f"{base_layer.where()}: reuse_params: map has no {param_name!r}, only {known}.")
            inner = self.param_map.get(param_name)
            if inner is None:
                return getter(name=name, shape=shape, dtype=dtype, **kwargs)
            return inner.variable_custom_getter(
                base_layer=base_layer, name=name, getter=getter, shape=shape, dtype=dtype, **kwargs
            )
        if self.custom_func is not None:
            return self.custom_func(
                base_layer=base_layer,
                reuse_layer=self.reuse_layer,
                name=param_name,
                getter=getter,
                full_name=name,
                shape=shape,
                dtype=dtype,
                **kwargs,
            )
        if self.layer_output is not None:
            output = self.layer_output.output
            raw = output.copy_compatible_to_dims_raw(self.shape or output.dims)
            return tf.ensure_shape(raw, shape)
        try:
            params = self.reuse_layer.params
        except LayerNeedsItself:  # it needs the layer that takes its parameters: the first of both makes them
            scope = self._reuse_layer.scope_of_params()
            if scope is None:
                raise
            return getter(name=scope + param_name, shape=shape, dtype=dtype, **kwargs)
        if param_name in params:
            self._check_shape(params[param_name], param_name, shape, base_layer)
            return params[param_name]
        if self.auto_create_missing:
            return getter(name=name, shape=shape, dtype=dtype, **kwargs)
        raise ConfigError(
            f"{base_layer.where()}: reuse_params: {self.reuse_layer.get_absolute_name()!r} has no parameter "
            f"{param_name!r}, only {', '.join(sorted(params)) or 'none'}."
        )

    def variable_of(self, param_name: str) -> tf.Variable | None:
        """
        :param param_name: of a parameter of the layer that takes it from elsewhere
        :return: variable which is the output of a layer that it comes from, None if it comes from no such layer
        """
        if self.param_map is not None:
            inner = self.param_map.get(param_name)
            return inner.variable_of(param_name) if inner is not None else None
        return self.layer_output.variable() if isinstance(self.layer_output, HasVariableAsOutput) else None

    def _check_shape(self, param: Any, name: str, shape: Any, base_layer: Any) -> None:
        if not param.shape.is_compatible_with(shape):
            raise ConfigError(
                f"{base_layer.where()}: reuse_params: {name!r} of {self.reuse_layer.get_absolute_name()!r} has the "
                f"shape {tuple(param.shape)}, {tuple(shape)} is wanted here."
            )


def variable_to_change(layer: Any, name: str) -> tf.Variable | None:
    """
    :param layer: changes a parameter itself, and not by its gradient
    :param name: key in `params`
    :return: variable of the parameter: of the layer, or of the one which it comes from (`reuse_params`). None if there
        is none of the name, or if it is computed
    """
    if name in layer.own_params:
        return layer.own_params[name]
    return layer.reuse_params.variable_of(name) if layer.reuse_params is not None else None


def _lazy(layer: Any, network: Network, get_layer: Callable[[str], Any]) -> Any:
    return LazyLayerResolver(layer, network, get_layer) if isinstance(layer, str) else layer
