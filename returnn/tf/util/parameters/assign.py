"""Sets variables of a graph to given values."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf


def assign_values(session: tf.compat.v1.Session, values: Mapping[tf.Variable, object]) -> None:
    """
    Adds nothing to the graph, and runs it only once, however many variables there are.

    :param values: variable's `ref()` -> numpy array of its shape
    """
    initializers = {ref.deref().initializer: value for ref, value in values.items()}
    if initializers:
        session.run(list(initializers), {op.inputs[1]: value for op, value in initializers.items()})
