"""Which plans are known, and when they are forgotten."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from returnn.tensor.dim import Dim
from returnn.tensor.dim_base import DimBase
from returnn.tensor.plans.table import Plan, PlanTable, PythonPlanTable
from returnn.tensor.tensor_base import TensorBase

MAX_PLANS = 512


class Plans:
    """All plans that are known."""

    run: Callable[..., Any]  # of the table, see there: with operation and operands; operations begin with it

    def __init__(self) -> None:
        self._table: PlanTable = PythonPlanTable()
        self._dims: dict[tuple[int, ...], tuple[Dim, ...]] = {}
        self.are_used = True

    def __len__(self) -> int:
        return len(self._table)

    @property
    def are_used(self) -> bool:
        """Whether operations go by plans."""
        return self._are_used

    @are_used.setter
    def are_used(self, are_used: bool) -> None:
        self._are_used = are_used
        self.run = self._table.run if are_used else _no_plan

    def use_table(self, table: PlanTable) -> None:
        """:param table: in place of the one before"""
        self.forget()
        self._table = table
        self.are_used = self._are_used

    def run_or_share(self, operation: str, *operands: Any) -> Any:
        """
        For the slow way of an operation, before it goes by the rules.

        :param operation: which one
        :param operands: tensors, numbers, and all else that the plan depends on
        :return: the result, if there is a plan once the operands have the shared objects; otherwise None
        """
        if self._are_used and self.share_layout(operands):
            return self.run(operation, *operands)
        return None

    def add(self, operation: str, operands: Sequence[Any], plan: Plan) -> None:
        """
        Keeps a plan for operands like these.

        :param operation: see `run_or_share`
        :param operands: see `run_or_share`
        :param plan: for them
        """
        if not self._are_used:
            return
        if len(self._table) >= MAX_PLANS or len(self._dims) >= MAX_PLANS:
            self.forget()
        self.share_layout(operands)
        dims = plan.attributes["_dims"]
        plan.attributes["_dims"] = self._dims.setdefault(_ids(dims), dims)
        plan.attributes["dtype"] = sys.intern(plan.attributes["dtype"])
        self._table.add(sys.intern(operation), operands, plan)

    def share_layout(self, operands: Sequence[Any]) -> bool:
        """
        From now on, tensors with the very same dims have the same tuple of them, and the same text as dtype.

        :return: whether one of these operands had another one
        """
        changed = False
        for x in operands:
            if isinstance(x, TensorBase):
                dims, dtype = self._dims.setdefault(_ids(x._dims), x._dims), sys.intern(x.dtype)
                if dims is not x._dims or dtype is not x.dtype:
                    x._dims, x.dtype = dims, dtype
                    changed = True
        return changed

    def forget(self) -> None:
        """Forgets all plans."""
        self._table.clear()
        self._dims.clear()


def _ids(dims: tuple[Dim, ...]) -> tuple[int, ...]:
    return tuple(map(id, dims))


def _no_plan(operation: str, /, *operands: Any) -> None:
    """Stands for the table where plans are not used, and does nothing, so that it can be looked through."""


plans = Plans()
DimBase._when_declared.append(plans.forget)
