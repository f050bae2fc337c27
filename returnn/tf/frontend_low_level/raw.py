"""Operations on raw TensorFlow tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import tensorflow as tf

from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_low_level.device import on_device
from returnn.tf.frontend_low_level.graph_text import format_graph_output
from returnn.tf.frontend_low_level.outermost_graph import (
    graph_around,
    is_computed_from_constants,
    is_computed_from_own_input,
)
from returnn.tf.frontend_low_level.products import loop_products
from returnn.tf.frontend_low_level.products.attention_energies import attention_energies
from returnn.tf.frontend_low_level.products.outer_product import is_outer_product, outer_product
from returnn.tf.frontend_low_level.products.outside import transposed
from returnn.tf.frontend_low_level.scope import is_visible

_COMPARE: dict[str, Callable[..., Any]] = {
    kind: getattr(tf.math, kind) for kind in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
}
_COMBINE: dict[str, Callable[..., Any]] = {
    "add": tf.add,
    "sub": tf.subtract,
    "mul": tf.multiply,
    "truediv": tf.realdiv,
    "floordiv": tf.math.floordiv,
    "mod": tf.math.floormod,
    "pow": tf.pow,
    "maximum": tf.maximum,
    "minimum": tf.minimum,
    "logical_and": tf.logical_and,
    "logical_or": tf.logical_or,
    "squared_difference": lambda a, b: tf.math.squared_difference(a, b) if a.dtype.is_floating else tf.square(a - b),
}
_ACTIVATION: dict[str, Callable[[Any], Any]] = {
    "identity": lambda x: x,
    "neg": tf.negative,
    "gelu": lambda x: 0.5 * x * (1 + tf.math.erf(x * 0.5**0.5)),  # tf.nn.gelu has float32 constants in it
    "silu": tf.nn.silu,
    "swish": tf.nn.silu,
    "relu": tf.nn.relu,
    "elu": tf.nn.elu,
    "selu": tf.nn.selu,
    "softsign": tf.nn.softsign,
    "logical_not": tf.logical_not,
}
_REDUCE: dict[str, Callable[..., Any]] = {
    "sum": tf.reduce_sum,
    "max": tf.reduce_max,
    "min": tf.reduce_min,
    "mean": tf.reduce_mean,
    "logsumexp": tf.reduce_logsumexp,
    "any": tf.reduce_any,
    "all": tf.reduce_all,
}


class RawTFOps:
    """Operations on raw TensorFlow tensors. For their meaning see `returnn.frontend._backends.required`."""

    @staticmethod
    def executing_eagerly() -> bool:
        """:return: whether we are outside of any graph"""
        return tf.executing_eagerly()

    @staticmethod
    def get_dtype_name_raw(raw_tensor: tf.Tensor) -> str:
        """:return: dtype name"""
        return raw_tensor.dtype.base_dtype.name

    @staticmethod
    def as_dtype_raw(dtype_name: str) -> tf.DType:
        """:return: TensorFlow dtype"""
        return tf.as_dtype(dtype_name)

    @staticmethod
    def get_ndim_raw(raw_tensor: tf.Tensor) -> int:
        """:return: number of axes"""
        return raw_tensor.shape.ndims

    @staticmethod
    def get_shape_raw(raw_tensor: tf.Tensor) -> tf.Tensor:
        """:return: shape as tensor"""
        return tf.shape(raw_tensor)

    @staticmethod
    def get_shape_tuple_raw(raw_tensor: tf.Tensor) -> tuple[Any, ...]:
        """:return: sizes, as numbers where known"""
        known = raw_tensor.shape.as_list()
        if None not in known:
            return tuple(known)
        dynamic = tf.shape(raw_tensor)
        return tuple(dynamic[i] if size is None else size for i, size in enumerate(known))

    @staticmethod
    def get_known_shape_raw(raw_tensor: tf.Tensor) -> tuple[int | None, ...]:
        """:return: sizes where known"""
        return tuple(raw_tensor.shape.as_list())

    @staticmethod
    def set_known_shape_raw(raw_tensor: tf.Tensor, shape: tuple[int | None, ...]) -> None:
        """Notes what is known about the shape."""
        raw_tensor.set_shape(shape)

    @classmethod
    def get_new_dim_raw(cls, raw_tensor: tf.Tensor, axis: int, *, name: str) -> Dim:
        """:return: new dim of the size of the axis"""
        size = cls.get_shape_tuple_raw(raw_tensor)[axis]
        if isinstance(size, int):
            return Dim(size, name=name)
        return Dim(Tensor(f"{name}:size", dims=(), dtype="int32", raw_tensor=size), name=name)

    @staticmethod
    def raw_to_numpy(raw_tensor: tf.Tensor) -> numpy.ndarray:
        """:return: value of a constant"""
        value = tf.get_static_value(raw_tensor)
        if value is None:
            raise TypeError(f"{raw_tensor} is not constant, its value is only known when the graph runs")
        return numpy.asarray(value)

    device_scope_raw = staticmethod(on_device)

    @staticmethod
    def create_placeholder_raw(tensor: Tensor) -> tf.Tensor:
        """:return: placeholder"""
        return tf.compat.v1.placeholder(tensor.dtype, shape=tensor.batch_shape, name=tensor.get_scope_name())

    @staticmethod
    def fill_raw(shape: Any, value: Any) -> tf.Tensor:
        """:return: full tensor"""
        return tf.fill(shape, value)

    @staticmethod
    def cast_raw(raw_tensor: tf.Tensor, dtype: str) -> tf.Tensor:
        """:return: tensor of another dtype"""
        return tf.cast(raw_tensor, dtype)

    @staticmethod
    def compare_raw(a: tf.Tensor, kind: str, b: tf.Tensor) -> tf.Tensor:
        """:return: comparison"""
        return _COMPARE[kind](a, b)

    @staticmethod
    def combine_raw(a: tf.Tensor, kind: str, b: tf.Tensor) -> tf.Tensor:
        """:return: combination"""
        if kind == "pow" and a.dtype == tf.uint8:  # the last digits of a product depend on those of its factors alone
            return tf.cast(tf.pow(tf.cast(a, tf.int32), tf.cast(b, tf.int32)), tf.uint8)
        if kind == "logaddexp":
            high = tf.maximum(a, b)
            high = tf.where(tf.math.is_finite(high), high, tf.zeros_like(high))
            return tf.stop_gradient(high) + tf.math.log(
                tf.exp(a - tf.stop_gradient(high)) + tf.exp(b - tf.stop_gradient(high))
            )
        if kind == "add" and _is_bias(a, b):
            return tf.nn.bias_add(a, b)
        return _COMBINE[kind](a, b)

    @staticmethod
    def activation_raw(raw_tensor: tf.Tensor, func: str) -> tf.Tensor:
        """:return: elementwise function"""
        if raw_tensor.dtype.is_integer and func in ("ceil", "floor"):
            return raw_tensor
        if raw_tensor.dtype.is_unsigned and func in ("abs", "neg"):
            return raw_tensor if func == "abs" else tf.zeros_like(raw_tensor) - raw_tensor
        function = _ACTIVATION.get(func) or getattr(tf.math, func)
        return function(raw_tensor)

    @staticmethod
    def reshape_raw(raw_tensor: tf.Tensor, shape: Any) -> tf.Tensor:
        """:return: reshaped tensor"""
        return tf.reshape(raw_tensor, shape)

    @staticmethod
    def squeeze_raw(raw_tensor: tf.Tensor, axes: Sequence[int]) -> tf.Tensor:
        """:return: tensor without these axes"""
        return tf.squeeze(raw_tensor, axis=list(axes))

    @staticmethod
    def transpose_raw(raw_tensor: tf.Tensor, perm: Sequence[int]) -> tf.Tensor:
        """:return: transposed tensor"""
        return transposed(raw_tensor, perm)

    @staticmethod
    def expand_dims_raw(raw_tensor: tf.Tensor, axis: int) -> tf.Tensor:
        """:return: tensor with a new axis"""
        return tf.expand_dims(raw_tensor, axis)

    @staticmethod
    def expand_raw(raw_tensor: tf.Tensor, axis: int, dim: Any) -> tf.Tensor:
        """:return: tensor repeated along an axis"""
        multiples: list[Any] = [1] * raw_tensor.shape.ndims
        multiples[axis] = dim
        return tf.tile(raw_tensor, multiples)

    @staticmethod
    def have_sequence_mask_raw() -> bool:
        """:return: True"""
        return True

    @staticmethod
    def sequence_mask_raw(lengths: tf.Tensor, *, batch_major: bool = True) -> tf.Tensor:
        """:return: mask"""
        frames = tf.range(tf.maximum(tf.reduce_max(lengths), 0), dtype=lengths.dtype)
        return frames[None, :] < lengths[:, None] if batch_major else frames[:, None] < lengths[None, :]

    @staticmethod
    def name_scope_raw(name: str) -> Any:
        """:return: name scope"""
        return tf.name_scope(name)

    @staticmethod
    def control_dependencies_raw(dependencies: Sequence[Any]) -> Any:
        """:return: context in which operations run after the dependencies"""
        return tf.control_dependencies(list(dependencies))

    @staticmethod
    def identity_with_control_dependencies_raw(raw_tensor: tf.Tensor, dependencies: Sequence[Any]) -> tf.Tensor:
        """:return: the same value, computed after the dependencies"""
        with tf.control_dependencies(list(dependencies)):
            return tf.identity(raw_tensor)

    @staticmethod
    def is_valid_in_current_graph(tensor: Tensor) -> bool:
        """:return: whether the value can be used in the current graph"""
        return tensor.raw_tensor is None or is_visible(tensor.raw_tensor)

    @staticmethod
    def format_graph_output(raw_tensor: tf.Tensor, *, max_depth: int | None = None) -> str:
        """:return: a line for each operation, below the one that needs it"""
        return format_graph_output(raw_tensor, max_depth)

    @staticmethod
    def graph_of_value(tensor: Tensor) -> Any:
        """:return: context"""
        raw = tensor.raw_tensor
        return contextlib.nullcontext() if raw is None or not is_visible(raw) else graph_around(raw)

    @staticmethod
    def is_computed_from_own_input(tensor: Tensor) -> bool:
        """:return: whether the value is computed in the outermost graph, and without placeholders of a network"""
        return tensor.raw_tensor is not None and is_computed_from_own_input(tensor.raw_tensor)

    @staticmethod
    def is_computed_from_constants(tensor: Tensor) -> bool:
        """:return: whether the value is computed in the outermost graph, and nothing has to be fed for it"""
        raw = tensor.raw_tensor
        return raw is not None and (not tf.is_tensor(raw) or is_computed_from_constants(raw))

    @staticmethod
    def should_pickle_tensor(raw_tensor: tf.Tensor) -> bool:
        """:return: False: it is part of a graph"""
        return False

    @staticmethod
    def reduce_raw(raw_tensor: tf.Tensor, mode: str, axes: Sequence[int]) -> tf.Tensor:
        """:return: reduction"""
        if mode.startswith("arg"):
            return getattr(tf, mode)(raw_tensor, axis=axes[0], output_type=tf.int32)
        return _REDUCE[mode](raw_tensor, axis=list(axes))

    @staticmethod
    def matmul_raw(a: tf.Tensor, b: tf.Tensor, *, transpose_a: bool = False, transpose_b: bool = False) -> tf.Tensor:
        """:return: matrix product"""
        if not (transpose_a or transpose_b) and is_outer_product(a, b):
            return outer_product(a, b)
        if not (transpose_a or transpose_b) and (energies := attention_energies(a, b)) is not None:
            return energies
        return loop_products.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)

    @staticmethod
    def range_raw(size: Any, dtype: str, device: str | None) -> tf.Tensor:
        """:return: 0, 1, ..., size - 1"""
        with on_device(device):
            if dtype in ("int32", "int64", "float32", "float64"):
                size = tf.cast(size, dtype) if isinstance(size, tf.Tensor) else size
                return tf.range(size, dtype=dtype)
            return tf.cast(tf.range(size), dtype)

    @staticmethod
    def where_raw(cond: tf.Tensor, true_: tf.Tensor, false_: tf.Tensor) -> tf.Tensor:
        """:return: elementwise choice"""
        rank = max(x.shape.rank or 0 for x in (true_, false_))
        for _ in range(rank - (cond.shape.rank or rank)):  # inside of loops, TensorFlow can take a vector as (N, 1)
            cond = tf.expand_dims(cond, 0)
        return tf.where(cond, true_, false_)

    @staticmethod
    def constant_raw(value: Any, dtype: str, device: str | None) -> tf.Tensor:
        """:return: constant"""
        with on_device(device):
            if dtype == "bool" and not tf.is_tensor(value):
                value = numpy.asarray(value, "bool")
            return tf.convert_to_tensor(value, dtype=dtype)

    @staticmethod
    def copy_raw(raw_tensor: tf.Tensor) -> tf.Tensor:
        """:return: tensor with its own operation"""
        return tf.identity(raw_tensor)

    @staticmethod
    def copy_to_device(x: Tensor, device: str | None) -> Tensor:
        """:return: tensor on the device"""
        if device is None or x.raw_tensor is None:
            return x
        out = x.copy_template()
        with on_device(device):
            out._raw_tensor = tf.identity(x.raw_tensor)
        return out

    @staticmethod
    def get_device(x: Tensor) -> str | None:
        """:return: the device that the operation was placed on, if any"""
        return x.raw_tensor.device or None

    @staticmethod
    def runtime_sanity_checks(tensor: Tensor) -> tf.Operation:
        """:return: operation that checks the shape of the value against the dims"""
        shape = tf.shape(tensor.raw_tensor)
        expected = tf.stack([tf.cast(dim.get_dim_value(), tf.int32) for dim in tensor.dims])
        message = f"{tensor.get_description()}: the shape of the value is not that of the dims"
        return tf.debugging.Assert(tf.reduce_all(tf.equal(shape, expected)), [message, shape, expected])


def _is_bias(a: tf.Tensor, b: tf.Tensor) -> bool:
    """
    :return: whether b is added to the last axis of a. Where TensorFlow knows it as bias, its gradient takes a tenth of
        the time of that of a sum which broadcasts. Besides, inside of loops and branches, TensorFlow 2.21 breaks graphs
        with `matmul + bias` which is added to itself, also by code of a user ("Retval[0] does not have value"); it does
        not look for that where the bias is known
    """
    is_vector = a.dtype.is_floating and b.shape.rank == 1 and (a.shape.rank or 0) > 1
    return is_vector and b.shape[0] is not None and a.shape[-1] == b.shape[0]
