"""Constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.no_sources import NoSourcesLayer
from returnn.util.errors import ConfigError

# By the kind that NumPy sees.
_DTYPES = {
    "f": "float32",
    "c": "complex64",
    "b": "bool",
    "i": "int32",
    "u": "int32",
    "U": "string",
    "S": "string",
}


def zeros_like_template(template: Tensor) -> Tensor:
    """:return: zeros that look like the template"""
    value: Any = False if template.dtype == "bool" else 0
    if template.dtype == "string":
        raw = tf.fill([dim.get_dim_value() for dim in template.dims], "")
        out = template.copy_template()
        out.raw_tensor = raw
        return out
    return rf.full(
        dims=template.dims,
        fill_value=value,
        dtype=template.dtype,
        sparse_dim=template.sparse_dim,
        feature_dim=template.feature_dim,
    )


class ConstantLayer(NoSourcesLayer):
    """
    A number, or an array of numbers.

    Output: the dims in `shape`.
    """

    layer_class = "constant"

    def __init__(
        self,
        sources: Sequence[LayerBase] = (),
        value: Any = 0.0,
        shape: Sequence[Dim | int | None] | None = None,
        dtype: str | None = None,
        with_batch_dim: bool = False,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
        shape_deps: Sequence[LayerBase] = (),
        **kwargs: Any,
    ) -> None:
        """
        :param sources: there are none
        :param value: number or array
        :param shape: dims, or sizes. Default: those of the array
        :param dtype: default: that of the value, "float32" for floats, "int32" for integers
        :param with_batch_dim: with a batch dim in front
        :param sparse_dim: the values are labels of this dim
        :param feature_dim: one of the dims
        :param shape_deps: layers that dims in `shape` depend on
        """
        if sources:
            raise ConfigError(
                f"layer {kwargs.get('name')!r} (class 'constant'): there can be no source (option 'from')."
            )
        super().__init__(sources=sources, **kwargs)
        self.value = value
        self.shape = shape
        self.dtype = dtype or _dtype_of(value, self.where())
        _check_dtype(value, self.dtype, self.where())
        self.with_batch_dim = with_batch_dim
        self.sparse_dim = sparse_dim
        self.feature_dim = feature_dim
        self.shape_deps = shape_deps

    def compute(self, *_sources: Tensor) -> Tensor:
        """:return: the value"""
        dims, dtype = self._dims(), self.dtype
        if numpy.ndim(self.value):
            static = [dim for dim in dims if not dim.is_batch_dim()]
            array = numpy.array(self.value, dtype=object if dtype == "string" else dtype)
            output = rf.convert_to_tensor(array, dims=static, dtype=dtype)
            output = rf.expand_dims(output, [dim for dim in dims if dim.is_batch_dim()])
            output = output.copy_with_roles(sparse_dim=self.sparse_dim)
        else:
            output = rf.full(dims=dims, fill_value=self.value, dtype=dtype, sparse_dim=self.sparse_dim)
        return output if self.feature_dim is None else output.copy_with_roles(feature_dim=self.feature_dim)

    def _dims(self) -> list[Dim]:
        sizes = numpy.shape(self.value) if self.shape is None else self.shape
        if any(size is None for size in sizes):
            raise ConfigError(f"{self.where()}: option 'shape': None is no size; give a dim, such as batch_dim.")
        dims = self.dims_of_shape(sizes, last_is_feature=self.sparse_dim is None)
        own = [dim.dimension for dim in dims if not dim.is_batch_dim()]
        if numpy.ndim(self.value) and list(numpy.shape(self.value)) != own:
            raise ConfigError(f"{self.where()}: 'value' has the shape {numpy.shape(self.value)}, but 'shape' is {own}.")
        if self.with_batch_dim and batch_dim not in dims:
            dims.insert(0, batch_dim)
        return dims


def _dtype_of(value: Any, where: str) -> str:
    """:raises ConfigError: if it is neither a number nor a text, nor an array of these"""
    try:
        array = numpy.asarray(value)
    except ValueError as exc:
        raise ConfigError(f"{where}: option 'value': the rows of {value!r} have different sizes.") from exc
    if array.dtype.kind not in _DTYPES:
        raise ConfigError(f"{where}: option 'value' has to be a number or an array of numbers, not {value!r}.")
    has_own_dtype = isinstance(value, (numpy.ndarray, numpy.generic)) and array.dtype.kind not in "US"
    return value.dtype.name if has_own_dtype else _DTYPES[array.dtype.kind]


def _check_dtype(value: Any, dtype: str, where: str) -> None:
    """:raises ConfigError: if the dtype cannot hold the value"""
    if _dtype_of(value, where) == "string":
        fits = dtype == "string" and all(isinstance(x, (str, bytes)) for x in numpy.array(value, dtype=object).flat)
    else:
        is_integer = dtype.startswith(("int", "uint"))
        fits = dtype != "string" and (not is_integer or numpy.array_equal(numpy.asarray(value).astype(dtype), value))
    if not fits:
        raise ConfigError(f"{where}: option 'value': {value!r} does not fit to the dtype {dtype!r} (option 'dtype').")
