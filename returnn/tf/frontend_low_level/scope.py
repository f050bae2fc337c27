"""
Values of dims (lengths, masks) live with the graph that they were made in.

The body of a loop or the branch of a condition is a graph of its own, which can use what is in the graph around it, but
not the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from returnn.tensor.scope import Store

_ATTRIBUTE = "_returnn_dim_values"


def current_graph_stores() -> Sequence[Store]:
    """:return: the stores of the current graph and of those around it, innermost first; nothing in eager code"""
    if tf.executing_eagerly():
        return ()
    stores: list[Store] = []
    graph: Any = tf.compat.v1.get_default_graph()
    while graph is not None:
        store = getattr(graph, _ATTRIBUTE, None)
        if store is None:
            store = {}
            setattr(graph, _ATTRIBUTE, store)
        stores.append(store)
        graph = getattr(graph, "outer_graph", None)
    return stores


def is_visible(tensor: Any) -> bool:
    """:return: whether the raw tensor lives in the current graph, or in one around it"""
    if tf.executing_eagerly():
        return True
    graph: Any = tf.compat.v1.get_default_graph()
    while graph is not None:
        if tensor.graph is graph:
            return True
        graph = getattr(graph, "outer_graph", None)
    return False
