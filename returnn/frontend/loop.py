"""Loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from returnn.frontend._backend import Backend, get_backend_of
from returnn.frontend._ops.control_flow.conditions import check_condition
from returnn.frontend._ops.control_flow.slots import number_as_tensor
from returnn.frontend._ops.control_flow.structure import leaves_by_path, map_leaves
from returnn.frontend._ops.operands import fail
from returnn.frontend._reduce import reduce_any
from returnn.frontend.array_ import cast, where
from returnn.frontend.cond import cond as cond_
from returnn.frontend.const import full, zeros
from returnn.frontend.math_ import compare_bc
from returnn.frontend.state import State
from returnn.frontend.tensor_array import TensorArray
from returnn.tensor import Dim, Tensor

S = TypeVar("S")


def while_loop(cond: Callable[[S], bool | Tensor], body: Callable[[S], S], initial: S) -> S:
    """
    As long as the condition is true, the body makes a new state from the last one.

    The state is a nested structure (dicts, lists, tuples, states) of tensors, tensor arrays and dims. Its tensors and
    dims can change their lengths from round to round; of a dim in the state, the tensors which have it change with it.
    Numbers become tensors.
    A graph has one body for all rounds, so there, the structure, dtypes and the number of dims are the same in all.

    :param cond: state -> bool, or bool scalar
    :param body: state -> next state
    :param initial: state
    :return: the last state
    :raises DimError: if the condition is no scalar, or the dims keep changing in new ways
    :raises UserError: if the structure changes
    """
    backend = _backend_for(initial)
    state: S = _while(backend, cond, body, _with_tensors(initial, backend))
    return state


def _while(
    backend: Any,
    cond: Callable[[Any], bool | Tensor],
    body: Callable[[Any], Any],
    initial: Any,
    *,
    frames: Dim | None = None,
) -> Any:
    """:param frames: the condition is true for all frames of this dim; None: nothing is known about it"""
    if backend.name == "template" or not backend.executing_eagerly():
        return backend.loop_over_frames(cond, body, initial, frames=frames)
    state = initial
    while True:
        condition = cond(state)
        check_condition(condition)
        if isinstance(condition, Tensor):
            condition_backend = get_backend_of(condition)
            if condition_backend.name == "template" or not condition_backend.executing_eagerly():
                return condition_backend.while_loop(cond, body, state)
            condition = bool(condition.raw_tensor)
        if not condition:
            return state
        state = body(state)


def scan(
    *,
    spatial_dim: Dim | None = None,
    cond_dims: Sequence[Dim] | None = None,
    cond_before_body: bool = True,
    initial: Any = None,
    xs: Any = None,
    ys: Any = None,
    cond: Callable[[Any, Any], Tensor | bool] | None = None,
    body: Callable[[Any, Any], tuple[Any, Any]],
    max_seq_len: int | Tensor | None = None,
    return_tensor_arrays: bool = False,
) -> tuple[Any, Any, Dim]:
    """
    A loop that reads a frame in each round, and makes one, with a state that goes from round to round.

    Sequences can have different lengths. The loop goes on until the last one has ended. The state of a sequence (those
    tensors in it which have the dims of the lengths, and do not change their own) stays what it was at its end.

    :param spatial_dim: the frames. Needed with `xs`, or without `cond`. Otherwise, it gets its lengths here
    :param cond_dims: the dims of what `cond` returns: each sequence has an end of its own. Default: none
    :param cond_before_body: the frame for which `cond` is not true any more does not belong to the sequence.
        Otherwise it is its last one, and `cond` is called with the state after the body
    :param initial: state before the first frame: nested structure, as in `while_loop`
    :param xs: nested structure of tensors with `spatial_dim`
    :param ys: templates of the frames that are made; found by a run of the body on templates, if not given
    :param cond: (frame of xs, state) -> bool, whether to go on
    :param body: (frame of xs, state) -> (frame of ys, next state)
    :param max_seq_len: at most that many frames: number, or tensor with dims among `cond_dims`
    :param return_tensor_arrays: the frames as `TensorArray`, not as tensors
    :return: frames of ys, nested structure, as tensors with a dim over the frames; last state; that dim. This is
        `spatial_dim`; but a new one with `xs` and `cond`, where sequences can end before xs does
    :raises DimError: if it is not known where the sequences end
    """
    inputs = {path: x for path, x in leaves_by_path(xs).items() if isinstance(x, Tensor)}
    _check_scan(spatial_dim, inputs, cond)
    backend = _backend_for([initial, inputs])
    initial = _with_tensors(initial, backend)
    arrays = map_leaves(lambda _, x: _unstacked(x, spatial_dim) if isinstance(x, Tensor) else x, xs)
    has_known_end = bool(inputs) or cond is None
    end = _End(backend, spatial_dim if has_known_end else None, tuple(cond_dims or ()), max_seq_len)
    if ys is None and not end.is_eager:
        with backend.dry_run_scope():
            ys, _ = _templates_of_body(body, arrays, initial)
    loop = _Scan(end, arrays, cond, body, cond_before_body)
    known_frames = spatial_dim if cond is None and max_seq_len is None else None
    last = _while(backend, loop.goes_on, loop.run_frame, loop.initial(initial, ys), frames=known_frames)
    frames, state = last.ys, last.state
    if end.is_eager and last.i == 0:  # the body has never run
        y, after = _templates_of_body(body, arrays, initial)
        frames = map_leaves(lambda _, x: _array_for(x), y) if frames is None else frames
        state = _with_dims_of(after, state)
    if spatial_dim is None or (cond is not None and inputs):
        spatial_dim = Dim(None, name="scan", kind=Dim.Types.Spatial)
    if cond is not None:
        spatial_dim.dyn_size_ext = last.lengths if isinstance(last.lengths, Tensor) else _scalar(backend, last.lengths)
    if not return_tensor_arrays:
        frames = map_leaves(lambda _, x: x.stack(axis=spatial_dim) if isinstance(x, TensorArray) else x, frames)
    return frames, state, spatial_dim


@dataclass(frozen=True)
class _End:
    """Where the sequences end, apart from what `cond` says."""

    backend: type[Backend[Any]]
    dim: Dim | None  # has the lengths, if they are known
    cond_dims: tuple[Dim, ...]
    max_seq_len: int | Tensor | None

    @property
    def is_eager(self) -> bool:
        """Whether rounds are computed at once."""
        return self.backend.executing_eagerly() and self.backend.name != "template"

    def is_before_end(self, i: int | Tensor) -> bool | Tensor:
        """:return: whether any sequence has a frame i"""
        conditions: list[bool | Tensor] = []
        if self.dim is not None:
            size = self.dim.get_dim_value() if self.is_eager else self.dim.get_dim_value_tensor()
            conditions.append(i < size)
        if self.max_seq_len is not None:
            limit = self.max_seq_len
            within = compare_bc(i, "<", limit) if isinstance(limit, Tensor) else i < limit
            conditions.append(any_of(within))
        return all_of(conditions)

    def mask(self, i: int | Tensor) -> bool | Tensor:
        """:return: for each sequence, whether it has a frame i"""
        masks = []
        if self.dim is not None and self.dim.is_dynamic_seq_length() and self.dim.dyn_size_ext is not None:
            masks.append(compare_bc(i, "<", self.dim.get_size_tensor()))
        if isinstance(self.max_seq_len, Tensor) and self.max_seq_len.dims:
            masks.append(compare_bc(i, "<", self.max_seq_len))
        return all_of(masks)


@dataclass(frozen=True)
class _Scan:
    """The state of the loop is State(i, running, lengths, state, ys)."""

    end: _End
    xs: Any
    cond: Callable[[Any, Any], Tensor | bool] | None
    body: Callable[[Any, Any], tuple[Any, Any]]
    cond_before_body: bool

    def initial(self, state: Any, ys: Any) -> State:
        """:return: the state before the first frame"""
        dims, backend = self.end.cond_dims, self.end.backend
        is_template = backend.name == "template"
        loop = State(i=Tensor("i", dims=(), dtype="int32") if is_template else 0, state=state)
        if self.cond is not None:
            loop.running = full(dims=dims, fill_value=True, dtype="bool") if dims else True
            loop.lengths = zeros(dims, dtype="int32") if dims else 0
        loop.ys = None if ys is None else map_leaves(lambda _, x: _array_for(x), ys)
        return loop

    def goes_on(self, loop: State) -> bool | Tensor:
        """:return: whether there is another frame"""
        before_end = self.end.is_before_end(loop.i)
        if self.cond is None:
            return before_end
        if before_end is True or self.xs is None or not self.cond_before_body:
            return all_of([before_end, any_of(self._has_frame(loop))])
        return cond_(before_end, lambda: any_of(self._has_frame(loop)), lambda: before_end)

    def run_frame(self, loop: State) -> State:
        """:return: the state after a frame"""
        frame = _frame(self.xs, loop.i)
        belongs = self._has_frame(loop)
        y, state = self.body(frame, loop.state)
        new = State(loop)
        new.i = loop.i + 1
        new.state = _frozen(state, loop.state, belongs)
        if self.cond is not None:
            new.lengths = _plus(loop.lengths, belongs)
            new.running = belongs if self.cond_before_body else all_of([belongs, self.cond(frame, state)])
        new.ys = _pushed(loop.ys, y)
        return new

    def _has_frame(self, loop: State) -> bool | Tensor:
        """:return: for each sequence, whether it has the next frame"""
        conditions = [loop.get("running", True), self.end.mask(loop.i)]
        if self.cond is not None and self.cond_before_body:
            conditions.append(self.cond(_frame(self.xs, loop.i), loop.state))
        return all_of(conditions)


def _check_scan(spatial_dim: Dim | None, xs: dict[str, Tensor], cond: Any) -> None:
    if xs and spatial_dim is None:
        raise fail("scan: with xs, the spatial_dim is needed.")
    if cond is not None and not xs and spatial_dim is not None and spatial_dim.size is not None:
        raise fail(f"scan: the condition says where sequences end, so {spatial_dim} cannot have a fixed size.")
    for path, x in xs.items():
        if spatial_dim not in x.dims:
            raise fail(f"scan: xs {path.lstrip('.')!r}: {x} does not have the dim {spatial_dim}.")
    if cond is None and (spatial_dim is None or not spatial_dim.is_dim_known()):
        raise fail(
            "scan: it is not known where the sequences end.",
            "Give a spatial_dim with lengths, or a condition `cond`; max_seq_len alone is only a limit.",
        )


def _templates_of_body(body: Callable[[Any, Any], tuple[Any, Any]], arrays: Any, initial: Any) -> tuple[Any, Any]:
    """:return: what the body makes, as templates: frame, next state"""

    def template(_: str, x: Any) -> Any:
        return x.copy_template() if isinstance(x, Tensor) else x

    frame = map_leaves(lambda _, x: x.tensor_template.copy_template() if isinstance(x, TensorArray) else x, arrays)
    y, state = body(frame, map_leaves(template, initial))
    return map_leaves(template, y), map_leaves(template, state)


def _with_dims_of(templates: Any, state: Any) -> Any:
    """:return: the state, where values are repeated along dims which only the body adds"""
    known = leaves_by_path(templates)

    def expand(path: str, x: Any) -> Any:
        like = known.get(path)
        if not isinstance(x, Tensor) or not isinstance(like, Tensor) or not set(x.dims) <= set(like.dims):
            return x
        return x.copy_compatible_to_dims(like.dims, unbroadcast=True)

    return map_leaves(expand, state)


def _unstacked(x: Tensor, dim: Dim | None) -> TensorArray:
    """:return: the frames; those beyond the end of a sequence are 0, so that they cannot spoil a gradient"""
    assert dim is not None
    if x.dtype != "string":
        x = x.copy_masked(False if x.dtype == "bool" else 0, dims=[dim])
    return TensorArray.unstack(x, axis=dim)


def _frame(xs: Any, i: int | Tensor) -> Any:
    return map_leaves(lambda _, x: x[i] if isinstance(x, TensorArray) else x, xs)


def _array_for(template: Any) -> Any:
    return TensorArray(template) if isinstance(template, Tensor) else template


def _pushed(arrays: Any, y: Any) -> Any:
    """:return: the arrays with one more frame; if there are none yet, those with the first one"""
    frames = leaves_by_path(y)
    known = leaves_by_path(arrays) if arrays is not None else {}

    def push(path: str, x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        array = known.get(path)
        return (array if array is not None else TensorArray(x)).push_back(frames[path])

    return map_leaves(push, y)


def _frozen(new: Any, old: Any, belongs: bool | Tensor) -> Any:
    """:return: the new state; of sequences which have ended, the old one"""
    if not isinstance(belongs, Tensor) or not belongs.dims:
        return new
    before = leaves_by_path(old)

    def choose(path: str, x: Any) -> Any:
        other = before.get(path)
        if not isinstance(x, Tensor) or not isinstance(other, Tensor):
            return x
        is_alike = set(x.dims) == set(other.dims) and all(dim in x.dims for dim in belongs.dims)
        return where(belongs, x, other) if is_alike else x

    return map_leaves(choose, new)


def any_of(condition: bool | Tensor) -> bool | Tensor:
    """:return: whether it is true anywhere"""
    return reduce_any(condition, axis=condition.dims) if isinstance(condition, Tensor) and condition.dims else condition


def all_of(conditions: Sequence[bool | Tensor]) -> bool | Tensor:
    """:return: whether all are true"""
    if any(condition is False for condition in conditions):
        return False
    tensors = [condition for condition in conditions if isinstance(condition, Tensor)]
    result: bool | Tensor = True
    for tensor in tensors:
        result = tensor if isinstance(result, bool) else _and(result, tensor)
    return result


def _and(a: Tensor, b: Tensor) -> Tensor:
    backend = get_backend_of(a, b)
    return backend.combine(a, "logical_and", b, allow_broadcast_all_sources=True)


def _plus(lengths: int | Tensor, belongs: bool | Tensor) -> int | Tensor:
    return lengths + (cast(belongs, "int32") if isinstance(belongs, Tensor) else int(belongs))


def _with_tensors(state: Any, backend: type[Backend[Any]]) -> Any:
    return map_leaves(lambda _, x: number_as_tensor(x, backend), state)


def _scalar(backend: type[Backend[Any]], value: int) -> Tensor:
    return backend.convert_to_tensor(value, dims=(), dtype="int32")


def _backend_for(value: Any) -> type[Backend[Any]]:
    """:return: the backend of the tensors and arrays in there; if there are none, the selected one"""
    leaves = leaves_by_path(value).values()
    arrays = [x for x in leaves if isinstance(x, TensorArray)]
    for array in arrays:
        if array.backend.name == "template":
            return array.backend
    tensors = [x for x in leaves if isinstance(x, Tensor)]
    return get_backend_of(*tensors) if tensors or not arrays else arrays[0].backend


__all__ = ["scan", "while_loop"]
