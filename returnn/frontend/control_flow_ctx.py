"""In which loop or branch the code runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from returnn.tensor import ControlFlowContext

_contexts: list[ControlFlowContext | None] = [None]


def get_current_control_flow_ctx() -> ControlFlowContext | None:
    """:return: the loop or branch which is being built; None outside of all"""
    return _contexts[-1]


@contextlib.contextmanager
def control_flow_ctx(ctx: ControlFlowContext | None = None) -> Iterator[ControlFlowContext | None]:
    """
    What runs inside of the `with` block belongs to the loop or branch.

    :param ctx: None: outside of all
    """
    _contexts.append(ctx)
    try:
        yield ctx
    finally:
        _contexts.pop()


__all__ = ["control_flow_ctx", "get_current_control_flow_ctx"]
