"""
Plans: what an operation on operands of given layouts comes down to.

Which dims come out, in which order, and how operands are broadcast depends on the dims, dtypes and roles of the
operands alone. The rules for that (`_ops.elementwise`) take several times as long as a small tensor takes to compute.
So what they have found out is kept: the attributes of the result, and views and function for the raw tensors. The next
operation on operands of these layouts goes by that.

A layout is known by the very tuple of dims, which results of plans share. Tensors that come from elsewhere get the
shared tuple of the same dims when an operation sees them first. When dims are declared to be the same, nothing of what
was found out may hold, so all is forgotten; likewise when there is much, as it keeps dims alive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from returnn.tensor import Dim, Tensor
from returnn.tensor.dim_base import DimBase
from returnn.tensor.tensor_base import share_dims, tensor_like

_MAX_PLANS = 512

Function = Callable[..., torch.Tensor]


@dataclass(frozen=True, slots=True)
class Plan:
    """Of an operation on operands of certain layouts."""

    attributes: dict[str, Any]  # of the result, where they are not those of the main operand
    main: int  # which operand that is
    function: Function  # of raw operands
    views: tuple[Function | None, ...] = ()  # of raw operands, before; None: as they are
    kept: Any = None  # what the key has the id of, beside the dims of operands

    def of_one(self, x: Tensor) -> Tensor:
        """:return: result for one operand"""
        return tensor_like(x, self.attributes, self.function(x._raw_tensor))

    def of_two(self, a: Any, b: Any) -> Tensor:
        """:return: result for two operands, one of which can be a number"""
        raw_a = a._raw_tensor if isinstance(a, Tensor) else a
        raw_b = b._raw_tensor if isinstance(b, Tensor) else b
        view_a, view_b = self.views
        if view_a is not None:
            raw_a = view_a(raw_a)
        if view_b is not None:
            raw_b = view_b(raw_b)
        return tensor_like(b if self.main else a, self.attributes, self.function(raw_a, raw_b))

    def of_all(self, *operands: Any) -> Tensor:
        """:return: result for any number of operands"""
        raws = [x._raw_tensor if isinstance(x, Tensor) else x for x in operands]
        raws = [raw if view is None else view(raw) for raw, view in zip(raws, self.views, strict=True)]
        return tensor_like(operands[self.main], self.attributes, self.function(*raws))


class Plans:
    """All plans that are known."""

    def __init__(self) -> None:
        self.are_used = True
        self._known: dict[Any, Plan] = {}
        self._dims: dict[tuple[int, ...], tuple[Dim, ...]] = {}
        self._sparse_dims: dict[int, Dim] = {}  # in keys, by id; kept alive, so that no other dim gets the id
        self._num_declared = DimBase._num_declared

    def __len__(self) -> int:
        return len(self._known)

    def find(self, operation: Any, *operands: Any) -> Plan | None:
        """
        :param operation: which one, with all that the plan depends on beside the operands
        :param operands: tensors or numbers
        :return: plan, if there is one
        """
        if self._num_declared != DimBase._num_declared:
            self._forget()
        plan = self._known.get((operation, *map(_layout, operands)))
        if plan is None and self._share_dims(operands):
            plan = self._known.get((operation, *map(_layout, operands)))
        return plan if self.are_used else None

    def add(self, operation: Any, operands: Sequence[Any], plan: Plan) -> None:
        """
        Keeps a plan for operands like these, if there can be one.

        :param operation: see `find`
        :param operands: see `find`
        """
        if not self.are_used or not all(map(_can_be_planned, operands)):
            return
        if len(self._known) >= _MAX_PLANS or len(self._dims) >= _MAX_PLANS:
            self._forget()
        self._share_dims(operands)
        plan.attributes["_dims"] = self._dims.setdefault(_ids(plan.attributes["_dims"]), plan.attributes["_dims"])
        for x in operands:
            if isinstance(x, Tensor) and x.sparse_dim is not None:
                self._sparse_dims[id(x.sparse_dim)] = x.sparse_dim
        self._known[(operation, *map(_layout, operands))] = plan

    def _share_dims(self, operands: Sequence[Any]) -> bool:
        """
        From now on, tensors with the very same dims have the same tuple of them.

        :return: whether one of these operands had another one
        """
        changed = False
        for x in operands:
            if isinstance(x, Tensor):
                known = self._dims.setdefault(_ids(x._dims), x._dims)
                if known is not x._dims:
                    share_dims(x, known)
                    changed = True
        return changed

    def _forget(self) -> None:
        self._known.clear()
        self._dims.clear()
        self._sparse_dims.clear()
        self._num_declared = DimBase._num_declared


plans = Plans()


def elementwise_plan(operands: Sequence[Any], out: Tensor, function: Function) -> Plan | None:
    """
    :param operands: tensors or numbers
    :param out: what was computed of them
    :param function: of raw tensors, which does this
    :return: plan for operands of these layouts; None if a number beside integers has to be looked at each time
    """
    tensors = [x for x in operands if isinstance(x, Tensor)]
    has_number = len(tensors) < len(operands)
    if has_number and not all(x.dtype.startswith(("float", "bfloat")) or x.dtype == "bool" for x in tensors):
        return None
    main = max(tensors, key=lambda x: len(x._dims))  # the first one of these
    views = tuple(_view(x, out._dims) if isinstance(x, Tensor) else None for x in operands)
    return Plan(attributes_of(out), next(i for i, x in enumerate(operands) if x is main), function, views)


def attributes_of(out: Tensor) -> dict[str, Any]:
    """:return: what an operation decides about its result"""
    names = ("name", "dtype", "sparse_dim", "_dims", "_feature_dim_axis", "_time_dim_axis")
    return {name: getattr(out, name) for name in names}


def is_planned_axis(axis: Any) -> bool:
    """:return: whether it is one dim without frames that would have to be masked"""
    return isinstance(axis, Dim) and axis.size is not None and axis.capacity is None


def _layout(x: Any) -> Any:
    """:return: what plans depend on"""
    if isinstance(x, Tensor):
        kind = type(x._raw_tensor)
        return id(x._dims), x.dtype, id(x.sparse_dim), x._feature_dim_axis, x._time_dim_axis, x.version, kind
    return type(x)


def _can_be_planned(x: Any) -> bool:
    return isinstance(x._raw_tensor, torch.Tensor) if isinstance(x, Tensor) else type(x) in (float, int)


def _ids(dims: tuple[Dim, ...]) -> tuple[int, ...]:
    return tuple(map(id, dims))


def _view(x: Tensor, dims: tuple[Dim, ...]) -> Function | None:
    """:return: makes of the raw tensor one that broadcasts to these dims, see `raw_for_broadcast`"""
    own = x._dims
    if not own or own == dims[len(dims) - len(own) :]:
        return None
    order = x.get_out_permutation_to_dims(dims)
    perm = tuple(i for i in order if i >= 0)
    is_in_order = perm == tuple(sorted(perm))
    first = next(i for i, axis in enumerate(order) if axis >= 0)
    new_axes = [i for i, axis in enumerate(order[first:]) if axis < 0]

    def view(raw: torch.Tensor) -> torch.Tensor:
        if not is_in_order:
            raw = raw.permute(perm)
        for axis in new_axes:
            raw = raw.unsqueeze(axis)
        return raw

    return view
