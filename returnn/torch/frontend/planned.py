"""
Operations that most of the time goes to, which go by plans where the layouts of the operands are known (`plans`).

The functions of the frontend have asked for a plan before they come here. So what is left is to ask again once the
operands have the shared layouts, to compute by the rules, and to keep what was found out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from returnn.frontend._ops.matmul import MatmulOps, matmul_axes
from returnn.frontend._ops.softmax import SoftmaxOps
from returnn.tensor import Dim, Tensor
from returnn.tensor.plans import Plan, attributes_of, plans
from returnn.torch.frontend.plans import add_plan, elementwise_plan, is_planned_axis, main_operand
from returnn.torch.frontend.raw import COMBINE, COMPARE, activation_function

_INDEX_MODES = ("argmin", "argmax")


def _planned(name: str, function_of: Callable[[str, Any, Any], Callable[..., Any]]) -> Any:
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
        rules = getattr(super(PlannedTorchOps, cls), name)
        if dim_order is not None:
            return rules(a, kind, b, allow_broadcast_all_sources=allow_broadcast_all_sources, dim_order=dim_order)
        flags = () if allow_broadcast_all_sources is None else (bool(allow_broadcast_all_sources),)
        planned = plans.run_or_share(kind, a, b, *flags)
        if planned is not None:
            return planned
        out: Tensor = rules(a, kind, b, allow_broadcast_all_sources=allow_broadcast_all_sources)
        # PyTorch compares no number to a tensor, and divides integers in its own dtype.
        fits = isinstance(a, Tensor) or (name == "combine" and isinstance(b, Tensor))
        if fits and not (kind == "truediv" and _has_int(a, b)):
            add_plan(
                kind,
                (a, b, *flags),
                lambda: elementwise_plan((a, b), out, function_of(kind, a, b), main=main_operand(a, b)),
            )
        return out

    operation.__name__ = name
    return classmethod(operation)


class PlannedTorchOps(SoftmaxOps, MatmulOps):
    """For their meaning see `returnn.frontend._ops`: `elementwise`, `reduce`, `softmax`, `matmul`."""

    combine = _planned("combine", lambda kind, a, b: _combine_function(kind, a, b))
    compare = _planned("compare", lambda kind, a, b: COMPARE[kind])

    @classmethod
    def where(cls, cond: Tensor, true_: Any, false_: Any, *, allow_broadcast_all_sources: bool = False) -> Tensor:
        """See `returnn.frontend.where`."""
        operands = (cond, true_, false_, *((True,) if allow_broadcast_all_sources else ()))
        planned: Tensor | None = plans.run_or_share("where", *operands)
        if planned is not None:
            return planned
        out: Tensor = super().where(cond, true_, false_, allow_broadcast_all_sources=allow_broadcast_all_sources)
        is_planned = out.dtype != "bool"  # see `where_raw`
        if out._dims and (isinstance(true_, Tensor) or isinstance(false_, Tensor)) and is_planned:
            main = main_operand(true_, false_, cond)
            add_plan("where", operands, lambda: elementwise_plan(operands[:3], out, torch.where, main=main))
        return out

    @classmethod
    def activation(cls, tensor: Tensor, func: str) -> Tensor:
        """See `returnn.frontend._ops.elementwise`."""
        planned: Tensor | None = plans.run_or_share(func, tensor)
        if planned is not None:
            return planned
        out: Tensor = super().activation(tensor, func)
        add_plan(func, [tensor], lambda: Plan(attributes_of(out), 0, activation_function(func)))
        return out

    @classmethod
    def reduce(cls, source: Tensor, *, mode: str, axis: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
        """See `returnn.frontend.reduce`."""
        planned: Tensor | None = plans.run_or_share(mode, source, axis)
        if planned is not None:
            return planned
        out: Tensor = super().reduce(source, mode=mode, axis=axis, use_mask=use_mask)
        if isinstance(axis, Dim) and is_planned_axis(axis) and mode not in _INDEX_MODES and out.dtype == source.dtype:
            function = cls._reduce_function(mode, axis, source.get_axis_from_description(axis))
            add_plan(mode, [source, axis], lambda: Plan(attributes_of(out), 0, function))
        return out

    @classmethod
    def _over_classes(cls, name: str, tensor: Tensor, axis: Dim, use_mask: bool) -> Tensor:
        planned: Tensor | None = plans.run_or_share(name, tensor, axis)
        if planned is not None:
            return planned
        out: Tensor = super()._over_classes(name, tensor, axis, use_mask)
        if is_planned_axis(axis):
            raw = torch.softmax if name == "softmax" else torch.log_softmax
            function = functools.partial(raw, dim=tensor.get_axis_from_description(axis))
            add_plan(name, [tensor, axis], lambda: Plan(attributes_of(out), 0, function))
        return out

    @classmethod
    def matmul(cls, a: Tensor, b: Tensor, *, reduce: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
        """See `returnn.frontend.matmul`."""
        planned: Tensor | None = plans.run_or_share("matmul", a, b, reduce)
        if planned is not None:
            return planned
        out: Tensor = super().matmul(a, b, reduce=reduce, use_mask=use_mask)
        if isinstance(reduce, Dim) and is_planned_axis(reduce):
            add_plan("matmul", [a, b, reduce], lambda: cls._matmul_plan(a, b, reduce, out))
        return out

    @classmethod
    def _matmul_plan(cls, a: Tensor, b: Tensor, reduce: Dim, out: Tensor) -> Plan | None:
        reduce_a, reduce_b, common, *_ = matmul_axes(a, b, [reduce])
        if common or len(b._dims) != 2 or reduce_a != [len(a._dims) - 1]:  # more than one raw product
            return None
        multiply = functools.partial(cls.matmul_raw, transpose_b=True) if reduce_b == [1] else torch.matmul
        function = functools.partial(cls.product_raw, multiply, dtype=a.dtype)
        # What else the result has is not that of an operand.
        return Plan(attributes_of(out), out.copy_template(), function, (None, None))


def _combine_function(kind: str, a: Any, b: Any) -> Callable[..., Any]:
    """:return: function of raw operands; a bound can be a number"""
    if kind in ("maximum", "minimum") and isinstance(a, Tensor) and not isinstance(b, Tensor):
        return torch.clamp_min if kind == "maximum" else torch.clamp_max
    return COMBINE[kind]


def _has_int(*operands: Any) -> bool:
    return any(isinstance(x, Tensor) and x.dtype.startswith(("int", "uint")) for x in operands)
