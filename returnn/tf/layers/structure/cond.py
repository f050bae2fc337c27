"""A layer that is one of two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Tensor
from returnn.tf.layers.core.floors.layer_params import params_in_scope
from returnn.tf.layers.core.inner_losses import InnerLosses
from returnn.tf.layers.core.inner_totals import InnerTotals
from returnn.tf.layers.core.layer_base import InternalLayer, LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.core.no_sources import NoSourcesLayer
from returnn.tf.layers.core.step_state import UndefinedSource
from returnn.tf.layers.options.broadcasting import matched_by_size
from returnn.tf.layers.options.layer_options import layers_in_options
from returnn.tf.layers.search.beam import Beam
from returnn.tf.layers.structure.cond_hypotheses import CondHypotheses, Known
from returnn.tf.layers.structure.cond_states import Carried, CondStates
from returnn.tf.layers.user_code.outside_view import making_layers
from returnn.util.errors import ConfigError

_INNER_NETWORKS = ("subnetwork", "unit")  # options with layers by name


class CondLayer(NoSourcesLayer):
    """
    One of two layers; which one, is decided when it is computed. The other one is not computed, nor its losses.

    Output: that of the chosen layer. Both have to have the same dims, or some of the same size. Parameters of both are
    in the name scope of this layer, so equal names are the same parameter.
    """

    layer_class = "cond"
    recurrent = True
    is_one_block = True
    hides_layers = True

    def __init__(
        self,
        condition: Any,
        true_layer: Any,
        false_layer: Any,
        _condition_network: Any = None,
        _true_layer_network: Any = None,
        _false_layer_network: Any = None,
        _extra_out: Any = None,
        **kwargs: Any,
    ) -> None:
        """
        :param condition: layer with a bool scalar: name, or dict with its options
        :param true_layer: the layer if it is true: name, or dict with its options
        :param false_layer: the layer if it is not
        :param _condition_network: not used
        :param _true_layer_network: not used
        :param _false_layer_network: not used
        :param _extra_out: not used
        """
        super().__init__(**kwargs)
        self.condition: _Branch = condition
        self.true_layer: _Branch = true_layer
        self.false_layer: _Branch = false_layer
        self._made: dict[str, LayerBase] = {}
        self._states = CondStates(self)
        self._hypotheses = CondHypotheses(self)
        self._totals = InnerTotals(self)
        self._losses = InnerLosses(
            {"true_layer": true_layer.described(), "false_layer": false_layer.described()},
            batch=self.network.step.batch_dims()[0] if self.is_inside() else None,
        )

    @classmethod
    def transform_config_dict(cls, d: dict[str, Any], network: Network, get_layer: Callable[[str], Any]) -> None:
        """See `LayerBase.transform_config_dict`."""
        super().transform_config_dict(d, network=network, get_layer=get_layer)
        undefined: dict[str, UndefinedSource] = {}
        for key, name in (("condition", f"{d['_name']}/condition"), ("true_layer", ""), ("false_layer", "")):
            if key in d and not isinstance(d[key], _Branch):
                try:
                    d[key] = _resolve(d[key], name or d["_name"], network, get_layer, option=key)
                except UndefinedSource as exc:
                    undefined[key] = exc
        for key, exc in undefined.items():  # of the frame before: the other layer says what this one looks like
            other = d.get({"true_layer": "false_layer", "false_layer": "true_layer"}.get(key, ""))
            if not isinstance(other, _Branch):
                raise exc
            d[key] = other

    def must_be_in_loop(self) -> str:
        """:return: a reason, if another layer may be computed in each frame"""
        condition = self.condition.layer
        if condition is not None and condition.layer_class in ("constant", "train_flag"):
            return ""
        frame = self.network.step.innermost_frame()
        is_outside = condition is not None and frame.path_of(condition.get_absolute_name()) is None
        return "" if is_outside else "decides in each frame"

    def compute(self, *_sources: Tensor) -> Tensor:
        """:return: output of one of both"""
        if rf.get_selected_backend() == "template":
            with self._losses.collecting(self):
                output = self._template(lambda layer: layer.output)
            for key in ("true_layer", "false_layer"):
                self._totals.keep(self._kept_inside(key))
            self._states.declare()
            self._losses.declare(self, output)
            return output

        has_losses = self._losses.has_any and (self._losses.batch is None or self._beam() is None)

        def more(key: str, layer: LayerBase) -> tuple[dict[str, Tensor], dict[str, Tensor], Carried]:
            values = {}
            if has_losses:
                values = self._losses.computed(key, layer, layer.get_losses_initialized, layer.get_constraints_value)
            return values, self._totals.completed(self._kept_inside(key)), self._states.after(key, layer.output)

        with self._losses.collecting(self):
            output, (values, kept, carried) = self._choose(lambda layer: layer.output, more)
        self._totals.keep(kept)
        self._states.take(carried)
        if has_losses:
            self._losses.take(self, output, values)
        return output

    def _kept_inside(self, key: str) -> dict[str, Tensor]:
        """:return: what the layers of a branch keep for after the loop, by name"""
        if getattr(self, key).layer is not None:  # it is computed in any case, and not inside
            return {}
        found = [
            self._totals.taken_from(x, f"{key}{path}", f"both{path}") for path, x in self._states.made(key).items()
        ]
        return {name: value for kept in found for name, value in kept.items()}

    def get_losses_initialized(self, reduce_func: Callable[[Any], Any] | None = None) -> list[Any]:
        """:return: its own loss, and those of the layers inside"""
        return [*super().get_losses_initialized(reduce_func), *self._losses.holders(self, reduce_func)]

    def get_constraints_value(self) -> Any:
        """:return: raw scalar, for this layer and those inside"""
        return super().get_constraints_value() + self._losses.constraints()

    def after_loop(self, totals: dict[str, Tensor]) -> None:
        """See `LayerBase.after_loop`."""
        super().after_loop(totals)
        self._totals.hand_on(self._losses.set_totals(totals))

    def losses_after_loop(self) -> list[Any]:
        """:return: losses of the layers inside"""
        return [*self._losses.of_all_frames(self), *self._totals.losses()]

    def constraints_after_loop(self) -> Any:
        """:return: raw scalar, with that for the layers inside"""
        return super().constraints_after_loop() + self._totals.constraints()

    def get_dep_layers(self) -> list[LayerBase]:
        """:return: the condition, and what both layers depend on"""
        return [layer for branch in (self.condition, self.true_layer, self.false_layer) for layer in branch.layers()]

    @property
    def params(self) -> dict[str, Any]:
        """Parameters of both layers."""
        return params_in_scope(self)

    def get_sub_layers(self) -> list[LayerBase]:
        """:return: both layers"""
        return list(self._made.values())

    def get_sub_networks(self) -> list[Any]:
        """:return: the networks inside of both layers"""
        return [net for layer in self._made.values() for net in layer.get_sub_networks()]

    @making_layers()
    def get_sub_layer(self, layer_name: str) -> LayerBase | None:
        """:return: what is the sub layer of one of both"""

        def output_of(layer: LayerBase) -> Tensor:
            sub_layer = layer.get_sub_layer(layer_name)
            if sub_layer is None:
                raise ConfigError(f"{self.where()}: {layer.layer_class!r} has no sub layer {layer_name!r}.")
            return sub_layer.output

        with self.network.construction.compute_scope(self, suffix=layer_name):
            is_template = rf.get_selected_backend() == "template"
            output = self._template(output_of) if is_template else self._choose(output_of, lambda *_: ())[0]
        return InternalLayer(name=f"{self.name}/{layer_name}", network=self.network, output=output)

    def _template(self, output_of: Callable[[LayerBase], Tensor]) -> Tensor:
        """:return: template of what both layers have"""
        self._condition()
        (yes, known), (no, _) = (self._taken_out(key, output_of) for key in ("true_layer", "false_layer"))
        self._hypotheses.take(known)
        self._check_same(yes, self._with_dims_of(yes, no))
        return yes.copy_template()

    def _choose(self, output_of: Callable[[LayerBase], Tensor], more: Callable[[str, LayerBase], Any]) -> Any:
        """:return: of the layer that is computed: the output, with the dims of the first one, and more of it"""
        yes: list[Tensor] = []

        def computed(key: str) -> tuple[Tensor, Any, Known]:
            output, known = self._taken_out(key, output_of)
            if key == "true_layer":
                yes.append(output.copy_template())
            elif yes:
                output = self._with_dims_of(yes[0], output)
            return output, more(key, self._made[key]), known

        branches = (lambda key=key: computed(key) for key in ("true_layer", "false_layer"))
        output, others, known = rf.cond(self._condition(), *branches)
        self._hypotheses.take(known)
        return output, others

    def _taken_out(self, key: str, output_of: Callable[[LayerBase], Tensor]) -> tuple[Tensor, Known]:
        """:return: what a branch has, as it is known outside of it; what is known of its hypotheses"""
        layer = self._make(key)
        return self._hypotheses.taken_out(key, layer, self._of_all_steps(output_of(layer)))

    def _condition(self) -> Tensor:
        condition = self.condition.make(self.network).output
        if condition.dims or condition.dtype != "bool":
            raise ConfigError(f"{self.where()}: option 'condition': has to be a bool scalar, not {condition}.")
        return condition

    def _inputs(self) -> list[Tensor]:
        return [layer.output for branch in (self.true_layer, self.false_layer) for layer in branch.layers()]

    def _beam(self) -> Beam | None:
        """:return: the latest one of what both layers depend on"""
        beams = self.network.beams
        return None if beams.is_empty else beams.latest(self._inputs(), where=self.where())

    def _of_all_steps(self, output: Tensor) -> Tensor:
        """:return: for the hypotheses, and outside of loops for the frames, that the other layer may be about"""
        beam = self._beam()
        output = self.network.beams.for_later(output, beam)
        has_beam = beam is None or self.network.beams.has_hypotheses(output)
        loops = {net.over_rec_time_dim for net in self.network.get_network_hierarchy()}
        dims = dict.fromkeys(dim for x in self._inputs() for dim in x.dims if dim in loops)
        missing = [*(dim for dim in dims if dim not in output.dims), *([] if has_beam or beam is None else [beam.dim])]
        return rf.expand_to(output, [*missing, *output.dims]) if missing else output

    def _with_dims_of(self, yes: Tensor, no: Tensor) -> Tensor:
        """:return: `no` with the dims of `yes`, where these have the same size, as layers with the same `n_out` do"""
        no = matched_by_size([yes, no], apart=self.network.get_all_rec_time_dims())[1]
        own, wanted = no.sparse_dim, yes.sparse_dim
        if own is not None and wanted is not None and own != wanted and own.size == wanted.size:
            return no.copy_with_roles(sparse_dim=wanted)
        return no

    def _make(self, key: str) -> LayerBase:
        with self._totals.making(key, "both"):
            layer = self._states.make(key, lambda: getattr(self, key).make(self.network))
        if rf.get_selected_backend() != "template":
            self._made[key] = layer
            prefix = self.get_absolute_name_scope_prefix()
            self.own_params.update((param.op.name.removeprefix(prefix), param) for param in layer.params.values())
        return layer

    def _check_same(self, yes: Tensor, no: Tensor) -> None:
        if set(yes.dims) != set(no.dims) or yes.dtype != no.dtype or yes.sparse_dim != no.sparse_dim:
            raise ConfigError(f"{self.where()}: both layers have to have the same dims.\n  True: {yes}\n  False: {no}")


@dataclass(frozen=True)
class _Branch:
    """A layer that exists already, or how to make it."""

    layer: LayerBase | None
    name: str = ""
    layer_class: Any = None
    options: dict[str, Any] | None = None

    def make(self, network: Network) -> LayerBase:
        """:return: the layer; if it does not exist yet, it is made, and not known to the network"""
        if self.layer is not None:
            return self.layer
        assert self.options is not None
        subnet = network.subnets.pop(self.name, None)  # of the other layer, whose name is the same
        layer = network.construction.create(self.name, self.layer_class, **self.options)
        layer.post_init(dict(self.options))
        if subnet is not None:
            network.subnets[self.name] = subnet
        else:
            network.subnets.pop(self.name, None)
        return layer

    def described(self) -> dict[str, Any] | None:
        """:return: the options, with those of conditions in them; None if the layer exists already"""
        if self.options is None:
            return None
        options = {key: x.described() if isinstance(x, _Branch) else x for key, x in self.options.items()}
        return {**options, "class": self.layer_class.layer_class}

    def layers(self) -> list[LayerBase]:
        """:return: the layer, or what it depends on"""
        if self.layer is not None:
            return [self.layer]
        return layers_in_options(self.options or {})


def _resolve(value: Any, name: str, network: Network, get_layer: Callable[[str], Any], *, option: str) -> _Branch:
    if isinstance(value, LayerBase):
        return _Branch(value)
    if isinstance(value, str):
        return _Branch(get_layer(value))
    if not isinstance(value, dict):
        raise ConfigError(f"layer {name!r}: option {option!r}: expected a layer name or a dict, got {value!r}.")
    if network.step.innermost_frame() is None:  # in a loop, templates have asked for them
        for outer in dict.fromkeys(_names_around(value, network)):
            get_layer(outer)
    before = network.layers_desc.get(name)
    layer_class, options = network.construction.resolve(name, value, get_layer)
    if before is None:
        network.layers_desc.pop(name, None)
    else:
        network.layers_desc[name] = before
    return _Branch(None, name, layer_class, options)


def _names_around(options: Any, network: Network, depth: int = 0) -> Iterator[str]:
    """
    What is first asked for inside of one of the layers would be part of it, and there for nobody else.

    :param options: of a layer that may not be computed, or a part of them
    :param network: the one around
    :param depth: how many networks are between them
    :return: layers of the network that are named in there
    """
    if isinstance(options, dict):
        for key, value in options.items():
            yield from _names_around(value, network, depth + (key in _INNER_NETWORKS and isinstance(value, dict)))
    elif isinstance(options, (list, tuple)):
        for value in options:
            yield from _names_around(value, network, depth)
    elif isinstance(options, str) and depth:
        rest = options.removeprefix("base:" * depth)
        if rest != options and rest.partition("/")[0] in network.layers_desc:
            yield rest
