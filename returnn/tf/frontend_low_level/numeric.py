"""Raw numeric operations, and the graph that they form."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from returnn.frontend._array.convert import convert_to_tensor
from returnn.tensor import Tensor


class NumericTFOps:
    """For the meaning of the operations see `returnn.frontend._backends.required`."""

    @staticmethod
    def cumsum_raw(raw_tensor: tf.Tensor, axis: int) -> tf.Tensor:
        """:return: sums"""
        return tf.cumsum(raw_tensor, axis=axis)

    @staticmethod
    def test_raw(raw_tensor: tf.Tensor, kind: str) -> tf.Tensor:
        """:return: test"""
        if not raw_tensor.dtype.is_floating:
            return tf.fill(tf.shape(raw_tensor), kind == "finite")
        if kind == "finite":
            return tf.math.is_finite(raw_tensor)
        if kind == "infinite":
            return tf.math.is_inf(raw_tensor)
        return tf.equal(raw_tensor, tf.constant(-float("inf"), dtype=raw_tensor.dtype))

    @staticmethod
    def make_complex_raw(real: tf.Tensor, imag: tf.Tensor) -> tf.Tensor:
        """:return: complex numbers"""
        return tf.complex(real, imag)

    @staticmethod
    def complex_as_real_raw(raw_tensor: tf.Tensor) -> tf.Tensor:
        """:return: both parts"""
        return tf.stack([tf.math.real(raw_tensor), tf.math.imag(raw_tensor)], axis=-1)

    @staticmethod
    def real_as_complex_raw(raw_tensor: tf.Tensor) -> tf.Tensor:
        """:return: complex numbers"""
        return tf.complex(raw_tensor[..., 0], raw_tensor[..., 1])

    @staticmethod
    def rfft_raw(raw_tensor: tf.Tensor, size: int) -> tf.Tensor:
        """:return: spectrum"""
        return tf.signal.rfft(raw_tensor, fft_length=[size])

    @staticmethod
    def of_all_processes_raw(raw_tensor: tf.Tensor) -> tf.Tensor | None:
        """:return: what each replica of the distribution strategy has, if there are several"""
        context = tf.distribute.get_replica_context()
        if context is None or context.num_replicas_in_sync == 1:
            return None
        return context.all_gather(raw_tensor[None], axis=0)

    @staticmethod
    def get_tensor_dependencies(x: Tensor) -> Sequence[Tensor]:
        """:return: the inputs of its operation"""
        return [_as_tensor(raw) for raw in x.raw_tensor.op.inputs]

    @staticmethod
    def get_tensor_consumers(x: Tensor) -> Sequence[Tensor]:
        """:return: the outputs of the operations which take it as input"""
        return [_as_tensor(raw) for operation in x.raw_tensor.consumers() for raw in operation.outputs]


def _as_tensor(raw: tf.Tensor) -> Tensor:
    """:return: tensor with dims made from the shape of the raw one. Another one with the same raw tensor may exist."""
    return convert_to_tensor(raw)
