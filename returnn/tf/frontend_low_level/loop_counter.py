"""In which round of the loops around an operation runs. Random values differ from round to round by it."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_ATTRIBUTE = "_returnn_loop_counter"


def set_loop_counter(counter: tf.Tensor | None) -> None:
    """
    To be called in the body of a loop, or the branch of a condition.

    :param counter: number of the round, scalar; None: the current graph is no body of a loop
    """
    setattr(tf.compat.v1.get_default_graph(), _ATTRIBUTE, counter)


def are_known() -> bool:
    """:return: whether all loops around have said their counter"""
    return all(hasattr(graph, _ATTRIBUTE) or _is_branch(graph) for graph in _inner_graphs())


def current() -> list[tf.Tensor]:
    """:return: the counters of the loops around, innermost first"""
    counters = [getattr(graph, _ATTRIBUTE, None) for graph in _inner_graphs()]
    return [counter for counter in counters if counter is not None]


def _is_branch(graph: Any) -> bool:
    return type(graph).__name__ == "CondBranchFuncGraph"


def _inner_graphs() -> list[Any]:
    """:return: the current graph and those around it, without the outermost one"""
    graphs = []
    graph: Any = tf.compat.v1.get_default_graph()
    while getattr(graph, "outer_graph", None) is not None:
        graphs.append(graph)
        graph = graph.outer_graph
    return graphs
