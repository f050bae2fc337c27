"""Computation on some of the frames of a sequence, chosen by a mask, and the way back to all frames."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.floors.layer_core import target_keys
from returnn.tf.layers.core.frames_of_target import check_of_lengths, checked
from returnn.tf.layers.core.inner_losses import InnerLosses
from returnn.tf.layers.core.inner_totals import InnerTotals
from returnn.tf.layers.core.layer_base import InternalLayer, LayerBase
from returnn.tf.layers.core.network_protocol import InnerNetwork, Network
from returnn.tf.layers.core.sources import concat_sources
from returnn.tf.layers.core.step_state import ForAfterLoop
from returnn.tf.layers.loop.history import NoFrames
from returnn.tf.layers.loop.initial import InitialOutput, applied_on_zeros, initial_value
from returnn.tf.layers.options.registry import get_layer_class
from returnn.tf.layers.values.constant import zeros_like_template
from returnn.util.errors import ConfigError
from returnn.util.not_specified import NotSpecified

_MASKED_OUTPUT = "masked output"


class MaskedComputationLayer(LayerBase):
    """
    Another layer, on the frames alone where a mask is true, as if these were the whole sequence.

    Source [B, T, ...], mask [B, T], output [B, T', ...], where T' are the frames that are left. `UnmaskLayer` leads
    back to T. Inside of a loop, the mask is [B]: where it is false, output and state stay what they were. There, no
    source is needed, if the other layer sees layers around it alone.
    """

    layer_class = "masked_computation"
    recurrent = True
    is_one_block = True
    selects_frames = True
    states_as_unit = (_MASKED_OUTPUT,)
    options_on_zeros: ClassVar[dict[str, Any]] = {"mask": None}

    def __init__(
        self,
        mask: LayerBase | None,
        unit: dict[str, Any],
        masked_from: LayerBase | None = None,
        in_spatial_dim: Dim | None = None,
        out_spatial_dim: Dim | None = None,
        _layer_class: Any = None,
        _layer_desc: dict[str, Any] | None = None,
        _queried_sub_layers: Any = None,
        _parent_layer_cache: Any = None,
        **kwargs: Any,
    ) -> None:
        """
        :param mask: [B, T], bool; inside of a loop [B]
        :param unit: options of the other layer, as in a net dict. There, "data" are the frames that are left, and
            "base:layer" is a layer next to this one, also in a network inside of it
        :param masked_from: [B, T', ...]: the frames that are left, where they are known already. Then source and mask
            are not looked at
        :param in_spatial_dim: T. Default: the time dim of the mask; without one, the dim of the loop
        :param out_spatial_dim: T'. Default: a dim that belongs to the mask
        """
        super().__init__(**kwargs)
        self.mask = mask
        self.unit = unit
        self.masked_from = masked_from
        self.in_spatial_dim = in_spatial_dim
        self.out_spatial_dim = out_spatial_dim
        self._inner: LayerBase | None = None
        self._views: dict[LayerBase, LayerBase] = {}  # of layers around that the other layer uses
        self._losses: InnerLosses | None = None  # of the other layer, in a frame of a loop
        self._totals = InnerTotals(self)

    @classmethod
    def transform_config_dict(cls, d: dict[str, Any], network: Network, get_layer: Callable[[str], Any]) -> None:
        """See `LayerBase.transform_config_dict`."""
        name = f"{network.get_absolute_name_prefix()}{d['_name']}"
        if not isinstance(d.get("unit"), dict) or "class" not in d["unit"]:
            raise ConfigError(f"layer {name!r}: option 'unit': expected a dict with 'class', got {d.get('unit')!r}.")
        if d.get("masked_from") is not None:  # then nothing should depend on the others
            d.update({"from": [], "mask": None})
        elif d.get("mask") is None:
            raise ConfigError(f"layer {name!r}: the option 'mask' is required, or 'masked_from'.")
        super().transform_config_dict(d, network=network, get_layer=get_layer)

    @classmethod
    def cls_hidden_state_names(cls, layer_desc: dict[str, Any]) -> tuple[str, ...]:
        """:return: those of the layer inside"""
        unit = layer_desc["unit"]
        return get_layer_class(unit["class"]).cls_hidden_state_names(unit)

    def frame_before_first(self, template: Tensor, time_dim: Dim) -> Tensor:
        """
        :param template: of a single frame
        :param time_dim: T
        :return: output before the first frame that is left
        """
        return initial_value(
            self._initial_output,
            template,
            layer=self,
            get_layer=self.network.get_layer,
            apply_on_zeros=lambda: applied_on_zeros(self, self.network, time_dim=time_dim),
        )

    @property
    def inner_layer(self) -> LayerBase:
        """The other layer."""
        assert self._inner is not None
        return self._inner

    def compute_inputs(self) -> list[Tensor]:
        """:return: the joined sources; in a loop, there can be none"""
        if self.masked_from is not None:
            return [self.masked_from.output]
        return [concat_sources(self.sources)] if self.sources else []

    def compute(self, *sources: Tensor) -> Tensor:
        """:return: [B, T', ...]"""
        source = sources[0] if sources else None
        if self.mask is None:
            return self._computed(source, None)
        axis, is_frame = self.sequence_dim_of(self.mask.output, self.in_spatial_dim or "T", option="in_spatial_dim")
        if is_frame:
            return self._output_of_frame(source, self.mask.output)
        mask = rf.expand_to(self.mask.output, [axis])
        out_dim = self.out_spatial_dim or self.mask.new_dim("masked")  # the same for all layers with this mask
        around = [network.over_rec_time_dim for network in self.network.get_network_hierarchy()]
        is_of_loop = axis in around
        if source is None and not is_of_loop:
            raise ConfigError(f"{self.where()}: outside of a loop, a source is required (option 'from').")
        if source is not None:
            source = source if is_of_loop else self._with_frames_of_mask(source, axis)
            source = _selected(source, mask, axis, out_dim)
        output = self._computed(source, out_dim, is_of_loop=is_of_loop)
        self._totals.keep(self._totals.taken_from(self.inner_layer, "unit"))
        return output

    def _computed(self, data: Tensor | None, loop_dim: Dim | None, *, is_of_loop: bool = False) -> Tensor:
        """
        :param data: what the other layer sees as "data", None without sources
        :param loop_dim: the frames that are left
        :param is_of_loop: whether these are frames of a loop which the layer was moved out of
        :return: its output
        """
        outer = self.network
        inner = InnerNetwork(
            layer=self,
            data={**({} if data is None else {"data": data}), **self._targets_left(loop_dim)},
            name=outer.name,
            name_prefix=outer.get_absolute_name_prefix(),
            scope_prefix=outer.get_absolute_name_scope_prefix(),
            over_time=loop_dim if is_of_loop else None,
            layer_options={"trainable": self.trainable, "reuse_params": self.reuse_params},
            view_around=functools.partial(self._view, loop_dim=loop_dim if is_of_loop else None),
        )
        net = outer.construction.make_network_inside(inner)
        if data is not None:
            net.layers["data"] = _FramesThatAreLeft(
                name="data", network=net, output=data, computed_from=self._dependencies()
            )
        desc = dict(self.unit) if self.name_scope is None else {"name_scope": self.name_scope, **self.unit}
        size = {"n_out": self._n_out, "out_dim": self._out_dim}
        options = {name: value for name, value in size.items() if value not in (None, NotSpecified)}
        layer_class, options = net.construction.resolve(
            self.name, {**options, **desc}, lambda name: net.construct_layer({}, name)
        )
        with self._totals.making("unit", is_all_inside=False):
            self._inner = net.add_layer(self.name, layer_class, **options)
        if self._initial_output is None:
            self._initial_output = self._inner._initial_output
        self.output_before_activation = self._inner.output_before_activation
        return self._inner.output

    def _dependencies(self) -> list[LayerBase]:
        return [layer for layer in (*self.sources, self.mask, self.masked_from, *self._views) if layer is not None]

    def _view(self, layer: LayerBase, *, loop_dim: Dim | None) -> LayerBase:
        """
        :param layer: of the network around
        :param loop_dim: see `_computed`
        :return: what the other layer sees of it: in all frames at once, those that are left
        """
        if layer not in self._views:
            self._views[layer] = layer if loop_dim is None else self._frames_left_of(layer, loop_dim)
        return self._views[layer]

    def _frames_left_of(self, layer: LayerBase, loop_dim: Dim) -> LayerBase:
        assert self.mask is not None
        axis, _ = self.sequence_dim_of(self.mask.output, self.in_spatial_dim or "T", option="in_spatial_dim")
        if axis not in layer.output.dims:
            return layer
        selected = _selected(layer.output, rf.expand_to(self.mask.output, [axis]), axis, loop_dim)
        return _FramesThatAreLeft(name=layer.name, network=self.network, output=selected, computed_from=[layer])

    def _targets_left(self, loop_dim: Dim | None) -> dict[str, Tensor]:
        """
        :param loop_dim: see `_computed`
        :return: by data key, what losses of the other layer compare its frames with
        """
        net = self.network
        if self.mask is None or loop_dim is None or not (net.eval_flag or net.is_training_objective):
            return {}
        axis, _ = self.sequence_dim_of(self.mask.output, self.in_spatial_dim or "T", option="in_spatial_dim")
        known = net.get_root_network().extern_data
        keys = sorted(key for key in _targets_of_losses(self.unit) if key != "data" and known.has_data(key))
        targets = {key: net.get_extern_data(key, mark_data_key_as_used=True) for key in keys}
        mask = rf.expand_to(self.mask.output, [axis])
        return {key: _selected(x, mask, axis, loop_dim) for key, x in targets.items() if axis in x.dims}

    # Inside of a loop.

    def _with_frames_of_mask(self, source: Tensor, axis: Dim) -> Tensor:
        """
        :param source: data of another key than the mask, which has a time dim of its own, although it is as long
        :param axis: of the mask
        :return: source along this dim
        """
        assert self.mask is not None
        own = [dim for dim in source.dims if dim.is_dynamic_seq_length() and not dim.is_batch_dim()]
        if axis in source.dims or len(own) != 1 or own[0] in self.mask.output.dims:
            return source
        if source.raw_tensor is not None:
            names = {"where": self.where(), "kind": "mask", "target": self.mask.name, "frames_of": "source"}
            source = checked(source, check_of_lengths(axis, own[0], **names))
        return rf.replace_dim(source, in_dim=own[0], out_dim=axis)[0]

    def _output_of_frame(self, source: Tensor | None, mask: Tensor) -> Tensor:
        """:return: output of the other layer where the mask is true, otherwise of the last frame where it was"""
        if source is not None:
            source = self._valid_labels(rf.expand_to(source, mask.dims), mask)  # each has its own state
        self.mask_of_frame = mask
        losses = InnerLosses({"unit": self.unit}, self.batch_of_frame())
        with losses.collecting(self):
            output = self._computed(source, None)
        for layer in (self.inner_layer, *self._layers_inside()):
            self._keep_where_masked(layer)
        self._totals.keep(self._totals.taken_from(self.inner_layer, "unit"))
        self.state_templates.update(self.inner_layer.state_templates)
        self.new_states.update(self.inner_layer.new_states)
        self.output_before_activation = None
        before = self.previous_state(_MASKED_OUTPUT, output.copy_template(), initial=InitialOutput())
        out = self._chosen(output, before)
        self.new_state(_MASKED_OUTPUT, out)
        self._hand_out_losses(losses, out, mask)
        return out

    def _hand_out_losses(self, losses: InnerLosses, output: Tensor, mask: Tensor) -> None:
        """The losses of the other layer count in frames where the mask is true."""
        inner = self.inner_layer
        if not losses.has_any or losses.batch is None or self.network.beams.has_hypotheses(output):
            return
        more = [str(dim) for dim in mask.dims if dim != losses.batch]
        if more:
            raise ConfigError(
                f"{self.where()}: option 'mask': has {', '.join(more)}, so losses of its frames are not known.\n"
                "  In a loop, it has to be [B]."
            )
        self._losses = losses
        if rf.get_selected_backend() == "template":
            losses.declare(self, output)
            return
        values = losses.computed("unit", self, inner.get_losses_initialized, inner.get_constraints_value)
        losses.take(self, output, {key: rf.where(mask, x, 0.0) for key, x in values.items()})

    def _valid_labels(self, source: Tensor, mask: Tensor) -> Tensor:
        """:return: where the mask is false, the first label: it may be one there that the other layer does not know"""
        if source.sparse_dim is None:
            return source
        beams = self.network.beams
        latest = beams.latest([source, mask], where=self.where())
        source, mask = beams.translate(source, latest), beams.translate(mask, latest)
        valid = rf.where(mask, source, rf.zeros_like(source), allow_broadcast_all_sources=True)
        return valid.copy_with_roles(sparse_dim=source.sparse_dim)

    def _keep_where_masked(self, layer: LayerBase) -> None:
        for key, value in list(layer.new_states.items()):
            state = layer.state_templates[key]
            if isinstance(state.initial, NoFrames):
                continue  # it has its own lengths
            if isinstance(state.initial, ForAfterLoop):
                if self.network.beams.has_hypotheses(self.mask_of_frame):
                    # It is of sequences, and the mask of hypotheses: as with losses, there is nothing to count.
                    del layer.new_states[key], layer.state_templates[key]
                    continue
                before = rf.zeros_like(value)
            else:
                before = layer.previous_state(key, state.template, initial=state.initial)
            layer.new_states[key] = self._chosen(value, before)
        frame = self.network.step.innermost_frame()
        path = frame.path_of(layer.get_absolute_name())
        before = frame.output_before(path) if layer is not self.inner_layer else None
        if before is not None:
            layer.output = self._chosen(layer.output, before)
            layer.output_before_activation = None

    def _chosen(self, value: Tensor, before: Tensor) -> Tensor:
        assert self.mask_of_frame is not None
        beams = self.network.beams
        latest = beams.latest([self.mask_of_frame, value, before], where=self.where())
        mask, new, old = (beams.translate(x, latest) for x in (self.mask_of_frame, value, before))
        out = rf.where(mask, new, old, allow_broadcast_all_sources=True)
        return out.copy_with_roles(feature_dim=value.feature_dim, sparse_dim=value.sparse_dim)

    def _layers_inside(self) -> list[LayerBase]:
        """:return: layers of the frame, and not of one of a loop inside"""
        layers = [layer for net in self.inner_layer.get_sub_networks() for layer in net.get_all_layers_deep()]
        frame = self.network.step.innermost_frame()
        return [layer for layer in layers if layer.network.step.innermost_frame() is frame]

    # What the other layer has is what this one has.

    def after_loop(self, totals: dict[str, Tensor]) -> None:
        """See `LayerBase.after_loop`."""
        super().after_loop(totals)
        self._totals.hand_on(totals if self._losses is None else self._losses.set_totals(totals))

    def losses_after_loop(self) -> list[Any]:
        """:return: those of the other layer, or inside of it"""
        return [*(() if self._losses is None else self._losses.of_all_frames(self)), *self._totals.losses()]

    def constraints_after_loop(self) -> Any:
        """:return: raw scalar, with that for the other layer"""
        return super().constraints_after_loop() + self._totals.constraints()

    def has_hidden_state(self) -> bool:
        """:return: whether the other layer has one"""
        return self.inner_layer.has_hidden_state()

    def hidden_state_parts(self) -> dict[str, Tensor]:
        """:return: those of the other layer, as they are kept inside of a loop"""
        parts = self.inner_layer.hidden_state_parts()
        return {name: self.new_states.get(name, value) for name, value in parts.items()}

    def get_sub_layer(self, layer_name: str) -> LayerBase | None:
        """:return: sub layer of the other layer"""
        found = self.inner_layer.get_sub_layer(layer_name)
        if found is not None and self.mask_of_frame is not None and rf.get_selected_backend() == "template":
            frame = self.network.step.innermost_frame()
            frame.prev_layer(frame.path_of(found.get_absolute_name()))  # so that its output before is kept
        return found

    def get_sub_networks(self) -> list[Any]:
        """:return: the network with the other layer"""
        return [] if self._inner is None else [self._inner.network]

    def get_sub_layers(self) -> list[LayerBase]:
        """:return: the other layer"""
        return [] if self._inner is None else [self._inner]

    def get_dep_layers(self) -> list[LayerBase]:
        """:return: sources and mask"""
        return self._dependencies()

    def get_losses_initialized(self, reduce_func: Callable[[Any], Any] | None = None) -> list[Any]:
        """:return: its own loss, and those of the other layer"""
        losses = super().get_losses_initialized(reduce_func=reduce_func)
        if self._losses is not None:
            return [*losses, *self._losses.holders(self, reduce_func)]
        return [*losses, *self.inner_layer.get_losses_initialized(reduce_func=reduce_func)]

    def get_constraints_value(self) -> Any:
        """:return: raw scalar, for this layer and the other one"""
        return super().get_constraints_value() + self.inner_layer.get_constraints_value()

    @property
    def params(self) -> dict[str, Any]:
        """Parameters of the other layer."""
        return self.inner_layer.params


def _targets_of_losses(desc: Any) -> set[str]:
    """:return: the data keys that losses in the options of a layer, and of those inside of it, have as target"""
    if not isinstance(desc, Mapping):
        return set()
    own = target_keys(desc.get("target")) if desc.get("loss") is not None else []
    return set(own).union(*map(_targets_of_losses, desc.values()))


def _selected(x: Tensor, mask: Tensor, axis: Dim, out_dim: Dim) -> Tensor:
    """
    :param x: [axis, ...]
    :param mask: [B, axis]
    :param axis: all frames
    :param out_dim: those that are left
    :return: [B, out_dim, ...]
    """
    x = rf.expand_to(x, mask.dims)
    selected, _ = rf.masked_select(x, mask=mask, dims=[axis], out_dim=out_dim)
    return selected.copy_with_roles(feature_dim=x.feature_dim, time_dim=out_dim)


class UnmaskLayer(LayerBase):
    """
    The way back from `MaskedComputationLayer` to all frames: where the mask is false, the last frame is repeated.

    Source [B, T', ...], mask [B, T], output [B, T, ...]. Inside of a loop, the source stays as it is, because
    `MaskedComputationLayer` repeats its frames itself there.
    """

    layer_class = "unmask"
    recurrent = True
    restores_frames = True

    def __init__(self, mask: LayerBase, **kwargs: Any) -> None:
        """
        :param mask: [B, T], bool, the same as in `MaskedComputationLayer`; inside of a loop [B]
        """
        super().__init__(**kwargs)
        self.mask = mask

    def compute(self, source: Tensor) -> Tensor:
        """:return: [B, T, ...]"""
        mask = self.mask.output
        if mask.dtype != "bool":
            raise ConfigError(f"{self.where()}: option 'mask': expected bools, got {mask} {mask.dtype}.")
        axis, is_frame = self.sequence_dim_of(mask, "T")
        masked = None if is_frame else self._masked_dim(source, axis)
        if masked is None:
            return source
        mask = rf.expand_to(mask, [axis])
        frame = source.copy_template_excluding_axis(source.get_axis_from_description(masked))
        masked_layer = self.sources[0]
        if isinstance(masked_layer, MaskedComputationLayer):
            before = masked_layer.frame_before_first(frame, axis)
        else:
            before = zeros_like_template(frame)
        one = self.new_dim("before the first frame", 1, auto_generated=False)
        first = rf.expand_dim(before, one).copy_transpose([one if dim == masked else dim for dim in source.dims])
        frames, with_initial = rf.concat((first, one), (source, masked))
        number = rf.cumsum(rf.cast(mask, "int32"), spatial_dim=axis)  # of the frames so far
        out = rf.gather(frames, indices=number, axis=with_initial, clip_to_valid=True)
        return out.copy_with_roles(feature_dim=source.feature_dim, sparse_dim=source.sparse_dim)

    def _masked_dim(self, source: Tensor, axis: Dim) -> Dim | None:
        """:return: T'; None if the source has all frames"""
        if axis in source.dims or not source.have_time_axis():
            return None
        return source.get_time_dim_tag()


class _FramesThatAreLeft(InternalLayer):
    """What a layer inside of `MaskedComputationLayer` sees as "data"."""

    def __init__(self, computed_from: list[LayerBase], **kwargs: Any) -> None:
        """
        :param computed_from: whoever uses this layer uses these
        """
        super().__init__(debug_type_name="frames that are left", **kwargs)
        self.computed_from = computed_from
