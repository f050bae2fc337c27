"""Loops, conditions, and arrays of tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from returnn.frontend._ops.control_flow.conditions import check_condition
from returnn.frontend._ops.control_flow.loop_state import MAX_ROUNDS, LoopState
from returnn.frontend._ops.operands import fail
from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_layers.cond import Cond
from returnn.tf.frontend_layers.layer import Layer
from returnn.tf.frontend_layers.loop import Loop
from returnn.tf.frontend_layers.ops.axes import AxesLayers
from returnn.tf.frontend_layers.ops.elementwise import ElementwiseLayers
from returnn.tf.frontend_layers.recording import as_recorded, record_expression


@dataclass(frozen=True)
class RecordedArray:
    """
    An array of tensors: the frames of a tensor, or single elements behind each other.

    Inside of a loop, an array of its state is `in_loop`, with what was added to it in this frame.
    """

    elements: tuple[Tensor[Any], ...] = ()
    frames: Tensor[Any] | None = None
    axis: Dim | None = None
    in_loop: bool = False

    def __bool__(self) -> bool:
        return bool(self.elements) or self.frames is not None or self.in_loop


class ControlFlowLayers:
    """For their meaning see `returnn.frontend._backends.required`."""

    TensorArrayType = RecordedArray

    @classmethod
    def cond(cls, pred: Tensor[Any], true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
        """:return: by a layer of class "cond" """
        branches: Cond[Any] = Cond(as_recorded(pred))
        with branches:
            branches.true = true_fn()
            branches.false = false_fn()
        return branches.result

    @classmethod
    def while_loop(cls, cond: Callable[[Any], Any], body: Callable[[Any], Any], initial: Any) -> Any:
        """:return: by a layer of class "rec", whose layer "end" asks the condition"""
        return cls.loop_over_frames(cond, body, initial, frames=None)

    @classmethod
    def loop_over_frames(
        cls, cond: Callable[[Any], Any], body: Callable[[Any], Any], initial: Any, *, frames: Dim | None
    ) -> Any:
        """
        :param cond: see `while_loop`
        :param body: see `while_loop`
        :param initial: state
        :param frames: the condition is true for all frames of this dim; None: nothing is known about it
        :return: the last state
        """
        state = LoopState("while_loop", initial, cls)
        for _ in range(MAX_ROUNDS):
            around = Layer.current_ctx(ignore_top_stack_frames=1)
            with around:
                result = _record_loop(state, cond, body, frames)
            if result is not None:
                return result
            if any(isinstance(key, Dim) for key in state.slots):
                changing = [str(key) for key in state.slots if isinstance(key, Dim)]
                raise fail(
                    "while_loop: the backend 'returnn_layers_tf' cannot change the lengths of dims from step to step.",
                    f"These change: {', '.join(changing)}. Collect frames in a TensorArray, or by rf.scan.",
                )
        raise fail("while_loop: the dims of the state keep changing.", f"Last: {state.templates()}.")

    @classmethod
    def dry_run_scope(cls) -> Any:
        """:return: context: layers made inside go to a place that is left out"""
        place = Layer.top().root.get_new_child("dry_run")
        place.is_subnet = True
        return place

    # Arrays.

    @classmethod
    def tensor_array_create(cls) -> RecordedArray:
        """:return: array without elements"""
        return RecordedArray()

    @classmethod
    def tensor_array_unstack(cls, tensor: Tensor[Any], *, axis: Dim) -> RecordedArray:
        """:return: array of the frames along the axis"""
        return RecordedArray(frames=as_recorded(tensor), axis=axis)

    @classmethod
    def tensor_array_push_back(cls, tensor_array: RecordedArray, value: Tensor[Any]) -> RecordedArray:
        """:return: array with one more element"""
        if tensor_array.frames is not None:
            raise fail(f"TensorArray.push_back: the frames of {tensor_array.frames} cannot get another one here.")
        if tensor_array.in_loop and tensor_array.elements:
            raise fail("TensorArray.push_back: in a loop, an array gets one element in each frame.")
        return RecordedArray((*tensor_array.elements, as_recorded(value)), in_loop=tensor_array.in_loop)

    @classmethod
    def tensor_array_get_item(cls, tensor_array: RecordedArray, index: int | Tensor[Any]) -> Tensor[Any]:
        """:return: by a layer of class "gather" """
        if tensor_array.frames is not None and tensor_array.axis is not None:
            return AxesLayers.gather(tensor_array.frames, indices=index, axis=tensor_array.axis)
        if tensor_array.in_loop or not isinstance(index, int):
            raise fail("TensorArray: in a net dict, elements that were added can only be asked for by a number.")
        return tensor_array.elements[index]

    @classmethod
    def tensor_array_stack(cls, tensor_array: RecordedArray, *, axis: Dim, tensor_template: Tensor[Any]) -> Tensor[Any]:
        """:return: [axis, ...]"""
        frames = tensor_array.frames
        if frames is None:
            return AxesLayers.stack(tensor_array.elements, out_dim=axis)
        assert tensor_array.axis is not None
        if tensor_array.axis == axis:
            return frames
        # There can be more frames in memory than the lengths say, as a loop has at least one.
        out: Tensor[Any] = record_expression("slice", frames, axis=tensor_array.axis, start=0, end=axis, out_dim=axis)
        return out

    @classmethod
    def tensor_array_length(cls, tensor_array: RecordedArray) -> Any:
        """:return: number of elements"""
        if tensor_array.axis is not None:
            return tensor_array.axis.get_dim_value_tensor()
        return len(tensor_array.elements)


def _record_loop(state: LoopState, cond: Callable[[Any], Any], body: Callable[[Any], Any], frames: Dim | None) -> Any:
    """:return: the last state; None if the templates of the state have changed"""
    loop = Loop() if frames is None else Loop(axis=frames)
    slots = dict(state.slots)
    names = {key: _name_of(key, i) for i, key in enumerate(slots)}
    for key, x in state.initial_tensors().items():
        setattr(loop.state, names[key], x)
    for array in state.initial_arrays().values():
        if array.get_backend_array(RecordedArray):
            raise fail("while_loop: in a net dict, an array in the state has to be empty before the loop.")
    arrays = {key: RecordedArray(in_loop=True) for key, slot in slots.items() if slot.is_array}
    before = {key: getattr(loop.state, names[key]).raw_tensor for key, slot in slots.items() if not slot.is_array}
    stacked: dict[Any, RecordedArray] = {}
    with loop:
        running = None if frames is not None else _condition(cond, state.with_values(before, arrays))
        after = state.after_body(body(state.with_values(before, arrays)))
        if after is None:
            assert loop.name_ctx.parent is not None
            del loop.name_ctx.parent.children[loop.name_ctx.name or ""]
            loop._complete = lambda: None  # type: ignore[method-assign]
            loop.layer_module = lambda: None  # type: ignore[assignment]
            return None
        tensors, new_arrays = after
        for key, x in tensors.items():
            new = x
            if running is not None:
                new = ElementwiseLayers.where(running, x, slots[key].filled(before[key]))
            setattr(loop.state, names[key], new)
        if running is not None:
            now = {key: getattr(loop.state, names[key]).raw_tensor for key in tensors}
            goes_on = _condition(cond, state.with_values(now, {key: x._array for key, x in new_arrays.items()}))
            loop.end(ElementwiseLayers.activation(goes_on, "logical_not"), include_eos=True)
        for key, array in new_arrays.items():
            (element,) = array.get_backend_array(RecordedArray).elements or (None,)
            if element is None:
                raise fail("while_loop: in a net dict, an array in the state has to get an element in each frame.")
            frame = slots[key].in_layout(
                element, {i: d for i, d in enumerate(slots[key].template.dims) if d in element.dims}
            )
            stacked[key] = RecordedArray(frames=loop.stack(frame), axis=loop.axis)
    last = {key: loop.last(getattr(loop.state, names[key])).raw_tensor for key in tensors}
    return state.with_values(last, stacked)


def _condition(cond: Callable[[Any], Any], value: Any) -> Tensor[Any]:
    result = cond(value)
    check_condition(result)
    return as_recorded(result)


def _name_of(key: Any, number: int) -> str:
    """:return: name of a state, as attribute"""
    text = "".join(char if char.isalnum() else "_" for char in str(key)).strip("_") if isinstance(key, str) else ""
    return text if text and not text[0].isdigit() else f"state{number}{text}"
