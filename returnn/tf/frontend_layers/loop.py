"""
`Loop`: a loop as layer of class "rec".

    loop = Loop(axis=time_dim)
    loop.state = rf.State(h=initial)
    with loop:
        x_t = loop.unstack(x)
        loop.state.h = rf.tanh(x_t + loop.state.h)
        out = loop.stack(loop.state.h)
    last = loop.last(loop.state.h)

Inside, an entry of the state is that of the frame before, until it is assigned.
"""

from __future__ import annotations

from typing import Any

from returnn.frontend.array_ import where
from returnn.frontend.const import zeros_like
from returnn.frontend.math_ import compare_bc
from returnn.frontend.module import Module
from returnn.frontend.state import State
from returnn.tensor import ControlFlowContext, Dim, Tensor
from returnn.tf.frontend_layers.layer import Layer
from returnn.tf.frontend_layers.make_layer import make_layer, set_lengths_by_layer
from returnn.tf.frontend_layers.prev_tensor_ref import PrevTensorRef
from returnn.tf.frontend_layers.recording import as_recorded
from returnn.util.errors import UserError
from returnn.util.not_specified import NotSpecified

__all__ = ["Loop", "LoopModule"]


class Loop:
    """A loop. See the head of this module."""

    def __init__(
        self,
        *,
        max_seq_len: Tensor[Any] | int | type[NotSpecified] | None = NotSpecified,
        optimize_move_layers_out: bool | type[NotSpecified] = NotSpecified,
        unroll: bool | type[NotSpecified] = NotSpecified,
        axis: Dim | type[NotSpecified] = NotSpecified,
        debug: bool | type[NotSpecified] = NotSpecified,
        name: str = "loop",
    ) -> None:
        """
        :param max_seq_len: at most so many frames, if `end` decides
        :param optimize_move_layers_out: whether layers are computed outside of the loop where possible
        :param unroll: no loop in the graph, but frame after frame
        :param axis: the frames; default: those of what is unstacked, or a new dim
        :param debug: print each step
        :param name: of the layer
        """
        super().__init__()
        options = {"optimize_move_layers_out": optimize_move_layers_out, "unroll": unroll, "debug": debug}
        self.extra_opts: dict[str, Any] = {key: x for key, x in options.items() if x is not NotSpecified}
        self._has_given_axis = axis is not NotSpecified
        self.axis: Dim = axis if isinstance(axis, Dim) else Dim(None, name=f"{name}-dim", kind=Dim.Types.Spatial)
        outer = Layer.inner_control_flow()
        self.control_flow_ctx = ControlFlowContext(kind=ControlFlowContext.Types.Loop, identifier=name, outer_ctx=outer)
        self.control_flow_ctx.loop_spatial_dim = self.axis
        self.layer_module = LoopModule(self)
        self.name_ctx = Layer(suggested_name=name, new_control_flow_ctx=self.control_flow_ctx)
        self.name_ctx.can_access_children = False
        self.name_ctx.extend_reserved_names({"output", "end"})
        self.outputs: list[Tensor[Any]] = []
        self.unstacked_refs: list[Tensor[Any]] = []
        self.end_ref: Tensor[Any] | None = None
        self._max_seq_len: Any = None if max_seq_len is NotSpecified else max_seq_len
        self._state = _LoopState(self)
        self._iter_idx: Tensor[Any] | None = None
        self._is_entered = False

    def __repr__(self) -> str:
        return f"<Loop {self.name_ctx.get_abs_name_repr()}>"

    def __enter__(self) -> Loop:
        if self._is_entered:
            raise UserError(f"{self}: can be entered only once.")
        self._is_entered = True
        self.name_ctx.__enter__()
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        try:
            if exc_type is None:
                self._complete()
        finally:
            self.name_ctx.__exit__(exc_type, exc_val, exc_tb)
        if exc_type is None:
            self.layer_module()

    def _complete(self) -> None:
        """Checks what was recorded, and makes the layer "output", which each loop has."""
        for name, entry in self._state.entries.items():
            if entry.value is None:
                raise UserError(f"{self}: the state {name!r} was not assigned in the loop.")
        if not self._has_given_axis and not self.unstacked_refs and self.end_ref is None:
            raise UserError(
                f"{self}: it is not known how many frames there are.\n  Give the axis, unstack something, or use end()."
            )
        if "output" not in self.name_ctx.children:
            values = [entry.value for entry in self._state.entries.values()] or [self.iter_idx]
            assert values[0] is not None
            self.name_ctx.make_default_output(values[0])

    @property
    def has_entered_scope(self) -> bool:
        """Whether the loop was entered."""
        return self._is_entered

    @property
    def max_seq_len(self) -> Tensor[Any] | int | None:
        """At most so many frames."""
        number: Tensor[Any] | int | None = self._max_seq_len
        return number

    @max_seq_len.setter
    def max_seq_len(self, value: Tensor[Any] | int | None) -> None:
        self._max_seq_len = value

    @property
    def state(self) -> Any:
        """The state: as attributes, each a tensor."""
        return self._state

    @state.setter
    def state(self, initial: _LoopState | State | dict[str, Any]) -> None:
        if initial is self._state:
            return
        for name, value in initial.items():
            setattr(self._state, name, value)

    @property
    def iter_idx(self) -> Tensor[Any]:
        """Number of the frame: int32 scalar."""
        if self._iter_idx is None:
            place = self.name_ctx.get_child(":i")
            place.virtual = True
            index: Tensor[Any] = Tensor(":i", dims=(), dtype="int32", sparse_dim=self.axis)
            place.set_tensor(index)
            self._iter_idx = index
        return self._iter_idx

    def unstack(self, source: Tensor[Any], *, name: str | None = None) -> Tensor[Any]:
        """
        :param source: {..., axis}, from outside
        :param name: of the layer
        :return: the frame of this step
        """
        self._check_inside("unstack")
        if not self._has_given_axis and not self.unstacked_refs:
            self._take_axis_of(source)
        if self.axis not in source.dims:
            raise UserError(f"{self}: unstack: {source} does not have the dim {self.axis} of the loop.")
        template = source.copy_template_excluding_axis(source.get_axis_from_description(self.axis))
        options = {"class": "rec_unstack", "from": as_recorded(source), "axis": self.axis}
        if not self._has_given_axis:
            options["declare_rec_time"] = True
        out = make_layer(options, name=self.name_ctx.get_new_child(name or "unstack"), predefined_out_data=template)
        self.unstacked_refs.append(out)
        return out

    def _take_axis_of(self, source: Tensor[Any]) -> None:
        if source.time_dim_axis is None:
            raise UserError(f"{self}: unstack: {source} has no time dim.\n  Give the axis of the loop.")
        self.axis = source.dims[source.time_dim_axis]
        self.control_flow_ctx.loop_spatial_dim = self.axis

    def stack(self, source: Tensor[Any], *, name: str | None = None) -> Tensor[Any]:
        """
        :param source: a frame
        :param name: of the layer
        :return: [axis, ...], the frames of all steps, outside of the loop
        """
        self._check_inside("stack")
        inner = self._kept(source, name or ("output" if "output" not in self.name_ctx.children else "stack"))
        around = self.name_ctx.parent
        assert around is not None
        place = around.get_child(f"{self.name_ctx.name}/{inner.name}")
        place.virtual = True
        place.layer_extra_dependencies = [self.name_ctx, inner]
        out = source.copy_template()._insert_dim(self.axis, 0)
        place.set_tensor(out)
        self.outputs.append(out)
        return out

    def _kept(self, source: Tensor[Any], name: str) -> Layer:
        """:return: layer in the loop, whose frames can be used outside"""
        options = {"class": "copy", "from": as_recorded(source), "is_output_layer": True}
        place = self.name_ctx._add_child(name) if name == "output" else self.name_ctx.get_new_child(name)
        out = make_layer(options, name=place, predefined_out_data=source)
        self.name_ctx.marked_outputs.append(out)
        return place

    def last(self, source: Tensor[Any], *, name: str | None = None) -> Tensor[Any]:
        """
        :param source: a frame; an entry of the state is the initial value for sequences without frames
        :param name: of the layer
        :return: the frame of the last step of each sequence, outside of the loop
        """
        layer: Layer = source.raw_tensor
        if layer.parent is not self.name_ctx or layer.layer_dict is None:
            layer = self._kept(source, name or "last")
        options = layer.layer_dict
        assert options is not None
        options.update({"need_last": True, "is_output_layer": True})
        self.name_ctx.marked_outputs.append(source if layer.tensor is None else layer.tensor)
        around = self.name_ctx.parent
        assert around is not None
        with around:
            template = source.copy_template()
            reader = {"class": "rec_last_output", "rec_layer": self.name_ctx, "sub_layer_name": layer.name}
            place = around.get_new_child(name or f"{layer.name}_last")
            out = make_layer(reader, name=place, predefined_out_data=template)
            if self.end_ref is None and self.axis.size is None:  # otherwise there is at least one frame
                initial = self._state.initial_of(layer)
                initial = zeros_like(template) if initial is None else initial
                has_frames = compare_bc(self.axis.get_size_tensor(), ">", 0)
                out = where(has_frames, out, initial, allow_broadcast_all_sources=True)
        return out

    def end(self, source: Tensor[Any], *, include_eos: bool) -> Tensor[Any]:
        """
        :param source: bool: whether this is the end
        :param include_eos: whether this frame is part of the sequence
        :return: the same
        """
        self._check_inside("end")
        if self.end_ref is not None:
            raise UserError(f"{self}: end() was called already.")
        self.extra_opts["include_eos"] = include_eos
        place = self.name_ctx._add_child("end")
        self.end_ref = make_layer({"class": "copy", "from": source}, name=place, predefined_out_data=source)
        self.name_ctx.marked_outputs.append(self.end_ref)
        return self.end_ref

    def _check_inside(self, what: str) -> None:
        if self.name_ctx not in Layer.stack:
            raise UserError(f"{self}: {what}() is only possible inside of the loop: `with loop:`.")

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"class": "rec", "from": [], "unit": self.name_ctx.make_net(), "axis": self.axis}
        options.update(self.extra_opts)
        if isinstance(self._max_seq_len, Tensor):
            options["max_seq_len_via"] = self._max_seq_len
        elif self._max_seq_len is not None:
            options["max_seq_len"] = self._max_seq_len
        return options


class LoopModule(Module):
    """Makes the layer of a loop."""

    def __init__(self, loop: Loop) -> None:
        """:param loop: the loop"""
        super().__init__()
        self.loop = loop

    def __call__(self) -> Tensor[Any]:
        """:return: output of the layer"""
        loop = self.loop
        inner = loop.name_ctx.children["output"].tensor
        assert inner is not None
        out = inner.copy_template()._insert_dim(loop.axis, 0)
        loop.name_ctx.layer_dict = loop._options()
        loop.name_ctx.set_tensor(out)
        over = None if loop.end_ref is None else loop.end_ref.dims
        set_lengths_by_layer(out, [loop.axis], over=over)
        return out


class _Entry:
    """An entry of the state."""

    def __init__(self, loop: Loop, name: str, initial: Any) -> None:
        around = loop.name_ctx
        self.initial = as_recorded(initial)
        self.place = around.get_new_child(f"state_{name}" if name in around._reserved_names else name)
        self.before = PrevTensorRef.get_prev_ref(cur_layer_name_ctx=self.place, initial=self.initial)
        self.value: Tensor[Any] | None = None

    def assign(self, value: Tensor[Any]) -> None:
        if self.value is not None:
            raise UserError(f"the state {self.place.get_abs_name()!r} was assigned already.")
        options = {"class": "copy", "from": as_recorded(value), "initial_output": self.initial}
        self.value = make_layer(options, name=self.place, predefined_out_data=value.copy_template())


class _LoopState:
    """The state of a loop, by attributes."""

    def __init__(self, loop: Loop) -> None:
        self.__dict__.update(loop=loop, entries={})

    def __getattr__(self, name: str) -> Any:
        if name not in self.entries:
            raise AttributeError(f"{self.loop}: there is no state {name!r}.")
        entry = self.entries[name]
        return entry.before if entry.value is None else entry.value

    def __setattr__(self, name: str, value: Any) -> None:
        if self.loop.name_ctx in Layer.stack:
            if name not in self.entries:
                raise UserError(f"{self.loop}: the state {name!r} has no initial value. Set it before the loop.")
            self.entries[name].assign(value)
        else:
            self.entries[name] = _Entry(self.loop, name, value)

    def initial_of(self, layer: Layer) -> Tensor[Any] | None:
        """:return: initial value of the entry which this layer is"""
        return next((entry.initial for entry in self.entries.values() if entry.place is layer), None)
