"""
Which tensors are computed sequence by sequence of others, so that for fewer sequences they have fewer rows.

Code for whole tensors notes it here, as it is not to be seen from an operation such as a matrix product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

_NOTED = "_returnn_rows_of_batch"  # of a graph


@dataclass(frozen=True)
class Noted:
    """How a tensor depends on the sequences of a batch."""

    x: tf.Tensor
    source: tf.Tensor | None = (
        None  # as many sequences, along the first axis as in x. None: x is the same for any of them
    )
    compute: Callable[[tf.Tensor], tf.Tensor] | None = None  # function from the source, or some rows of it, to x


def note(noted: Noted) -> None:
    """Makes it known."""
    graph: Any = noted.x.graph
    if not hasattr(graph, _NOTED):
        setattr(graph, _NOTED, {})
    getattr(graph, _NOTED)[id(noted.x)] = noted


def noted_of(x: tf.Tensor) -> Noted | None:
    """:return: what was noted of x"""
    return getattr(x.graph, _NOTED, {}).get(id(x))
