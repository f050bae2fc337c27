"""`UnitLayer`: what layers have in common that run a recurrent unit, over all frames or in a single step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.layers.loop import kept_state
from returnn.tf.layers.loop.initial import initial_value
from returnn.tf.layers.rec.initial_parameter import InitialParameter
from returnn.tf.layers.rec.state_options import resolve_initial_state, split_state
from returnn.tf.layers.rec.units.base import RecUnit, WeightInits
from returnn.tf.layers.rec.units.registry import check_unit_opts, get_unit_class
from returnn.tf.layers.rec.units.sequence_frames import SequenceFrames, as_matrix, common_dims, from_matrix
from returnn.util.errors import ConfigError


@dataclass(frozen=True)
class _Scanned:
    """What is known after a unit went over all frames."""

    frames: SequenceFrames
    feature: Dim
    initial: dict[str, tf.Tensor]
    states: dict[str, tf.Tensor]  # (T, N, F)

    def last(self, name: str) -> Tensor:
        """:return: [others..., F]: state after the last frame"""
        raw = self.frames.last(self.states[name], self.initial[name])
        return from_matrix(raw, self.frames.others, self.feature)

    def all_frames(self, name: str) -> Tensor:
        """:return: [time, others..., F]: state after each frame"""
        return self.frames.unflat(self.states[name], self.feature)


class UnitLayer(_ConcatInputLayer):
    """Base class. See the head of this module."""

    recurrent = True
    _has_rec_scope = True
    unit_as_cell = False  # whether names of units mean those for single steps
    back_prop: bool | None = None

    def __init__(
        self,
        unit: Any,
        unit_opts: dict[str, Any] | None = None,
        initial_state: str | float | LayerBase | list[Any] | tuple[Any, ...] | dict[str, Any] | None = None,
        state: LayerBase | dict[Any, LayerBase] | None = None,
        initial_output: Any = None,
        **kwargs: Any,
    ) -> None:
        """
        :param unit: name of the unit, see `returnn.tf.layers.rec.units`
        :param unit_opts: options of the unit
        :param initial_state: state before the first frame: number; "zeros"; "ones"; "var" for trained parameters
            `initial_c` and so on; "keep_over_epoch": the state at the end of the batch before; or a layer: its hidden
            state if it has one, otherwise its output; or one of these for each part of the state: list, or dict such
            as `{"c": 0, "h": "encoder"}`
        :param state: the state before this step, instead of the one after the step before: a layer, or one for each
            part of the state
        :param initial_output: before the first frame of a loop. Default: what is in `initial_state`
        """
        super().__init__(state=state, initial_output=initial_output, **kwargs)
        self.unit = unit
        self.unit_opts = unit_opts or {}
        self.initial_state = initial_state
        self._scanned: _Scanned | None = None
        self._kept: dict[str, kept_state.KeptInitial] = {}
        self._parts: dict[str, Tensor] = {}
        if self.has_unit:
            self.unit_class = get_unit_class(
                unit, as_cell=self.unit_as_cell, opts=self.unit_opts, where=f"{self.where()}: option 'unit'"
            )
            check_unit_opts(self.unit_class, self.unit_opts, where=f"{self.where()}: unit {unit!r}")
            self._initial_state = self._initial_parts()
            if initial_output is None:
                self._initial_output = self._initial_state[self._output_name()]

    @property
    def has_unit(self) -> bool:
        """Whether this is about a unit."""
        return True

    @classmethod
    def transform_config_dict(cls, d: dict[str, Any], network: Network, get_layer: Callable[[str], Any]) -> None:
        """See `LayerBase.transform_config_dict`."""
        if d.get("initial_state") is not None:
            d["initial_state"] = resolve_initial_state(d["initial_state"], get_layer)
        super().transform_config_dict(d, network=network, get_layer=get_layer)

    def get_absolute_name_scope_prefix(self) -> str:
        """:return: name scope of the parameters of the unit"""
        return self.scope_of_unit() if self.has_unit and self._has_rec_scope else self._own_scope()

    def scope_of_unit(self) -> str:
        """
        :return: name scope of what is in the unit, with a "/" at the end; "" for the root: "NAME/rec/". The option
            `name_scope` stands for all of that, not for "NAME" alone
        """
        return f"{self._own_scope()}rec/" if self.name_scope is None else self._own_scope()

    def has_initial_state_in_unit(self) -> bool:
        """:return: whether the parameters of `initial_state="var"` are among those of the unit; else beside them"""
        return True

    def _own_scope(self) -> str:
        return super().get_absolute_name_scope_prefix()

    # How the unit is used.

    def time_dim_of(self, source: Tensor) -> Dim | None:
        """:return: the dim to go over, None for a single step"""
        raise NotImplementedError

    def weight_inits(self) -> WeightInits:
        """:return: initial values of the weights"""
        return WeightInits()

    def unit_arguments(self) -> dict[str, Any]:
        """:return: further arguments for the unit"""
        return {}

    def is_backward(self) -> bool:
        """:return: whether it goes from the last frame of each sequence to the first"""
        return False

    def num_unrolled(self) -> int | None:
        """:return: number of frames, if there should be no loop in the graph"""
        return None

    def compute_unit(self, source: Tensor) -> Tensor:
        """:return: output of the unit, over all frames or for a single step"""
        in_dim = self.feature_dim_of(source, or_sparse_dim=True)
        out_dim = self.output_feature_dim(self.feature_dim_from_target())
        unit = self.unit_class(num_units=out_dim.dimension, **self.unit_opts)
        unit.use(layer=self, in_dim=in_dim, out_dim=out_dim, inits=self.weight_inits(), **self.unit_arguments())
        time_dim = None if self.state is not None else self.time_dim_of(source)
        if time_dim is None:
            if self.is_backward():
                raise ConfigError(f"{self.where()}: direction -1: the source {source} has no time axis to go over.")
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
            is_loop = time_dim == self.network.get_inside_rec_time_dim(inside_loop=False)
            dims = [time_dim, *others] if is_loop else others
            self._parts = {name: _template(dims, unit.out_dim) for name in initial}
            return _template([time_dim, *others], unit.out_dim, has_time=True)
        frames = SequenceFrames(time_dim, others, backward=self.is_backward())
        x = frames.flat(unit.project(frames.in_order(source)))
        before = {name: as_matrix(value, others, unit.out_dim) for name, value in initial.items()}
        output, states = unit.scan(x, tuple(before.values()), num_unrolled=self.num_unrolled())
        self._scanned = _Scanned(frames, unit.out_dim, before, dict(zip(before, states, strict=True)))
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
            self.new_state(name, value)
        return output

    @property
    def _is_in_loop(self) -> bool:
        return self.network.get_inside_rec_time_dim(inside_loop=True) is not None

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
            values.append(self.previous_state(f"once{i}", _template(dims, unit.out_dim), initial=draw(i)))
            self.new_state(f"once{i}", values[-1])
        return values

    # States.

    def _state_names(self) -> list[str]:
        return [*self.unit_class.state_names, *self.unit_class.hidden_state_names]

    def _output_name(self) -> str:
        """:return: the part of the state which is the output, or would be without zoneout"""
        return self._state_names()[-1]

    def _initial_parts(self) -> dict[str, Any]:
        names = self.unit_class.state_names
        value = 0 if self.initial_state is None else self.initial_state
        parts = split_state(value, names, option="initial_state", where=self.where())
        for name in names:
            if isinstance(parts[name], str) and parts[name] == "var":
                parts[name] = InitialParameter(self, name if len(names) > 1 else "var")
            elif isinstance(parts[name], str) and parts[name] in kept_state.WORDS:
                kept = kept_state.KeptState(self, name, parts[name])
                self._kept[name] = parts[name] = kept_state.KeptInitial(kept, self._template_of_kept)
        return {**parts, **dict.fromkeys(self.unit_class.hidden_state_names, 0)}

    def _template_of_kept(self) -> Tensor:
        return _template([batch_dim], self.output_feature_dim())

    def _initial_values(self, dims: list[Dim], out_dim: Dim) -> dict[str, Tensor]:
        values = {name: _as_tensor(value) for name, value in self._initial_state.items()}
        tensors = [value for value in values.values() if isinstance(value, Tensor)]
        more = common_dims(tensors, without=[*dims, out_dim, *(d for x in tensors for d in [x.feature_dim] if d)])
        template = _template([*dims, *more], out_dim)
        return {
            name: initial_value(value, template, layer=self, get_layer=self.network.get_layer)
            for name, value in values.items()
        }

    def _state_before(self, dims: list[Dim], out_dim: Dim) -> dict[str, Tensor]:
        if self.state is not None:
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
        return {name: self.previous_state(name, template, initial=value) for name, value in self._initial_state.items()}

    def _given_state(self, dims: list[Dim], out_dim: Dim) -> dict[str, Tensor]:
        """:return: what the option `state` says. The state after the step is kept for others, as always"""
        names = self.unit_class.state_names
        parts = split_state(self.state, names, option="state", where=self.where())
        hidden = dict.fromkeys(self.unit_class.hidden_state_names, rf.full(dims=[out_dim], fill_value=0.0))
        given = {name: _with_feature(_as_tensor(value), out_dim) for name, value in parts.items()}
        if self._is_in_loop:
            template = _template(common_dims([*given.values()], without=[*dims, out_dim]) + dims, out_dim)
            for name, value in self._initial_state.items():
                self.previous_state(name, template, initial=value)
        return {**given, **hidden}

    @classmethod
    def cls_hidden_state_names(cls, layer_desc: dict[str, Any]) -> tuple[str, ...]:
        """:return: parts of the state of the unit"""
        unit = layer_desc.get("unit", "lstm")
        if isinstance(unit, dict):
            return ()
        return get_unit_class(unit, as_cell=cls.unit_as_cell, opts=layer_desc.get("unit_opts")).state_names

    def has_hidden_state(self) -> bool:
        """:return: True, as every unit has one"""
        return self.has_unit

    def hidden_state_parts(self) -> dict[str, Tensor]:
        """
        :return: state after this step, or after the last frame, by name. For all frames of a loop at once: the one
            after each of them
        """
        if not self.has_unit:
            return super().hidden_state_parts()
        if self._scanned is not None and not self._parts:
            is_loop = self._scanned.frames.time_dim == self.network.get_inside_rec_time_dim(inside_loop=False)
            part = self._scanned.all_frames if is_loop else self._scanned.last
            self._parts = {name: part(name) for name in self.unit_class.state_names}
        return {name: self.new_states.get(name, self._parts[name]) for name in self.unit_class.state_names}

    def last_hidden_state_parts(self) -> dict[str, Tensor]:
        """:return: [..., F] each: state after the last frame of each sequence"""
        if self._scanned is None:
            return self.hidden_state_parts()
        return {name: self._scanned.last(name) for name in self.unit_class.state_names}


def _feature_axis(source: Tensor) -> Dim:
    """:return: the feature dim; for sparse data, any that is none of its axes"""
    dim = source.feature_dim_or_sparse_dim
    assert dim is not None
    return dim


def _template(dims: list[Dim], feature: Dim, *, has_time: bool = False) -> Tensor:
    out = Tensor("state", dims=[*dims, feature], dtype=rf.get_default_float_dtype(), feature_dim=feature)
    if has_time:
        out.time_dim_axis = 0
    return out


def _as_tensor(value: Any) -> Any:
    """:return: the output of a layer, the result of a function; other values as they are"""
    if isinstance(value, LayerBase):
        return value.output
    return value() if callable(value) else value


def _with_feature(x: Tensor, dim: Dim) -> Tensor:
    if x.feature_dim is None or x.feature_dim == dim:
        return x
    return rf.replace_dim(x, in_dim=x.feature_dim, out_dim=dim)[0]
