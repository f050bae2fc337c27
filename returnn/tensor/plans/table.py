"""A plan, and the table of plans in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from returnn.tensor.tensor_base import TensorBase, tensor_like

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """Of an operation on operands of certain layouts."""

    attributes: dict[str, Any]  # of the result, where they are not those of the main operand
    main: int | TensorBase  # which operand that is; or a template, which the result is like
    function: Function  # of raw operands
    views: tuple[Function | None, ...] = (None,)  # of raw operands, before, one for each; None: as they are


class PlanTable(Protocol):
    """Plans by operation and operands. Its `run` is what takes the time of small operations."""

    def run(self, operation: str, /, *operands: Any) -> Any:
        """:return: the result of the operation, if there is a plan for operands like these; otherwise None"""

    def add(self, operation: str, operands: Sequence[Any], plan: Plan) -> None:
        """Keeps a plan for operands like these."""

    def clear(self) -> None:
        """Forgets all plans."""

    def __len__(self) -> int: ...


class PythonPlanTable:
    """See `PlanTable`."""

    def __init__(self) -> None:
        self._known: dict[Any, tuple[Plan, Any]] = {}  # the second one keeps alive what keys have the id of

    def __len__(self) -> int:
        return len(self._known)

    def run(self, operation: str, /, *operands: Any) -> Any:
        """See `PlanTable`."""
        known = self._known.get((operation, *map(_layout, operands)))
        if known is None:
            return None
        plan = known[0]
        raws = [x._raw_tensor if isinstance(x, TensorBase) else x for x in operands[: len(plan.views)]]
        for i, view in enumerate(plan.views):
            if view is not None:
                raws[i] = view(raws[i])
        main: TensorBase = operands[plan.main] if isinstance(plan.main, int) else plan.main
        return tensor_like(main, plan.attributes, plan.function(*raws))

    def add(self, operation: str, operands: Sequence[Any], plan: Plan) -> None:
        """See `PlanTable`."""
        held = [(x._dims, x.sparse_dim) if isinstance(x, TensorBase) else x for x in operands]
        self._known[(operation, *map(_layout, operands))] = plan, held

    def clear(self) -> None:
        """See `PlanTable`."""
        self._known.clear()


def attributes_of(out: TensorBase) -> dict[str, Any]:
    """:return: what an operation decides about its result"""
    names = ("name", "dtype", "sparse_dim", "_dims", "_feature_dim_axis", "_time_dim_axis")
    return {name: getattr(out, name) for name in names}


def _layout(x: Any) -> Any:
    """:return: what plans depend on"""
    if isinstance(x, TensorBase):
        kind = type(x._raw_tensor)
        return id(x._dims), x.dtype, id(x.sparse_dim), x._feature_dim_axis, x._time_dim_axis, x.version, kind
    kind = type(x)
    return kind if kind is float or kind is int else id(x)
