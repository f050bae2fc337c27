"""
`BaseRNNCell`: a recurrent unit on raw tensors, one step at a time. A config can derive its own from it.

Our own units are such cells too, see `returnn.tf.layers.rec.units.base`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1


class BaseRNNCell:
    """
    Base class. See the head of this module.

    What a cell defines: `state_size`, `output_size`, `call`; and `get_input_transformed`, if a part of the step depends
    on the input alone.
    """

    def __init__(self, name: str | None = None, trainable: bool = True) -> None:
        """
        :param name: scope of the parameters. Default: none
        :param trainable: whether training changes the parameters
        """
        self.name = name
        self.trainable = trainable

    @property
    def state_size(self) -> Any:
        """Size of the state; a tuple if it has parts."""
        raise NotImplementedError

    @property
    def output_size(self) -> int:
        """Size of the output."""
        raise NotImplementedError

    def get_input_transformed(self, x: tf.Tensor, batch_dim: tf.Tensor | None = None) -> Any:
        """
        The part of the step which depends on the input alone, for all frames at once.

        :param x: (T, B, F_in), or (B, F_in)
        :param batch_dim: B
        :return: (T, B, P), or (B, P): what the cell is called with. By default as it is
        """
        return x

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[tf.Tensor, Any]:
        """
        :param inputs: (B, P), see `get_input_transformed`
        :param state: like `state_size`: each (B, size)
        :param scope: where the parameters are
        :return: output (B, output_size), and new state
        """
        with self._in_scope(scope):
            return self.call(inputs, state)

    def call(self, inputs: Any, state: Any) -> tuple[tf.Tensor, Any]:
        """See `__call__`."""
        raise NotImplementedError

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """:return: like `state_size`: zeros (batch_size, size) each"""
        return tf.nest.map_structure(lambda size: tf.zeros([batch_size, size], dtype=dtype), self.state_size)

    @contextmanager
    def _in_scope(self, scope: Any) -> Iterator[None]:
        scope = scope if scope is not None else self.name
        if scope is None:
            yield
            return
        with tf1.variable_scope(scope, reuse=tf1.AUTO_REUSE, use_resource=True):
            yield


def names_of_state(state_size: Any) -> tuple[str, ...]:
    """:return: for a size of a state, the names of its parts"""
    if hasattr(state_size, "_fields"):
        return tuple(state_size._fields)
    if isinstance(state_size, Sequence):
        return tuple(str(i) for i in range(len(state_size)))
    return ("state",)
