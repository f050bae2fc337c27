"""Complex numbers, as such or as real and imaginary parts one after the other."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.util.errors import ConfigError


class AlternatingRealToComplexLayer(_ConcatInputLayer):
    """
    Complex numbers from their parts: real, imaginary, real, imaginary, ...

    Source [..., 2 * F], output [..., F], complex.
    """

    layer_class = "alternating_real_to_complex"

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., F], complex"""
        pairs, half = split_pairs(self, source)
        output = Tensor(self.name, dims=pairs.dims[:-1], dtype=complex_dtype_of(pairs.dtype), feature_dim=half)
        if pairs.raw_tensor is not None:
            output.raw_tensor = tf.complex(*tf.unstack(pairs.raw_tensor, axis=-1))
        return output


class ComplexToAlternatingRealLayer(_ConcatInputLayer):
    """
    The parts of complex numbers, one after the other: real, imaginary, real, imaginary, ...

    Source [..., F], complex, output [..., 2 * F].
    """

    layer_class = "complex_to_alternating_real"

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., 2 * F]"""
        if source.feature_dim is None or not source.dtype.startswith("complex"):
            raise ConfigError(f"{self.where()}: the source has to be complex, with a feature dim, not {source}.")
        source = source.copy_with_feature_last()
        feature = self.output_feature_dim(2 * source.feature_dim)
        dtype = real_dtype_of(source.dtype)
        output = Tensor(self.name, dims=[*source.dims[:-1], feature], dtype=dtype, feature_dim=feature)
        if source.raw_tensor is not None:
            parts = tf.stack([tf.math.real(source.raw_tensor), tf.math.imag(source.raw_tensor)], axis=-1)
            shape = tf.concat([tf.shape(parts)[:-2], [2 * tf.shape(parts)[-2]]], axis=0)
            output.raw_tensor = tf.reshape(parts, shape)
        return output


class ComplexLinearProjectionLayer(_ConcatInputLayer):
    """
    Complex linear projection (Variani et al. 2016): the log magnitude of complex products.

    Source [..., 2 * F], real and imaginary parts one after the other; output [..., nr_of_filters]. Parameter
    `clp_kernel`: [2, F, nr_of_filters], real and imaginary parts.
    """

    layer_class = "complex_linear_projection"

    def __init__(self, nr_of_filters: int, clp_weights_init: Any = "glorot_uniform", **kwargs: Any) -> None:
        """
        :param nr_of_filters: size of the feature dim of the output
        :param clp_weights_init: initial value of `clp_kernel`
        """
        super().__init__(**kwargs)
        self.nr_of_filters = nr_of_filters
        self.clp_weights_init = clp_weights_init

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., nr_of_filters]"""
        pairs, half = split_pairs(self, source)
        part = pairs.dims[-1]
        out_dim = self.output_feature_dim(self.nr_of_filters)
        kernel = self.parameter("clp_kernel", [part, half, out_dim], initial=self.clp_weights_init)
        (x_real, x_imag), (k_real, k_imag) = (
            [rf.gather(x, indices=i, axis=part) for i in (0, 1)] for x in (pairs, kernel)
        )
        real = _product(x_real, k_real, half) - _product(x_imag, k_imag, half)
        imag = _product(x_real, k_imag, half) + _product(x_imag, k_real, half)
        output = rf.safe_log(rf.square(real) + rf.square(imag)) * 0.5
        return output.copy_with_roles(feature_dim=out_dim)


def complex_dtype_of(dtype: str) -> str:
    """:return: dtype of complex numbers with parts of this dtype"""
    return "complex128" if dtype == "float64" else "complex64"


def real_dtype_of(dtype: str) -> str:
    """:return: dtype of the parts of complex numbers of this dtype"""
    return "float64" if dtype == "complex128" else "float32"


def split_pairs(layer: _ConcatInputLayer, source: Tensor) -> tuple[Tensor, Dim]:
    """:return: [..., F, 2] from [..., 2 * F]; F"""
    feature = source.feature_dim
    if feature is None or feature.dimension is None or feature.dimension % 2:
        raise ConfigError(f"{layer.where()}: the source {source} has no feature dim of an even size.")
    half = layer.new_dim("complex", feature.dimension // 2, kind=Dim.Types.Feature)
    part = layer.new_dim("real-imag", 2, auto_generated=False)
    return rf.split_dims(source.copy_with_feature_last(), axis=feature, dims=[half, part]), half


def _product(x: Tensor, kernel: Tensor, dim: Dim) -> Tensor:
    return rf.matmul(x, kernel, reduce=dim, use_mask=False)
