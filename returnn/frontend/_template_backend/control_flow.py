"""Rules of conditions and loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from returnn.frontend._ops.control_flow.branches import Branches
from returnn.frontend._ops.control_flow.loop_state import MAX_ROUNDS, LoopState
from returnn.frontend._ops.operands import fail
from returnn.tensor import Tensor
from returnn.util.errors import DtypeError


class ControlFlowRules:
    """Rules of conditions and loops. For their meaning see `returnn.frontend._interface.control_flow`."""

    @classmethod
    def assert_(cls, condition: Tensor, message: str, *, stop: bool = True) -> None:
        """Nothing to do: there is no value."""

    @classmethod
    def cond(cls, pred: Tensor, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
        """:return: templates of what both functions return"""
        branches = Branches("cond", cls)
        branches.add(true_fn())
        branches.add(false_fn())
        return branches.templates()

    @classmethod
    def while_loop(cls, cond: Callable[[Any], Any], body: Callable[[Any], Any], initial: Any) -> Any:
        """:return: templates of the state"""
        state = LoopState("while_loop", initial, cls)
        for _ in range(MAX_ROUNDS):
            templates = state.templates()
            check_condition(cond(templates))
            if state.after_body(body(templates)) is not None:
                return state.templates()
        raise fail(
            "while_loop: the dims of the state keep changing from round to round.", f"Last: {state.templates()}."
        )


def check_condition(condition: Any) -> None:
    """:raises DimError: if the condition of a loop is no scalar"""
    if not isinstance(condition, Tensor):
        return
    if condition.dims:
        raise fail(
            f"while_loop: the condition {condition} is not a scalar.", "Use rf.reduce_any or rf.reduce_all on it."
        )
    if condition.dtype != "bool":
        raise DtypeError(
            f"while_loop: the condition {condition} is not bool. Compare with something first, such as `x > 0`."
        )
