"""Operations on arrays."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy
from numpy import ndarray

from returnn.frontend._ops.limits import extreme_value
from returnn.tensor import Dim
from returnn.util.errors import DimError, UserError

if TYPE_CHECKING:
    from returnn.tensor import Tensor

COMPARE: dict[str, Callable[..., Any]] = {
    "equal": numpy.equal,
    "not_equal": numpy.not_equal,
    "less": numpy.less,
    "less_equal": numpy.less_equal,
    "greater": numpy.greater,
    "greater_equal": numpy.greater_equal,
}
COMBINE: dict[str, Callable[..., Any]] = {
    "add": numpy.add,
    "sub": numpy.subtract,
    "mul": numpy.multiply,
    "truediv": numpy.true_divide,
    "floordiv": numpy.floor_divide,
    "mod": numpy.mod,
    "pow": numpy.power,
    "maximum": numpy.maximum,
    "minimum": numpy.minimum,
    "logical_and": numpy.logical_and,
    "logical_or": numpy.logical_or,
    "squared_difference": lambda a, b: numpy.square(a - b),
    "logaddexp": numpy.logaddexp,
}

TEST: dict[str, Callable[..., Any]] = {
    "finite": numpy.isfinite,
    "infinite": numpy.isinf,
    "neg_infinite": numpy.isneginf,
}


def _erf(x: ndarray) -> ndarray:
    """Abramowitz and Stegun, formula 7.1.5: the Taylor series; for large values, the limit."""
    x = x.astype("float64")
    y = numpy.clip(x, -6, 6)
    term = total = y
    for n in range(1, 140):
        term = term * -(y**2) / n
        total = total + term / (2 * n + 1)
    return numpy.asarray(numpy.where(numpy.abs(x) >= 5, numpy.sign(x), 2 / numpy.sqrt(numpy.pi) * total))


def _sigmoid(x: ndarray) -> ndarray:
    return numpy.asarray(numpy.exp(_log_sigmoid(x)))


def _log_sigmoid(x: ndarray) -> ndarray:
    return numpy.asarray(-numpy.logaddexp(0, -x))


_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772  # Klambauer et al. 2017, section 2

ACTIVATION: dict[str, Callable[[ndarray], ndarray]] = {
    "identity": lambda x: x,
    "neg": numpy.negative,
    "abs": numpy.abs,
    "sign": numpy.sign,
    "square": numpy.square,
    "sqrt": numpy.sqrt,
    "rsqrt": lambda x: 1 / numpy.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "exp": numpy.exp,
    "expm1": numpy.expm1,
    "log": numpy.log,
    "log1p": numpy.log1p,
    "sin": numpy.sin,
    "cos": numpy.cos,
    "tan": numpy.tan,
    "atan": numpy.arctan,
    "tanh": numpy.tanh,
    "sigmoid": _sigmoid,
    "log_sigmoid": _log_sigmoid,
    "softplus": lambda x: numpy.logaddexp(0, x),
    "softsign": lambda x: x / (1 + numpy.abs(x)),
    "relu": lambda x: numpy.maximum(x, 0),
    "elu": lambda x: numpy.where(x > 0, x, numpy.expm1(numpy.minimum(x, 0))),
    "selu": lambda x: _SELU_SCALE * numpy.where(x > 0, x, _SELU_ALPHA * numpy.expm1(numpy.minimum(x, 0))),
    "silu": lambda x: x * _sigmoid(x),
    "swish": lambda x: x * _sigmoid(x),
    "gelu": lambda x: 0.5 * x * (1 + _erf(x / numpy.sqrt(2))),
    "erf": _erf,
    "ceil": numpy.ceil,
    "floor": numpy.floor,
    "round": numpy.round,
    "logical_not": numpy.logical_not,
}


def check_device(device: str | None) -> None:
    """:raises UserError: if it is not the one that numpy computes on"""
    if device is not None and device.split(":")[0] != "cpu":
        raise UserError(f"device {device!r}: the backend 'numpy' computes on the CPU only.\n  Possible: 'cpu', None.")


class RawNumpyOps:
    """Operations on arrays. For their meaning see `returnn.frontend._backends.raw`."""

    @staticmethod
    def executing_eagerly() -> bool:
        """:return: True"""
        return True

    @staticmethod
    def get_dtype_name_raw(raw_tensor: ndarray) -> str:
        """:return: dtype name"""
        return "string" if raw_tensor.dtype.kind in "OSU" else raw_tensor.dtype.name

    @staticmethod
    def as_dtype_raw(dtype_name: str) -> Any:
        """:return: numpy dtype"""
        return numpy.dtype(object if dtype_name == "string" else dtype_name)

    @staticmethod
    def get_ndim_raw(raw_tensor: ndarray) -> int:
        """:return: number of axes"""
        return raw_tensor.ndim

    @staticmethod
    def get_shape_raw(raw_tensor: ndarray) -> tuple[int, ...]:
        """:return: shape"""
        return raw_tensor.shape

    @staticmethod
    def get_shape_tuple_raw(raw_tensor: ndarray) -> tuple[int, ...]:
        """:return: shape"""
        return raw_tensor.shape

    @staticmethod
    def get_known_shape_raw(raw_tensor: ndarray) -> tuple[int, ...]:
        """:return: shape"""
        return raw_tensor.shape

    @staticmethod
    def set_known_shape_raw(raw_tensor: ndarray, shape: tuple[int | None, ...]) -> None:
        """Checks the shape."""
        if len(shape) != raw_tensor.ndim or any(
            s not in (None, n) for s, n in zip(shape, raw_tensor.shape, strict=True)
        ):
            raise DimError(f"the shape is {raw_tensor.shape}, expected {shape}.")

    @staticmethod
    def get_new_dim_raw(raw_tensor: ndarray, axis: int, *, name: str) -> Dim:
        """:return: new dim of the size of the axis"""
        return Dim(raw_tensor.shape[axis], name=name)

    @staticmethod
    def raw_to_numpy(raw_tensor: ndarray) -> ndarray:
        """:return: itself"""
        return raw_tensor

    @classmethod
    def fill_raw(cls, shape: Sequence[int | ndarray] | ndarray, value: Any) -> ndarray:
        """:return: full array"""
        value = numpy.asarray(value)
        return numpy.full([int(size) for size in shape], value, dtype=value.dtype)

    @staticmethod
    def device_scope_raw(device: str | None) -> Any:
        """:return: context without effect"""
        check_device(device)
        return contextlib.nullcontext()

    @classmethod
    def constant_raw(cls, value: Any, dtype: str, device: str | None) -> ndarray:
        """:return: array"""
        check_device(device)
        return numpy.asarray(value, dtype=cls.as_dtype_raw(dtype))

    @classmethod
    def number_raw(cls, value: Any, dtype: str, other: Tensor) -> ndarray:
        """:return: scalar"""
        return numpy.asarray(value, dtype=cls.as_dtype_raw(dtype))

    @staticmethod
    def range_raw(size: Any, dtype: str, device: str | None) -> ndarray:
        """:return: 0, 1, ..., size - 1"""
        check_device(device)
        return numpy.arange(int(size), dtype=dtype)

    @staticmethod
    def copy_raw(raw_tensor: ndarray) -> ndarray:
        """:return: array with its own memory"""
        return raw_tensor.copy()

    @classmethod
    @numpy.errstate(all="ignore")
    def cast_raw(cls, raw_tensor: ndarray, dtype: str) -> ndarray:
        """:return: array of another dtype"""
        return raw_tensor.astype(cls.as_dtype_raw(dtype))

    @staticmethod
    def compare_raw(a: ndarray, kind: str, b: ndarray) -> ndarray:
        """:return: comparison"""
        return numpy.asarray(COMPARE[kind](a, b))

    @staticmethod
    def combine_raw(a: ndarray, kind: str, b: ndarray) -> ndarray:
        """:return: combination"""
        with numpy.errstate(all="ignore"):  # padded frames may hold anything
            return numpy.asarray(COMBINE[kind](a, b))

    @staticmethod
    def activation_raw(raw_tensor: ndarray, func: str) -> ndarray:
        """:return: elementwise function"""
        with numpy.errstate(all="ignore"):
            value = numpy.asarray(ACTIVATION[func](raw_tensor))
        is_float = raw_tensor.dtype.kind == "f"
        return value.astype(raw_tensor.dtype) if is_float else value

    @staticmethod
    def where_raw(cond: ndarray, true_: ndarray, false_: ndarray) -> ndarray:
        """:return: elementwise choice"""
        return numpy.where(cond, true_, false_)

    @staticmethod
    @numpy.errstate(all="ignore")
    def reduce_raw(raw_tensor: ndarray, mode: str, axes: Sequence[int]) -> ndarray:
        """:return: reduction. Of nothing: 0, or the lowest or highest number."""
        value: Any
        if mode.startswith("arg"):
            value = getattr(numpy, mode)(raw_tensor, axis=axes[0]).astype("int32")
        elif mode in ("max", "min"):
            nothing = extreme_value(raw_tensor.dtype.name, highest=mode == "min")
            value = getattr(numpy, mode)(raw_tensor, axis=tuple(axes), initial=nothing)
        elif mode == "logsumexp":
            value = raw_tensor
            for axis in sorted((axis % raw_tensor.ndim for axis in axes), reverse=True):
                value = numpy.logaddexp.reduce(value, axis=axis)
        elif mode in ("any", "all"):
            value = getattr(numpy, mode)(raw_tensor, axis=tuple(axes))
        else:
            value = numpy.sum(raw_tensor, axis=tuple(axes), dtype=raw_tensor.dtype)
            if mode == "mean":
                value = value / numpy.asarray(max(math.prod(raw_tensor.shape[i] for i in axes), 1), raw_tensor.dtype)
        return numpy.asarray(value)

    @staticmethod
    @numpy.errstate(all="ignore")
    def matmul_raw(a: ndarray, b: ndarray, *, transpose_a: bool = False, transpose_b: bool = False) -> ndarray:
        """:return: matrix product"""
        a, b = a.swapaxes(-1, -2) if transpose_a else a, b.swapaxes(-1, -2) if transpose_b else b
        return numpy.asarray(numpy.matmul(a, b))

    @staticmethod
    @numpy.errstate(all="ignore")
    def cumsum_raw(raw_tensor: ndarray, axis: int) -> ndarray:
        """:return: sums"""
        return numpy.cumsum(raw_tensor, axis=axis, dtype=raw_tensor.dtype)

    @staticmethod
    def test_raw(raw_tensor: ndarray, kind: str) -> ndarray:
        """:return: test"""
        return numpy.asarray(TEST[kind](raw_tensor))

    @staticmethod
    def make_complex_raw(real: ndarray, imag: ndarray) -> ndarray:
        """:return: complex numbers"""
        out = numpy.empty(real.shape, "complex64" if real.dtype == numpy.float32 else "complex128")
        out.real, out.imag = real, imag
        return out

    @staticmethod
    def complex_as_real_raw(raw_tensor: ndarray) -> ndarray:
        """:return: both parts"""
        return numpy.stack([raw_tensor.real, raw_tensor.imag], axis=-1)

    @classmethod
    def real_as_complex_raw(cls, raw_tensor: ndarray) -> ndarray:
        """:return: complex numbers"""
        return cls.make_complex_raw(raw_tensor[..., 0], raw_tensor[..., 1])

    @staticmethod
    def rfft_raw(raw_tensor: ndarray, size: int) -> ndarray:
        """:return: spectrum"""
        dtype = "complex64" if raw_tensor.dtype == numpy.float32 else "complex128"
        return numpy.fft.rfft(raw_tensor, n=size).astype(dtype)

    @staticmethod
    def of_all_processes_raw(raw_tensor: ndarray) -> None:
        """:return: None: this backend has one process"""
        return

    @staticmethod
    def concat_raw(raw_tensors: Sequence[ndarray], axis: int) -> ndarray:
        """:return: concatenation"""
        return numpy.concatenate(raw_tensors, axis=axis)

    @staticmethod
    def stack_raw(raw_tensors: Sequence[ndarray]) -> ndarray:
        """:return: stacked"""
        return numpy.stack(raw_tensors)

    @staticmethod
    def unstack_raw(raw_tensor: ndarray, axis: int, number: int) -> Sequence[ndarray]:
        """:return: entries"""
        return [numpy.asarray(entry) for entry in numpy.moveaxis(raw_tensor, axis, 0)]

    @staticmethod
    def split_raw(raw_tensor: ndarray, sizes: Sequence[Any], axis: int) -> Sequence[ndarray]:
        """:return: pieces"""
        return numpy.split(raw_tensor, numpy.cumsum([int(size) for size in sizes])[:-1], axis=axis)

    @staticmethod
    def pad_raw(raw_tensor: ndarray, amounts: Sequence[tuple[Any, Any]], value: Any) -> ndarray:
        """:return: padded"""
        sides = [(int(left), int(right)) for left, right in amounts]
        return numpy.pad(raw_tensor, sides, constant_values=value)

    @staticmethod
    def flip_raw(raw_tensor: ndarray, axis: int) -> ndarray:
        """:return: flipped"""
        return numpy.flip(raw_tensor, axis=axis)

    @staticmethod
    def reshape_raw(raw_tensor: ndarray, shape: Sequence[int | ndarray] | ndarray) -> ndarray:
        """:return: reshaped array"""
        return raw_tensor.reshape([int(size) for size in shape])

    @staticmethod
    def squeeze_raw(raw_tensor: ndarray, axes: Sequence[int]) -> ndarray:
        """:return: array without these axes"""
        return numpy.squeeze(raw_tensor, axis=tuple(axes))

    @staticmethod
    def transpose_raw(raw_tensor: ndarray, perm: Sequence[int]) -> ndarray:
        """:return: transposed array"""
        return numpy.transpose(raw_tensor, perm)

    @staticmethod
    def expand_dims_raw(raw_tensor: ndarray, axis: int) -> ndarray:
        """:return: array with a new axis"""
        return numpy.expand_dims(raw_tensor, axis)

    @staticmethod
    def expand_raw(raw_tensor: ndarray, axis: int, dim: int | ndarray) -> ndarray:
        """:return: array repeated along an axis"""
        return numpy.repeat(raw_tensor, int(dim), axis=axis)

    @staticmethod
    def have_sequence_mask_raw() -> bool:
        """:return: True"""
        return True

    @staticmethod
    def sequence_mask_raw(lengths: ndarray, *, batch_major: bool = True) -> ndarray:
        """:return: mask"""
        mask = numpy.arange(lengths.max(initial=0))[None, :] < lengths[:, None]
        return mask if batch_major else mask.T

    @staticmethod
    def runtime_sanity_checks(tensor: Tensor) -> None:
        """Checks the shape of the value."""
        assert tensor.raw_tensor is not None
        sizes = tuple(int(dim.get_dim_value()) for dim in tensor.dims)
        if sizes != tensor.raw_tensor.shape:
            raise DimError(f"{tensor}: the value has the shape {tensor.raw_tensor.shape}, but the dims say {sizes}.")

    @staticmethod
    def copy_to_device(x: Tensor, device: str | None) -> Tensor:
        """:return: x"""
        check_device(device)
        return x

    @staticmethod
    def get_tensor_dependencies(x: Tensor) -> Sequence[Tensor]:
        """:return: nothing: arrays do not know where they come from"""
        return []

    @staticmethod
    def get_tensor_consumers(x: Tensor) -> Sequence[Tensor]:
        """:return: nothing: arrays do not know where they go to"""
        return []

    @staticmethod
    def get_device(x: Tensor) -> str:
        """:return: "cpu" """
        return "cpu"
