"""
Conditions and loops in TensorFlow graphs.

A loop or condition is built as if everything looked the same before and after the body, or in both branches. That is
so most of the time. If it turns out not to be, what was built is thrown away, and it is built again with what is known
then (see `LoopState` and `Branches`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from returnn.frontend._ops.control_flow.branches import Branches
from returnn.frontend._ops.control_flow.conditions import check_condition
from returnn.frontend._ops.control_flow.loop_state import MAX_ROUNDS, LoopState
from returnn.frontend._ops.operands import fail
from returnn.frontend.control_flow_ctx import control_flow_ctx, get_current_control_flow_ctx
from returnn.frontend.tensor_array import TensorArray
from returnn.tensor import ControlFlowContext, Dim, Tensor
from returnn.tf.frontend_low_level import loop_counter, side_effects
from returnn.tf.frontend_low_level.tensor_array import TensorList, with_handle


class _Changed(Exception):
    """What is known about the state or the branches has changed."""


class ControlFlowTFOps:
    """For their meaning see `returnn.frontend._backends.required`."""

    @classmethod
    def assert_(cls, condition: Tensor, message: str, *, stop: bool = True) -> None:
        """Checks it whenever the graph runs."""
        raw = condition._raw_tensor
        if stop:
            side_effects.add_effect(tf.raw_ops.Assert(condition=raw, data=[message]))
            return

        def report() -> tf.Tensor:
            with tf.control_dependencies([tf.print(f"Assertion failed: {message}")]):
                return tf.constant(False)

        side_effects.add_effect(tf.cond(raw, lambda: tf.constant(True), report).op)

    @classmethod
    def dry_run_scope(cls) -> Any:
        """:return: context manager; operations made inside go to a graph that is thrown away"""
        return tf.__internal__.FuncGraph("dry_run").as_default()

    @classmethod
    def cond(cls, pred: Tensor, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
        """:return: what one of the functions returns. If the condition is a constant, only this one is called"""
        static = tf.get_static_value(pred._raw_tensor)
        if static is not None:
            return true_fn() if static else false_fn()
        branches = Branches("cond", cls)
        try:
            return _build_cond(branches, pred._raw_tensor, true_fn, false_fn)
        except _Changed:
            return _build_cond(branches, pred._raw_tensor, true_fn, false_fn)

    @classmethod
    def while_loop(cls, cond: Callable[[Any], Any], body: Callable[[Any], Any], initial: Any) -> Any:
        """:return: the last state"""
        state = LoopState("while_loop", initial, cls)
        for _ in range(MAX_ROUNDS):
            try:
                return _build_loop(state, cond, body)
            except _Changed:
                continue
        raise fail(
            "while_loop: the dims of the state keep changing from round to round.", f"Last: {state.templates()}."
        )


def _build_cond(branches: Branches, pred: tf.Tensor, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
    keys: list[Any] = []
    around = tf.compat.v1.get_default_graph()

    def run(function: Callable[[], Any], number: int) -> list[tf.Tensor]:
        loop_counter.set_loop_counter(None)
        with control_flow_ctx(_context(ControlFlowContext.Types.Cond)):
            result = function()
        if branches.num_added <= number:
            branches.add(result)
            for dim in branches.dims():
                _join_if_local(branches, dim, around)
            if number and list(branches.slots.items()) != keys:
                raise _Changed
        tensors, arrays = branches.tensors_of(result)
        keys[:] = [*branches.slots.items()]
        return region.tied(_raw_tensors(branches.slots, tensors, arrays) or [tf.constant(0)])

    with side_effects.ControlFlow() as region:
        raw = tf.nest.flatten(tf.cond(pred, lambda: run(true_fn, 0), lambda: run(false_fn, 1)))
    region.finish(raw[0].op)
    return branches.with_values(*_split(branches.slots, raw[: len(branches.slots)]))


def _build_loop(state: LoopState, cond: Callable[[Any], Any], body: Callable[[Any], Any]) -> Any:
    slots = dict(state.slots)
    ctx = _context(ControlFlowContext.Types.Loop)

    def state_of(counter: tf.Tensor, raw: Sequence[tf.Tensor]) -> Any:
        loop_counter.set_loop_counter(counter)
        return state.with_values(*_split(slots, raw))

    def raw_cond(counter: tf.Tensor, *raw: tf.Tensor) -> tf.Tensor:
        with control_flow_ctx(ctx):
            result = cond(state_of(counter, raw))
        check_condition(result)
        return result._raw_tensor if isinstance(result, Tensor) else tf.constant(bool(result))

    def raw_body(counter: tf.Tensor, *raw: tf.Tensor) -> list[tf.Tensor]:
        with control_flow_ctx(ctx):
            after = state.after_body(body(state_of(counter, raw)))
        if after is None:
            raise _Changed
        return region.tied([counter + 1, *_raw_tensors(slots, *after)])

    initial = _raw_tensors(slots, state.initial_tensors(), state.initial_arrays())
    shapes = [tf.TensorShape([] if slot.is_array else _static_shape(slot.template)) for slot in slots.values()]
    for raw, shape in zip(initial, shapes, strict=True):
        raw.set_shape(shape)
    with side_effects.ControlFlow() as region:
        final = tf.while_loop(
            raw_cond, raw_body, [tf.constant(0), *initial], shape_invariants=[tf.TensorShape([]), *shapes]
        )
    region.finish(final[0].op)
    return state.with_values(*_split(slots, final[1:]))


def _context(kind: str) -> ControlFlowContext:
    outer = get_current_control_flow_ctx()
    name = tf.compat.v1.get_default_graph().unique_name(kind, mark_as_used=False)
    return ControlFlowContext(kind=kind, identifier=name, outer_ctx=outer)


def _static_shape(template: Tensor) -> list[int | None]:
    return [dim.size if dim.capacity is None else dim.capacity for dim in template.dims]


def _raw_tensors(slots: dict[Any, Any], tensors: dict[Any, Tensor], arrays: dict[Any, TensorArray]) -> list[tf.Tensor]:
    """:return: what goes through the loop, or comes out of a branch, for each slot"""
    raw = []
    for key, slot in slots.items():
        if slot.is_array:
            array = arrays[key].get_backend_array(TensorList)
            raw.append(with_handle(array, slot.template).handle)
        else:
            raw.append(tf.convert_to_tensor(tensors[key]._raw_tensor))
    return raw


def _split(slots: dict[Any, Any], raw: Sequence[tf.Tensor]) -> tuple[dict[Any, tf.Tensor], dict[Any, TensorList]]:
    """:return: the raw tensors of tensors, and the arrays, by the keys of their slots"""
    tensors, arrays = {}, {}
    for (key, slot), value in zip(slots.items(), raw, strict=True):
        if slot.is_array:
            arrays[key] = TensorList(value, slot.template)
        else:
            value.set_shape(_static_shape(slot.template))
            tensors[key] = value
    return tensors, arrays


def _join_if_local(branches: Branches, dim: Dim, around: tf.Graph) -> None:
    """If the lengths of the dim are known in this branch alone, they are part of its result."""
    for atom in dim.expression.atoms() if dim.is_derived() else [dim.get_same_base()]:
        lengths = atom.dyn_size_ext
        if lengths is None or lengths._raw_tensor is None:
            continue
        with around.as_default():
            is_known_around = atom.dyn_size_ext is lengths
        if not is_known_around:
            branches.join_dim(dim if atom == dim else atom)
