"""A recurrent unit, over all frames or in a single step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.loop.across_batches import kept_state
from returnn.tf.layers.loop.initial import initial_value
from returnn.tf.layers.rec.initial_parameter import InitialParameter
from returnn.tf.layers.rec.recurrent_layer import RecurrentLayer
from returnn.tf.layers.rec.state_options import split_state
from returnn.tf.layers.rec.units.base import RecUnit, WeightInits
from returnn.tf.layers.rec.units.registry import check_unit_opts, get_unit_class
from returnn.tf.layers.rec.units.sequence_frames import SequenceFrames, as_matrix, common_dims, from_matrix
from returnn.util.errors import ConfigError


@dataclass(frozen=True)
class _Scanned:
    """What is known after a unit went over all frames."""

    frames: SequenceFrames
    feature: Dim
    states: dict[str, tf.Tensor]  # (T, N, F)
    last_state: Callable[[str], tf.Tensor]  # (N, F), by name

    def last(self, name: str) -> Tensor:
        """:return: [others..., F]: state after the last frame"""
        return from_matrix(self.last_state(name), self.frames.others, self.feature)

    def all_frames(self, name: str) -> Tensor:
        """:return: [time, others..., F]: state after each frame"""
        return self.frames.unflat(self.states[name], self.feature)


@dataclass(frozen=True)
class UnitOptions:
    """How a layer uses a unit."""

    unit_class: type[RecUnit]
    unit_opts: Mapping[str, Any]
    find_time_dim: Callable[[Tensor], Dim | None]  # which dim of the source to go over, None for a single step
    initial_state: Any = None  # before the first frame, in all forms of the option of this name
    initial_state_in_unit: bool = True  # whether its parameters are among those of the unit; else beside them
    inits: WeightInits = field(default_factory=WeightInits)
    input_projection: bool = True
    backward: bool = False  # from the last frame of each sequence to the first
    num_unrolled: int | None = None  # number of frames, if there should be no loop in the graph


class UnitRecurrence:
    """A unit, over all frames or in a single step. See `Recurrence`."""

    needs_source = True
    compiled = None  # there is no loop over layers
    emitted = None

    def __init__(self, layer: RecurrentLayer, options: UnitOptions) -> None:
        """
        :param layer: which has the parameters and the state
        :param options: how it uses the unit
        """
        self.layer = layer
        self.options = options
        self.unit_class = options.unit_class
        self._scanned: _Scanned | None = None
        self._kept: dict[str, kept_state.KeptInitial] = {}
        self._parts: dict[str, Tensor] = {}
        self._initial_state = self._initial_parts()

    @property
    def initial_output(self) -> Any:
        """The output before the first frame, in one of the forms of an initial state."""
        return self._initial_state[self._output_name()]

    def compute(self, source: Tensor | None) -> Tensor:
        """:return: output of the unit, over all frames or for a single step"""
        assert source is not None
        layer, options = self.layer, self.options
        in_dim = layer.feature_dim_of(source, or_sparse_dim=True)
        out_dim = layer.output_feature_dim(layer.feature_dim_from_target())
        unit = self.unit_class(num_units=out_dim.dimension, **options.unit_opts)
        unit.use(
            layer=layer,
            in_dim=in_dim,
            out_dim=out_dim,
            inits=options.inits,
            input_projection=options.input_projection,
        )
        time_dim = None if layer.state is not None else options.find_time_dim(source)
        if time_dim is None:
            if options.backward:
                raise ConfigError(f"{layer.where()}: direction -1: the source {source} has no time axis to go over.")
            return self._single_step(unit, source)
        return self._over_all_frames(unit, source, time_dim)

    def _over_all_frames(self, unit: RecUnit, source: Tensor, time_dim: Dim) -> Tensor:
        source = rf.expand_to(source, [time_dim])
        inner = [time_dim, _feature_axis(source), unit.out_dim]
        initial = self._initial_values(common_dims([source], without=inner), unit.out_dim)
        lengths = () if time_dim.dyn_size_ext is None else time_dim.dyn_size_ext.dims
        source = rf.expand_to(source, [dim for dim in lengths if dim.is_beam_dim()])
        others = common_dims([source, *initial.values()], without=inner)
        if rf.get_selected_backend() == "template":
            is_loop = time_dim == self.layer.network.get_inside_rec_time_dim(inside_loop=False)
            dims = [time_dim, *others] if is_loop else others
            self._parts = {name: _template(dims, unit.out_dim) for name in initial}
            return _template([time_dim, *others], unit.out_dim, has_time=True)
        by_kernel = unit.has_kernel and self.options.num_unrolled is None
        frames = SequenceFrames(time_dim, others, backward=self.options.backward, by_kernel=by_kernel)
        x = frames.flat(unit.project(frames.in_order(source)))
        before = {name: as_matrix(value, others, unit.out_dim) for name, value in initial.items()}
        output, self._scanned = (_scan_by_kernel if by_kernel else _scan)(unit, x, before, frames, self.options)
        for name, kept in self._kept.items():
            kept.keep(self._scanned.last(name))
        return frames.unflat(output, unit.out_dim)

    def _single_step(self, unit: RecUnit, source: Tensor) -> Tensor:
        inner = [_feature_axis(source), unit.out_dim]
        before = self._state_before(common_dims([source], without=inner), unit.out_dim)
        dims = common_dims([source, *before.values()], without=inner)
        once = self._drawn_once(unit, dims)
        if rf.get_selected_backend() == "template":
            self._parts = {name: _template(dims, unit.out_dim) for name in before}
            output = _template(dims, unit.out_dim)
        else:
            raw_state = [as_matrix(value, dims, unit.out_dim) for value in before.values()]
            raw_once = [as_matrix(value, dims, unit.out_dim) for value in once]
            raw, states = unit.single_step(source, dims, tuple(raw_state), *raw_once)
            self._parts = {n: from_matrix(x, dims, unit.out_dim) for n, x in zip(before, states, strict=True)}
            output = from_matrix(raw, dims, unit.out_dim)
        for name, value in self._parts.items():
            self.layer.new_state(name, value)
        return output

    @property
    def _is_in_loop(self) -> bool:
        return self.layer.network.get_inside_rec_time_dim(inside_loop=True) is not None

    def _drawn_once(self, unit: RecUnit, dims: list[Dim]) -> list[Tensor]:
        """:return: what is drawn at random once for all frames; inside of a loop, it is a state that does not change"""

        def draw(i: int) -> Callable[[], Tensor]:
            def drawn() -> Tensor:
                num_entries = tf.reduce_prod([dim.get_dim_value() for dim in dims])
                return from_matrix(unit.once(num_entries)[i], dims, unit.out_dim)

            return drawn

        values = []
        for i in range(unit.num_drawn_once):
            if not self._is_in_loop:
                is_template = rf.get_selected_backend() == "template"
                values.append(_template(dims, unit.out_dim) if is_template else draw(i)())
                continue
            values.append(self.layer.previous_state(f"once{i}", _template(dims, unit.out_dim), initial=draw(i)))
            self.layer.new_state(f"once{i}", values[-1])
        return values

    # States.

    def _state_names(self) -> list[str]:
        return [*self.unit_class.state_names, *self.unit_class.hidden_state_names]

    def _output_name(self) -> str:
        """:return: the part of the state which is the output, or would be without zoneout"""
        return self._state_names()[-1]

    def _initial_parts(self) -> dict[str, Any]:
        names = self.unit_class.state_names
        value = 0 if self.options.initial_state is None else self.options.initial_state
        parts = split_state(value, names, option="initial_state", where=self.layer.where())
        for name in names:
            if isinstance(parts[name], str) and parts[name] == "var":
                parts[name] = InitialParameter(
                    self.layer, name if len(names) > 1 else "var", in_unit=self.options.initial_state_in_unit
                )
            elif isinstance(parts[name], str) and parts[name] in kept_state.WORDS:
                kept = kept_state.KeptState(self.layer, name, parts[name])
                self._kept[name] = parts[name] = kept_state.KeptInitial(kept, self._template_of_kept)
        return {**parts, **dict.fromkeys(self.unit_class.hidden_state_names, 0)}

    def _template_of_kept(self) -> Tensor:
        return _template([batch_dim], self.layer.output_feature_dim())

    def _initial_values(self, dims: list[Dim], out_dim: Dim) -> dict[str, Tensor]:
        values = {name: _as_tensor(value) for name, value in self._initial_state.items()}
        tensors = [value for value in values.values() if isinstance(value, Tensor)]
        more = common_dims(tensors, without=[*dims, out_dim, *(d for x in tensors for d in [x.feature_dim] if d)])
        template = _template([*dims, *more], out_dim)
        return {
            name: initial_value(value, template, layer=self.layer, get_layer=self.layer.network.get_layer)
            for name, value in values.items()
        }

    def _state_before(self, dims: list[Dim], out_dim: Dim) -> dict[str, Tensor]:
        if self.layer.state is not None:
            return self._given_state(dims, out_dim)
        if not self._is_in_loop:
            return self._initial_values(dims, out_dim)
        for value in self._initial_state.values():
            if (
                callable(value)
                and not isinstance(value, (LayerBase, kept_state.KeptInitial))
                and rf.get_selected_backend() != "template"
            ):
                value()  # so that its parameter belongs to this layer
        template = _template(dims, out_dim)
        return {
            name: self.layer.previous_state(name, template, initial=value)
            for name, value in self._initial_state.items()
        }

    def _given_state(self, dims: list[Dim], out_dim: Dim) -> dict[str, Tensor]:
        """:return: what the option `state` says. The state after the step is kept for others, as always"""
        names = self.unit_class.state_names
        parts = split_state(self.layer.state, names, option="state", where=self.layer.where())
        hidden = dict.fromkeys(self.unit_class.hidden_state_names, rf.full(dims=[out_dim], fill_value=0.0))
        given = {name: _with_feature(_as_tensor(value), out_dim) for name, value in parts.items()}
        if self._is_in_loop:
            template = _template(common_dims([*given.values()], without=[*dims, out_dim]) + dims, out_dim)
            for name, value in self._initial_state.items():
                self.layer.previous_state(name, template, initial=value)
        return {**given, **hidden}

    def has_hidden_state(self) -> bool:
        """:return: True, as every unit has one"""
        return True

    def hidden_state_parts(self) -> dict[str, Tensor]:
        """
        :return: state after this step, or after the last frame, by name. For all frames of a loop at once: the one
            after each of them
        """
        if self._scanned is not None and not self._parts:
            is_loop = self._scanned.frames.time_dim == self.layer.network.get_inside_rec_time_dim(inside_loop=False)
            part = self._scanned.all_frames if is_loop else self._scanned.last
            self._parts = {name: part(name) for name in self.unit_class.state_names}
        return {name: self.layer.new_states.get(name, self._parts[name]) for name in self.unit_class.state_names}

    def last_hidden_state_parts(self) -> dict[str, Tensor]:
        """:return: [..., F] each: state after the last frame of each sequence"""
        if self._scanned is None:
            return self.hidden_state_parts()
        return {name: self._scanned.last(name) for name in self.unit_class.state_names}

    # There are no layers inside.

    def get_sub_layer(self, name: str) -> LayerBase | None:
        """:return: None"""
        return None

    def get_sub_layers(self) -> list[LayerBase]:
        """:return: none"""
        return []

    def get_sub_networks(self) -> list[Network]:
        """:return: none"""
        return []

    def get_base_layers(self) -> list[LayerBase]:
        """:return: none"""
        return []

    def get_losses(self, reduce_func: Callable[[Any], Any] | None) -> list[Any]:
        """:return: none"""
        return []

    def get_constraints_value(self) -> Any:
        """:return: 0"""
        return 0

    def after_loop(self, totals: dict[str, Tensor]) -> None:
        """A unit keeps nothing."""

    def losses_after_loop(self) -> list[Any]:
        """:return: none"""
        return []

    def constraints_after_loop(self) -> Any:
        """:return: 0"""
        return 0


def find_unit_class(layer: RecurrentLayer, unit: Any, unit_opts: dict[str, Any]) -> type[RecUnit]:
    """
    :param layer: for error messages, and whether names mean units for single steps
    :param unit: name, or class
    :param unit_opts: options of the unit
    :raises ConfigError: if there is no such unit, or it has no such options
    """
    unit_class = get_unit_class(
        unit, as_cell=layer.unit_as_cell, opts=unit_opts, where=f"{layer.where()}: option 'unit'"
    )
    check_unit_opts(unit_class, unit_opts, where=f"{layer.where()}: unit {unit!r}")
    return unit_class


def _scan(
    unit: RecUnit, x: tf.Tensor, before: dict[str, tf.Tensor], frames: SequenceFrames, options: UnitOptions
) -> tuple[tf.Tensor, _Scanned]:
    """:return: output (T, N, F), and the states"""
    output, states = unit.scan(x, tuple(before.values()), num_unrolled=options.num_unrolled)
    by_name = dict(zip(before, states, strict=True))
    return output, _Scanned(frames, unit.out_dim, by_name, lambda name: frames.last(by_name[name], before[name]))


def _scan_by_kernel(
    unit: RecUnit, x: tf.Tensor, before: dict[str, tf.Tensor], frames: SequenceFrames, options: UnitOptions
) -> tuple[tf.Tensor, _Scanned]:
    """:return: like `_scan`"""
    output, states, last = unit.scan_by_kernel(
        x, tuple(before.values()), lengths=frames.lengths(), backward=options.backward
    )
    last_by_name = dict(zip(before, last, strict=True))
    return output, _Scanned(frames, unit.out_dim, dict(zip(before, states, strict=True)), last_by_name.__getitem__)


def _feature_axis(source: Tensor) -> Dim:
    """:return: the feature dim; for sparse data, any that is none of its axes"""
    dim = source.feature_dim_or_sparse_dim
    assert dim is not None
    return dim


def _template(dims: list[Dim], feature: Dim, *, has_time: bool = False) -> Tensor:
    out = Tensor("state", dims=[*dims, feature], dtype=rf.get_default_float_dtype(), feature_dim=feature)
    return out.copy_with_roles(time_dim=out.dims[0]) if has_time else out


def _as_tensor(value: Any) -> Any:
    """:return: the output of a layer, the result of a function; other values as they are"""
    if isinstance(value, LayerBase):
        return value.output
    return value() if callable(value) else value


def _with_feature(x: Tensor, dim: Dim) -> Tensor:
    if x.feature_dim is None or x.feature_dim == dim:
        return x
    return rf.replace_dim(x, in_dim=x.feature_dim, out_dim=dim)[0]
