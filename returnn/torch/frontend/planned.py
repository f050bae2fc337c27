"""Operations that most of the time goes to, which go by plans where the layouts of the operands are known (`plans`)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from returnn.frontend._ops.matmul import MatmulOps, matmul_axes
from returnn.frontend._ops.softmax import SoftmaxOps
from returnn.tensor import Dim, Tensor
from returnn.tensor.tensor_base import tensor_like
from returnn.torch.frontend.plans import Plan, attributes_of, elementwise_plan, is_planned_axis, plans
from returnn.torch.frontend.raw import COMBINE, COMPARE, activation_function

_INDEX_MODES = ("argmin", "argmax")


def _planned(name: str, functions: Mapping[str, Callable[..., Any]]) -> Any:
    """:return: the class method `combine` or `compare`, by a plan where there is one"""

    def operation(
        cls: type[PlannedTorchOps],
        a: Any,
        kind: str,
        b: Any,
        *,
        allow_broadcast_all_sources: bool | None = None,
        dim_order: Sequence[Dim] | None = None,
    ) -> Tensor:
        """See `returnn.frontend.combine`, `compare`."""
        key = kind, allow_broadcast_all_sources
        plan = plans.find(key, a, b) if dim_order is None else None
        if plan is not None:
            return plan.of_two(a, b)
        out: Tensor = getattr(super(PlannedTorchOps, cls), name)(
            a, kind, b, allow_broadcast_all_sources=allow_broadcast_all_sources, dim_order=dim_order
        )
        # PyTorch compares no number to a tensor, and divides integers in its own dtype.
        fits = isinstance(a, Tensor) or (name == "combine" and isinstance(b, Tensor))
        if dim_order is None and fits and not (kind == "truediv" and _has_int(a, b)):
            _add_elementwise(key, (a, b), out, functions[kind])
        return out

    operation.__name__ = name
    return classmethod(operation)


class PlannedTorchOps(SoftmaxOps, MatmulOps):
    """For their meaning see `returnn.frontend._ops`: `elementwise`, `reduce`, `softmax`, `matmul`."""

    combine = _planned("combine", COMBINE)
    compare = _planned("compare", COMPARE)

    @classmethod
    def where(cls, cond: Tensor, true_: Any, false_: Any, *, allow_broadcast_all_sources: bool = False) -> Tensor:
        """See `returnn.frontend.where`."""
        operation = "where", allow_broadcast_all_sources
        plan = plans.find(operation, true_, false_, cond)
        if plan is not None:
            return plan.of_all(true_, false_, cond)
        out: Tensor = super().where(cond, true_, false_, allow_broadcast_all_sources=allow_broadcast_all_sources)
        if out._dims and (isinstance(true_, Tensor) or isinstance(false_, Tensor)):
            _add_elementwise(operation, (true_, false_, cond), out, lambda a, b, c: cls.where_raw(c, a, b))
        return out

    @classmethod
    def activation(cls, tensor: Tensor, func: str) -> Tensor:
        """See `returnn.frontend._ops.elementwise`."""
        plan = plans.find(func, tensor)
        if plan is not None:
            return plan.of_one(tensor)
        out: Tensor = super().activation(tensor, func)
        plans.add(func, [tensor], Plan(attributes_of(out), 0, activation_function(func)))
        return out

    @classmethod
    def reduce(cls, source: Tensor, *, mode: str, axis: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
        """See `returnn.frontend.reduce`."""
        operation = mode, id(axis)
        is_planned = is_planned_axis(axis)
        plan = plans.find(operation, source) if is_planned else None
        if plan is not None:
            return plan.of_one(source)
        out: Tensor = super().reduce(source, mode=mode, axis=axis, use_mask=use_mask)
        if is_planned and isinstance(axis, Dim) and mode not in _INDEX_MODES and out.dtype == source.dtype:
            function = functools.partial(cls.reduce_raw, mode=mode, axes=(source.get_axis_from_description(axis),))
            plans.add(operation, [source], Plan(attributes_of(out), 0, function, kept=axis))
        return out

    @classmethod
    def _over_classes(cls, name: str, tensor: Tensor, axis: Dim, use_mask: bool) -> Tensor:
        operation = name, id(axis)
        is_planned = is_planned_axis(axis)
        plan = plans.find(operation, tensor) if is_planned else None
        if plan is not None:
            return plan.of_one(tensor)
        out: Tensor = super()._over_classes(name, tensor, axis, use_mask)
        if is_planned:
            raw = cls.softmax_raw if name == "softmax" else cls.log_softmax_raw
            function = functools.partial(raw, axis=tensor.get_axis_from_description(axis))
            plans.add(operation, [tensor], Plan(attributes_of(out), 0, function, kept=axis))
        return out

    @classmethod
    def matmul(cls, a: Tensor, b: Tensor, *, reduce: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
        """See `returnn.frontend.matmul`."""
        operation = "matmul", id(reduce)
        is_planned = is_planned_axis(reduce)
        plan = plans.find(operation, a, b) if is_planned else None
        if plan is not None:
            template, _ = plan.kept
            return tensor_like(template, plan.attributes, plan.function(a._raw_tensor, b._raw_tensor))
        out: Tensor = super().matmul(a, b, reduce=reduce, use_mask=use_mask)
        if is_planned and isinstance(reduce, Dim):
            reduce_a, reduce_b, common, *_ = matmul_axes(a, b, [reduce])
            if not common and len(b._dims) == 2 and reduce_a == [len(a._dims) - 1]:  # one raw product
                multiply = functools.partial(cls.matmul_raw, transpose_b=reduce_b == [1])
                function = functools.partial(cls.product_raw, multiply, dtype=a.dtype)
                template = out.copy_template()  # what else the result has is not that of an operand
                plans.add(operation, [a, b], Plan(attributes_of(out), 0, function, kept=(template, reduce)))
        return out


def _add_elementwise(operation: Any, operands: Sequence[Any], out: Tensor, function: Any) -> None:
    plan = elementwise_plan(operands, out, function)
    if plan is not None:
        plans.add(operation, operands, plan)


def _has_int(*operands: Any) -> bool:
    return any(isinstance(x, Tensor) and x.dtype.startswith(("int", "uint")) for x in operands)
