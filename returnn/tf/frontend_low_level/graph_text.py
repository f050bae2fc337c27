"""Graphs as text."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def format_graph_output(fetches: Any, max_depth: int | None = None) -> str:
    """
    :param fetches: what is computed
    :param max_depth: do not go further away from it
    :return: a line for each operation, below the one that needs it
    """
    lines: list[str] = []
    seen: set[tf.Operation] = set()

    def visit(op: tf.Operation, depth: int) -> None:
        again = op in seen
        seen.add(op)
        shapes = ", ".join(
            f"{x.dtype.name}{x.shape.as_list() if x.shape.ndims is not None else '?'}" for x in op.outputs
        )
        lines.append(f"{'  ' * depth}{op.name} = {op.type} -> {shapes}{' (see above)' if again and op.inputs else ''}")
        if not again and (max_depth is None or depth < max_depth):
            for x in op.inputs:
                visit(x.op, depth + 1)

    for fetch in tf.nest.flatten(fetches):
        visit(fetch.op if isinstance(fetch, tf.Tensor) else fetch, 0)
    return "\n".join(lines)
