"""Plans for raw tensors of PyTorch, see `returnn.tensor.plans`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from returnn.native.library import is_wanted
from returnn.native.plan_table import load_plan_table
from returnn.tensor import Dim, Tensor
from returnn.tensor.plans import Function, Plan, attributes_of, plans
from returnn.tensor.tensor_base import TensorBase


def add_plan(operation: str, operands: Sequence[Any], make_plan: Callable[[], Plan | None]) -> None:
    """
    Keeps a plan, if there can be one for operands like these.

    :param operation: see `Plans.add`
    :param operands: see `Plans.add`
    :param make_plan: for them; None: there can be none
    """
    if plans.are_used and all(map(_can_be_planned, operands)):
        plan = make_plan()
        if plan is not None:
            plans.add(operation, operands, plan)


def elementwise_plan(operands: Sequence[Any], out: Tensor, function: Function, *, main: Tensor) -> Plan | None:
    """
    :param operands: tensors or numbers, which the function takes
    :param out: what was computed of them
    :param function: of raw tensors, which does this
    :param main: the operand that the result is like
    :return: plan for operands of these layouts; None if a number beside integers has to be looked at each time
    """
    tensors = [x for x in operands if isinstance(x, Tensor)]
    has_number = len(tensors) < len(operands)
    if has_number and not all(x.dtype.startswith(("float", "bfloat")) or x.dtype == "bool" for x in tensors):
        return None
    views = tuple(_view(x, out._dims) if isinstance(x, Tensor) else None for x in operands)
    return Plan(attributes_of(out), next(i for i, x in enumerate(operands) if x is main), function, views)


def main_operand(*operands: Any) -> Tensor:
    """:return: the first tensor of those with the most dims"""
    return max((x for x in operands if isinstance(x, Tensor)), key=lambda x: len(x._dims))


def is_planned_axis(axis: Any) -> bool:
    """:return: whether it is one dim without frames that would have to be masked"""
    return isinstance(axis, Dim) and axis.size is not None and axis.capacity is None


def use_compiled_table() -> None:
    """From now on, plans are in the table in C++, unless native code is turned off or cannot be compiled."""
    table = load_plan_table() if is_wanted() else None
    if table is not None:
        plans.use_table(table(TensorBase, Tensor))


def _can_be_planned(x: Any) -> bool:
    return isinstance(x._raw_tensor, torch.Tensor) if isinstance(x, Tensor) else isinstance(x, (float, int, Dim))


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
    if is_in_order and len(new_axes) == 1:
        return operator.methodcaller("unsqueeze", new_axes[0])

    def view(raw: torch.Tensor) -> torch.Tensor:
        if not is_in_order:
            raw = raw.permute(perm)
        for axis in new_axes:
            raw = raw.unsqueeze(axis)
        return raw

    return view
