"""Initial values of parameters that TensorFlow does not have."""

from __future__ import annotations

from typing import Any

import numpy
import tensorflow as tf

from returnn.tf.util.numeric import wrap_distribution_non_zero
from returnn.util.sig_proc import GammatoneFilterbank

tf1 = tf.compat.v1


def xavier_initializer(uniform: bool = True, seed: int | None = None, dtype: Any = tf.float32) -> Any:
    """
    Glorot & Bengio 2010.

    :param uniform: uniform distribution; otherwise normal
    :param seed: of the values
    :param dtype: of the values
    """
    distribution = "uniform" if uniform else "truncated_normal"
    initializer = tf1.variance_scaling_initializer(scale=1.0, mode="fan_avg", distribution=distribution, seed=seed)

    default_dtype = tf.as_dtype(dtype)

    def initial_values(shape: Any, dtype: Any = None, partition_info: Any = None) -> tf.Tensor:
        return initializer(shape, dtype=dtype or default_dtype, partition_info=partition_info)

    return initial_values  # TensorFlow warns of a dtype as an argument above


def random_uniform_abs_initializer(limit: float, **kwargs: Any) -> Any:
    """
    :param limit: values are between -limit and limit
    :param kwargs: `seed`, `dtype`
    """
    return tf1.random_uniform_initializer(minval=-limit, maxval=limit, **kwargs)


def load_txt_file_initializer(filename: str, dtype: Any = tf.float32) -> Any:
    """
    :param filename: text file of numbers, as `numpy.loadtxt` reads it
    :param dtype: of the values
    """
    values = numpy.loadtxt(filename, dtype=tf.as_dtype(dtype).as_numpy_dtype)
    return tf1.constant_initializer(values, dtype=tf.as_dtype(dtype))


class VarianceScalingNonZero(tf1.initializers.variance_scaling):
    """Like `variance_scaling_initializer` with a uniform distribution, but no value is near zero."""

    def __init__(self, non_zero_fraction: float = 0.5, **kwargs: Any) -> None:
        """
        :param non_zero_fraction: values are at least this part of the largest value
        :param kwargs: `scale`, `mode`, `seed`, `dtype`
        """
        super().__init__(**{"distribution": "uniform", **kwargs})
        assert self.distribution == "uniform", self.distribution
        self.non_zero_fraction = non_zero_fraction

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> tf.Tensor:
        """:return: values"""
        dtype = self.dtype if dtype is None else dtype
        values = super().__call__(shape, dtype=dtype, partition_info=partition_info)
        limit = self._limit([int(size) for size in shape])
        return wrap_distribution_non_zero(values, zero_limit=limit * self.non_zero_fraction, limit=limit)

    def _limit(self, shape: list[int]) -> float:
        fan_in, fan_out = _fans(shape)
        n = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        return float(numpy.sqrt(3.0 * self.scale / max(n, 1.0)))


variance_scaling_non_zero_initializer = VarianceScalingNonZero


class GammatoneFilterbankInitializer:
    """A convolution becomes a gammatone filter bank: shape (samples, ..., channels), all axes between of size 1."""

    def __init__(self, **kwargs: Any) -> None:
        """
        :param kwargs: see `returnn.util.sig_proc.GammatoneFilterbank`; number of channels and length follow from the
            shape if they are missing
        """
        self.options = kwargs
        self.gammatone_filterbank: GammatoneFilterbank | None = None

    def __call__(self, shape: Any, dtype: Any = tf.float32, partition_info: Any = None) -> tf.Tensor:
        """:return: values"""
        shape = [int(size) for size in shape]
        sample_rate = self.options.get("sample_rate", 16000)
        sizes = {"num_channels": shape[-1], "length": (shape[0] + 0.5) / sample_rate}
        self.gammatone_filterbank = GammatoneFilterbank(**{**sizes, **self.options})
        values = self.gammatone_filterbank.get_gammatone_filterbank()
        assert values.size == numpy.prod(shape), f"{values.shape} filters do not fit into {shape}"
        return tf.constant(values.reshape(shape), dtype=dtype)

    def get_config(self) -> dict[str, Any]:
        """:return: the options"""
        return dict(self.options)


def _fans(shape: list[int]) -> tuple[float, float]:
    """:return: number of inputs and of outputs of a unit, for a weight matrix or a convolution"""
    if len(shape) < 2:
        return (1.0, 1.0) if not shape else (float(shape[0]), float(shape[0]))
    receptive = float(numpy.prod(shape[:-2]))
    return shape[-2] * receptive, shape[-1] * receptive
