"""The part of `RecLayer` about subnetworks: what one time step is made of, and what the outside can ask of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.frontend import get_selected_backend
from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_low_level import side_effects
from returnn.tf.layers.core.frames_of_target import check_of_lengths
from returnn.tf.layers.core.layer_base import LayerBase, WrappedInternalLayer
from returnn.tf.layers.core.layer_losses import target_keys
from returnn.tf.layers.core.layer_params import params_in_scope
from returnn.tf.layers.core.step_state import FramesNotKept
from returnn.tf.layers.loop.final_state import KeptFrames, LayerBehindLoop, TemplateBehindLoop
from returnn.tf.layers.loop.prev_layer import hidden_state_names, owner_of_state
from returnn.tf.layers.loop.step_offset import StepOffset
from returnn.tf.layers.loop.subnet_cell import SubnetworkRecCell
from returnn.tf.layers.rec.rec_unstack import declared_time_dim
from returnn.tf.layers.rec.unit_layer import UnitLayer
from returnn.tf.layers.structure.unavailable_data import check_value_of_target
from returnn.util.errors import ConfigError, nearest_hint

if TYPE_CHECKING:
    from returnn.tf.layers.rec.rec_layer import RecLayer


class RecSubnetwork(LayerBase):
    """See the head of this module."""

    cell: SubnetworkRecCell | None = None
    _step_offset: StepOffset | None = None
    _length_is_known = False  # before the loop

    def compute_subnetwork(self: RecLayer, source: Tensor | None) -> Tensor:
        """:return: output of the loop over the subnetwork"""
        time_dim, has_known_length = self._time_dim_of_loop(source)
        if self.is_backward() and not has_known_length:
            raise ConfigError(
                f"{self.where()}: direction -1: the loop has to know its length, but a layer 'end' decides about it."
            )
        assert isinstance(self.unit, dict)
        self._length_is_known = has_known_length
        self.cell = SubnetworkRecCell(
            self,
            self.unit,
            source=source,
            time_dim=time_dim,
            has_known_length=has_known_length,
            optimize=self._moves_layers_out(),
            include_eos=self.include_eos,
            max_seq_len=self._max_seq_len,
            unroll=self.unroll,
            back_prop=self.network.is_training_objective if self.back_prop is None else self.back_prop,
            backward=self.is_backward(),
            debug=bool(self.debug),
        )
        has_values = get_selected_backend() != "template"
        if self.use_global_rec_step_offset and has_values:
            self._step_offset = StepOffset(self)
        output = self.cell.compute()
        if self._step_offset is not None:
            self._step_offset.count(time_dim.get_dim_value())
        if has_known_length and has_values and not self.network.search_flag:
            self._check_lengths_of_targets(time_dim)
        return self._with_out_dim(output)

    def _with_out_dim(self: RecLayer, output: Tensor) -> Tensor:
        """:return: the output; if `out_dim` is another dim than the one inside, but of the same size, with that"""
        inner, given = output.feature_dim_or_sparse_dim, self._out_dim
        if given is None or inner is None or given in (inner, *output.dims) or given.size != inner.size:
            return output
        if inner in output.dims:
            return rf.replace_dim(output, in_dim=inner, out_dim=given)[0]
        output = output.copy()
        output.sparse_dim = given
        return output

    def first_step(self: RecLayer) -> Tensor | None:
        """:return: number of the first frame, None for 0"""
        return None if self._step_offset is None else self._step_offset.number

    def data_of_frames(self: RecLayer, key: str, data: Tensor, time_dim: Dim) -> Tensor:
        """
        :param key: of data of the network around
        :param data: its value
        :param time_dim: of this loop
        :return: the data, with the dim of the loop if it is the target of frames. Data of two keys have time dims of
            their own unless the config says otherwise, although a loop over a source, or over one of several targets,
            has one target for each frame.
        """
        own = self._own_dim_of_target(key, data, time_dim)
        return data if own is None else rf.replace_dim(data, in_dim=own, out_dim=time_dim)[0]

    def _own_dim_of_target(self: RecLayer, key: str, data: Tensor, time_dim: Dim) -> Dim | None:
        if not self._length_is_known or time_dim in data.dims or key not in self._targets_in_frames():
            return None
        own = data.get_time_dim_tag() if data.have_time_axis() else None
        return own if own is not None and own.is_dynamic_seq_length() else None

    def _targets_in_frames(self: RecLayer) -> set[str]:
        assert isinstance(self.unit, dict)
        return {self.size_target or "", *(self.targets or ()), *_targets_in(self.unit)}

    def _check_lengths_of_targets(self: RecLayer, time_dim: Dim) -> None:
        extern_data = self.network.get_root_network().extern_data
        for key in sorted(self._targets_in_frames() & self.network.get_root_network().used_data_keys):
            own = self._own_dim_of_target(key, extern_data.data[key], time_dim) if extern_data.has_data(key) else None
            if own is not None:
                frames_of = "source" if self.sources else "loop"
                check = check_of_lengths(own, time_dim, where=self.where(), target=key, frames_of=frames_of)
                side_effects.add_effect(check)

    def _moves_layers_out(self: RecLayer) -> bool:
        if self.optimize_move_layers_out is not None:
            return self.optimize_move_layers_out
        return self.network.get_config().options.optimize_move_layers_out

    def _time_dim_of_loop(self: RecLayer, source: Tensor | None) -> tuple[Dim, bool]:
        """:return: the dim to go over; whether its lengths are known before"""
        if source is not None:
            dim = self.time_dim_of(source)
            if dim is None:
                raise ConfigError(f"{self.where()}: the source {source} has no time dim to go over.")
            return dim, True
        own = self.axis if isinstance(self.axis, Dim) else None
        declared = declared_time_dim(self.unit, self.network)
        if declared is not None:
            return declared, True
        if own is not None and own.is_dim_known():
            return own, True
        target = None if self._search_decides_length() else self._target_with_length()
        if target is not None:
            dim = target.get_time_dim_tag()
            if dim.size is None and dim.dyn_size is None:
                check_value_of_target(self, target)
            if own is not None:
                own.declare_same_as(dim)
            return dim, True
        return own or self.new_dim("time"), False

    def _search_decides_length(self: RecLayer) -> bool:
        """:return: whether the layer "end" says how long hypotheses are; not if they follow the target"""
        assert isinstance(self.unit, dict)
        choices = _choices_in(self.unit)
        follows_target = any(desc.get("cheating") or desc.get("search") is False for desc in choices)
        searches = any(desc.get("search", self.network.search_flag) for desc in choices)
        return searches and "end" in self.unit and not follows_target

    def _target_with_length(self: RecLayer) -> Tensor | None:
        assert isinstance(self.unit, dict)
        targets = [desc.get("target") for desc in _choices_in(self.unit)]
        key = self.size_target or self.target or (self.unit.get("output") or {}).get("target") or (targets or [None])[0]
        key = key[0] if isinstance(key, (list, tuple)) else key
        if key is not None and key.startswith("layer:"):
            name = key.removeprefix("layer:").removeprefix("base:")  # as a layer of the time step would say it
            target = self.network.construct_layer(self.network.layers_desc, name).output
        elif key is not None and (":" in key or self.network.get_root_network().extern_data.has_data(key)):
            target = self.get_target_value(key)
        else:
            return None
        return target if target is not None and target.have_time_axis() else None

    def _max_seq_len(self: RecLayer) -> int | Tensor | None:
        """:return: largest number of frames, of all sequences or of each [B]; None if there is none"""
        if self.max_seq_len_via is not None:
            limit = self.max_seq_len_via.output
        else:
            limit = self._evaluated_max_seq_len() if isinstance(self.max_seq_len, str) else self.max_seq_len
        if limit is None or isinstance(limit, int):
            return limit
        batch = self.network.step.batch_dims()
        if tf.is_tensor(limit) and limit.shape.rank in (0, 1):
            dims = batch if limit.shape.rank else []
            limit = Tensor("max_seq_len", dims=dims, dtype=limit.dtype.name, raw_tensor=limit)
        is_limit = isinstance(limit, Tensor) and limit.dtype.startswith("int") and set(limit.dims) <= set(batch)
        if not is_limit:
            raise ConfigError(f"{self.where()}: option 'max_seq_len': expected integers, one or [B], got {limit!r}.")
        return rf.cast(limit, "int32")

    def _evaluated_max_seq_len(self: RecLayer) -> Any:

        def max_len_from(name: str) -> Any:
            time_dim = self._layer_of_limit(name).output.get_time_dim_tag()
            if time_dim.dyn_size_ext is None or self.network.get_config().options.search_depends_on_batch:
                return time_dim.get_dim_value()
            return self._lengths_of_sequences(time_dim)

        try:
            return eval(self.max_seq_len, {"max_len_from": max_len_from, "tf": tf, "self": self})
        except (NameError, SyntaxError, TypeError, AttributeError) as exc:
            raise ConfigError(
                f"{self.where()}: option 'max_seq_len': {self.max_seq_len!r}: {exc}.\n"
                "  Possible: a number, or an expression with max_len_from('base:layer')."
            ) from exc

    def _lengths_of_sequences(self: RecLayer, time_dim: Dim) -> Any:
        """:return: raw [B], int32; of several hypotheses, the length of the longest"""
        batch = self.network.step.batch_dims()
        lengths = time_dim.get_size_tensor()
        others = [dim for dim in lengths.dims if dim not in batch]
        lengths = rf.reduce_max(lengths, axis=others) if others else lengths
        return lengths.copy_compatible_to_dims_raw(batch) if lengths.dims else lengths.raw_tensor

    def _layer_of_limit(self: RecLayer, name: str) -> LayerBase:
        """:return: layer next to the loop, named as in the time step; if there is none, "base:" is one further out"""
        net_dict, inner = self.network.layers_desc, name.removeprefix("base:")
        is_found = inner.startswith(("data", "base:")) or inner.partition("/")[0] in net_dict
        is_found |= self.network.parent_net is None  # then the error is about this name
        return self.network.construct_layer(net_dict, inner if is_found else name)

    # What the outside can ask for.

    def get_sub_layer(self: RecLayer, layer_name: str) -> LayerBase | None:
        """:return: layer of the time step, for all frames"""
        if self.cell is None:
            return super().get_sub_layer(layer_name)
        if get_selected_backend() == "template" or self.cell.emitted is None:
            return self._sub_layer_template(layer_name)
        plan = self.cell.plan
        if layer_name in plan.placements and not self.cell.emitted.is_kept(layer_name):
            raise FramesNotKept(
                f"{self.where()}: the frames of {layer_name!r} are not kept.\n"
                f"  Give that layer the option 'is_output_layer': True.",
                layer=self.cell.emitted.step_network.step.innermost_frame().layers.get(layer_name),
            )
        if layer_name.partition("/")[0] not in self.cell.unit:
            hint = nearest_hint(layer_name, self.cell.unit)
            raise ConfigError(f"{self.where()}: there is no layer {layer_name!r} in the unit.\n  {hint}")
        layer = self.cell.emitted.layer(layer_name)
        output = self.cell.in_order(layer.output)
        owner_path = owner_of_state(layer_name, self.cell.unit)
        owner = self.cell.emitted.layer(owner_path) if self.cell.emitted.is_kept(owner_path) else layer
        if owner.has_hidden_state() and isinstance(owner, (KeptFrames, UnitLayer)):
            return LayerBehindLoop(name=layer_name, network=layer.network, output=output, base_layer=owner)
        if output is layer.output:
            return layer
        return WrappedInternalLayer(name=layer_name, network=layer.network, output=output, base_layer=layer)

    def last_states_of_output(self: RecLayer) -> dict[str, Tensor]:
        """
        :return: hidden state of the layer "output" after the last frame, by name
        :raises ConfigError: if it has none, or it was not kept
        """
        layer = self.get_sub_layer("output")
        assert layer is not None
        return layer.hidden_state_parts()

    def _sub_layer_template(self: RecLayer, layer_name: str) -> LayerBase | None:
        assert self.cell is not None
        layer = self.cell.inferred.layers.get(layer_name)
        if layer is None:
            return None
        output = self.cell.seen_from_outside(layer.output)._insert_dim(self.cell.time_dim, 0)
        known = self.cell.inferred.states.get(owner_of_state(layer_name, self.cell.unit), {})
        names = hidden_state_names(layer_name, self.cell.unit, known)
        states = {key: state.template for key, state in known.items() if key in names}
        return TemplateBehindLoop(name=f"{self.name}/{layer_name}", network=self.network, output=output, states=states)

    def get_sub_networks(self: RecLayer) -> list[Any]:
        """:return: the networks inside of this layer"""
        return [] if self.cell is None or self.cell.emitted is None else self.cell.emitted.networks

    @property
    def all_params(self: RecLayer) -> dict[str, Any]:
        """Parameters by name; of the layers of the time step, as "rec/layer/W"."""
        return params_in_scope(self)

    def _layers_of_all_frames(self: RecLayer) -> list[LayerBase]:
        """:return: the layers of the time step which are known for all frames, each once"""
        if self.cell is None or self.cell.emitted is None:
            return []
        before, after = self.cell.emitted.before.network, self.cell.emitted.after.network
        found: dict[int, LayerBase] = {}
        for network in (before, after):
            for name, layer in network.layers.items():
                if not name.startswith(("data", ":i", "prev:")) and "/" not in name:
                    found.setdefault(id(layer), layer)
        in_subnetworks = [layer for path, layer in self.cell.emitted.after.known.items() if "/" in path]
        return [*found.values(), *(layer for layer in in_subnetworks if isinstance(layer, KeptFrames))]

    def _losses_of_moved_subnetworks(self: RecLayer, reduce_func: Callable[[Any], Any] | None) -> list[Any]:
        """:return: of layers in subnetworks which are not, as a whole, where these layers are"""
        if self.cell is None or self.cell.emitted is None:
            return []
        return [
            _renamed(loss, f"{name}/{loss.name}")
            for network in (self.cell.emitted.before.network, self.cell.emitted.after.network)
            for name, inner in network.subnets_without_layer().items()
            for loss in inner.get_losses_initialized(reduce_func=reduce_func)[0].values()
        ]

    def get_losses_initialized(self: RecLayer, reduce_func: Callable[[Any], Any] | None = None) -> list[Any]:
        """
        :return: its own loss, and those of the layers of the time step, named by their path; in search without those
            that would compare frames of hypotheses with the target, if there is no frame of it that belongs to them
        """
        losses = super().get_losses_initialized(reduce_func=reduce_func)
        for layer in self._layers_of_all_frames():
            if not self._has_frames_of_target(layer):
                continue
            of_step = layer.get_losses_initialized(reduce_func=reduce_func)
            losses += [_renamed(loss, f"{self.name}/{loss.name}") for loss in of_step]
        known = {id(loss.get_layer()) for loss in losses}
        for loss in self._losses_of_moved_subnetworks(reduce_func):
            if id(loss.get_layer()) not in known:
                known.add(id(loss.get_layer()))
                losses.append(_renamed(loss, f"{self.name}/{loss.name}"))
        return losses

    def _has_frames_of_target(self: RecLayer, layer: LayerBase) -> bool:
        """:return: whether the target has all frames that the loss of a layer of the time step is about"""
        loss = layer.loss
        if loss is None or loss.recurrent or not loss.need_target:
            return True
        assert self.cell is not None
        targets = [layer._target_layers.get(key) for key in layer.targets or ()]
        if all(x is not None and x.get_absolute_name().startswith(self.cell.prefix) for x in targets):
            return True
        return self.cell.has_known_length or not self.network.beams.has_hypotheses(layer.output)

    def get_constraints_value(self: RecLayer) -> Any:
        """:return: raw scalar, for this layer and those of the time step"""
        total = super().get_constraints_value()
        total += sum(layer.get_constraints_value() for layer in self._layers_of_all_frames())
        step = None if self.cell is None or self.cell.emitted is None else self.cell.emitted.step_network
        for layer in step.get_all_layers_deep() if step is not None else ():
            if layer.L2 and layer.all_params:
                total += layer.L2 * layer.get_params_l2_norm()
        return total


def _renamed(loss: Any, name: str) -> Any:
    loss.name = name
    return loss


def _targets_in(unit: dict[str, Any]) -> set[str]:
    """:return: targets of all layers of the time step, also of those in subnetworks"""
    found: set[str] = set()
    for desc in unit.values():
        if isinstance(desc, dict):
            found.update(target_keys(desc.get("target")))
            inner = desc.get("subnetwork")
            found |= _targets_in(inner) if isinstance(inner, dict) else set()
    return found


def _choices_in(unit: dict[str, Any]) -> list[dict[str, Any]]:
    """:return: options of all choices of the time step, also of those in subnetworks"""
    found: list[dict[str, Any]] = []
    for desc in unit.values():
        if isinstance(desc, dict) and desc.get("class") == "choice":
            found.append(desc)
        elif isinstance(desc, dict) and isinstance(desc.get("subnetwork"), dict):
            found += _choices_in(desc["subnetwork"])
    return found
