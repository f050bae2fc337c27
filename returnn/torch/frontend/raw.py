"""Operations on raw PyTorch tensors."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch

from returnn.frontend._ops.limits import extreme_value
from returnn.tensor import Dim, Tensor
from returnn.torch.frontend.sizes import as_shape, as_size, has_entries
from returnn.util.errors import DimError

COMPARE: dict[str, Callable[..., Any]] = {
    "equal": torch.eq,
    "not_equal": torch.ne,
    "less": torch.lt,
    "less_equal": torch.le,
    "greater": torch.gt,
    "greater_equal": torch.ge,
}
_MIRRORED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
COMBINE: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
    "maximum": lambda a, b: _clamp_or(torch.maximum, "min", a, b),
    "minimum": lambda a, b: _clamp_or(torch.minimum, "max", a, b),
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "squared_difference": lambda a, b: torch.square(a - b),
    "logaddexp": torch.logaddexp,
}
ACTIVATION: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "identity": lambda x: x,
    "log_sigmoid": torch.nn.functional.logsigmoid,
    "relu": torch.relu,
    "elu": torch.nn.functional.elu,
    "selu": torch.selu,
    "silu": torch.nn.functional.silu,
    "swish": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "softplus": torch.nn.functional.softplus,
    "softsign": torch.nn.functional.softsign,
}
_REDUCE: dict[str, Callable[..., Any]] = {
    "sum": torch.sum,
    "max": torch.amax,
    "min": torch.amin,
    "mean": torch.mean,
    "logsumexp": torch.logsumexp,
}


def activation_function(name: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """:return: elementwise function"""
    return ACTIVATION.get(name) or getattr(torch, name)  # type: ignore[no-any-return]


def _clamp_or(function: Callable[..., torch.Tensor], bound: str, a: Any, b: Any) -> torch.Tensor:
    """:return: function(a, b); with a number as operand, as `clamp`"""
    if not isinstance(b, torch.Tensor):
        return torch.clamp(a, **{bound: b})
    if not isinstance(a, torch.Tensor):
        return torch.clamp(b, **{bound: a})
    return function(a, b)


def _extreme_of_nothing(x: torch.Tensor, mode: str, axes: Sequence[int]) -> torch.Tensor:
    """:return: the lowest value of the dtype for "max", the highest for "min", as TensorFlow has it"""
    sizes = [size for axis, size in enumerate(x.shape) if axis not in axes]
    return x.new_full(sizes, extreme_value(RawTorchOps.get_dtype_name_raw(x), highest=mode == "min"))


class RawTorchOps:
    """Operations on raw PyTorch tensors. For their meaning see `returnn.frontend._backends.required`."""

    matmul_folds_axes = True

    @staticmethod
    def executing_eagerly() -> bool:
        """:return: whether values are for now, rather than an example that a graph is made by, as for an export"""
        return not torch.jit.is_tracing()

    @staticmethod
    def get_dtype_name_raw(raw_tensor: torch.Tensor) -> str:
        """:return: dtype name"""
        return str(raw_tensor.dtype).removeprefix("torch.")

    @staticmethod
    def as_dtype_raw(dtype_name: str) -> torch.dtype:
        """:return: PyTorch dtype"""
        dtype = getattr(torch, dtype_name)
        assert isinstance(dtype, torch.dtype)
        return dtype

    @staticmethod
    def get_ndim_raw(raw_tensor: torch.Tensor) -> int:
        """:return: number of axes"""
        return raw_tensor.ndim

    @staticmethod
    def get_shape_raw(raw_tensor: torch.Tensor) -> tuple[int, ...]:
        """:return: shape"""
        return tuple(raw_tensor.shape)

    @staticmethod
    def get_shape_tuple_raw(raw_tensor: torch.Tensor) -> tuple[int, ...]:
        """:return: shape"""
        return tuple(raw_tensor.shape)

    @staticmethod
    def get_known_shape_raw(raw_tensor: torch.Tensor) -> tuple[int | None, ...]:
        """:return: shape"""
        return (None,) * raw_tensor.ndim if torch.jit.is_tracing() else tuple(raw_tensor.shape)

    @staticmethod
    def set_known_shape_raw(raw_tensor: torch.Tensor, shape: tuple[int | None, ...]) -> None:
        """Checks the shape."""
        if torch.jit.is_tracing():
            return
        if len(shape) != raw_tensor.ndim or any(
            s not in (None, n) for s, n in zip(shape, raw_tensor.shape, strict=True)
        ):
            raise DimError(f"the shape is {tuple(raw_tensor.shape)}, expected {shape}.")

    @staticmethod
    def get_new_dim_raw(raw_tensor: torch.Tensor, axis: int, *, name: str) -> Dim:
        """:return: new dim of the size of the axis"""
        return Dim(int(raw_tensor.shape[axis]), name=name)

    @staticmethod
    def raw_to_numpy(raw_tensor: torch.Tensor) -> numpy.ndarray:
        """:return: the value"""
        return raw_tensor.detach().cpu().numpy()

    @staticmethod
    def fill_raw(shape: Sequence[int], value: Any) -> torch.Tensor:
        """:return: full tensor"""
        if isinstance(value, torch.Tensor):
            return value.expand(as_shape(shape)).clone()
        return torch.full(as_shape(shape), value)

    @classmethod
    def cast_raw(cls, raw_tensor: torch.Tensor, dtype: str) -> torch.Tensor:
        """:return: tensor of another dtype"""
        if not isinstance(raw_tensor, torch.Tensor):  # a number beside a tensor takes the dtype of that
            return raw_tensor
        return raw_tensor.to(cls.as_dtype_raw(dtype))

    @staticmethod
    def compare_raw(a: torch.Tensor, kind: str, b: torch.Tensor) -> torch.Tensor:
        """:return: comparison"""
        if not isinstance(a, torch.Tensor):  # a number
            return COMPARE[_MIRRORED.get(kind, kind)](b, a)
        return COMPARE[kind](a, b)

    @staticmethod
    def combine_raw(a: torch.Tensor, kind: str, b: torch.Tensor) -> torch.Tensor:
        """:return: combination"""
        return COMBINE[kind](a, b)

    @staticmethod
    def activation_raw(raw_tensor: torch.Tensor, func: str) -> torch.Tensor:
        """:return: elementwise function"""
        return activation_function(func)(raw_tensor)

    @staticmethod
    def reshape_raw(raw_tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
        """:return: reshaped tensor"""
        return torch.reshape(raw_tensor, as_shape(shape))

    @staticmethod
    def squeeze_raw(raw_tensor: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
        """:return: tensor without these axes"""
        return torch.squeeze(raw_tensor, tuple(axes))

    @staticmethod
    def transpose_raw(raw_tensor: torch.Tensor, perm: Sequence[int]) -> torch.Tensor:
        """:return: transposed tensor"""
        return torch.permute(raw_tensor, tuple(perm))

    @staticmethod
    def expand_dims_raw(raw_tensor: torch.Tensor, axis: int) -> torch.Tensor:
        """:return: tensor with a new axis"""
        return torch.unsqueeze(raw_tensor, axis)

    @staticmethod
    def expand_raw(raw_tensor: torch.Tensor, axis: int, dim: int) -> torch.Tensor:
        """:return: view of the tensor, repeated along an axis"""
        shape = [-1] * raw_tensor.ndim
        shape[axis] = as_size(dim)
        return raw_tensor.expand(shape)

    @staticmethod
    def have_sequence_mask_raw() -> bool:
        """:return: True"""
        return True

    @staticmethod
    def sequence_mask_raw(lengths: torch.Tensor, *, batch_major: bool = True) -> torch.Tensor:
        """:return: mask"""
        frames = torch.arange(as_size(lengths.max()) if has_entries(lengths) else 0, device=lengths.device)
        return frames[None, :] < lengths[:, None] if batch_major else frames[:, None] < lengths[None, :]

    @classmethod
    def reduce_raw(cls, raw_tensor: torch.Tensor, mode: str, axes: Sequence[int]) -> torch.Tensor:
        """:return: reduction"""
        if mode.startswith("arg"):
            return getattr(torch, mode)(raw_tensor, dim=axes[0]).to(torch.int32)
        if not axes:
            return raw_tensor
        if mode in ("any", "all"):
            return getattr(torch, mode)(raw_tensor, dim=tuple(axes))
        if mode in ("max", "min") and not has_entries(raw_tensor, axes):
            return _extreme_of_nothing(raw_tensor, mode, axes)
        if mode == "sum":
            return torch.sum(raw_tensor, dim=tuple(axes), dtype=raw_tensor.dtype)
        return _REDUCE[mode](raw_tensor, dim=tuple(axes))

    @classmethod
    def _reduce_function(cls, mode: str, axis: Dim, number: int) -> Callable[[torch.Tensor], torch.Tensor]:
        """:return: `reduce_raw` of one axis, with as little as possible left to decide"""
        if mode in _REDUCE and mode != "sum" and axis.size:
            return functools.partial(_REDUCE[mode], dim=number)
        return functools.partial(cls.reduce_raw, mode=mode, axes=(number,))

    @staticmethod
    def matmul_raw(
        a: torch.Tensor, b: torch.Tensor, *, transpose_a: bool = False, transpose_b: bool = False
    ) -> torch.Tensor:
        """:return: matrix product"""
        # ONNX knows no `mT`.
        a, b = a.transpose(-2, -1) if transpose_a else a, b.transpose(-2, -1) if transpose_b else b
        return torch.matmul(a, b)

    @classmethod
    def range_raw(cls, size: int, dtype: str, device: str | None) -> torch.Tensor:
        """:return: 0, 1, ..., size - 1"""
        return torch.arange(as_size(size), dtype=cls.as_dtype_raw(dtype), device=device)

    @staticmethod
    def where_raw(cond: torch.Tensor, true_: torch.Tensor, false_: torch.Tensor) -> torch.Tensor:
        """:return: elementwise choice"""
        if all(isinstance(x, torch.Tensor) and x.dtype == torch.bool for x in (true_, false_)):
            # No runtime of ONNX chooses from these.
            return (cond & true_) | (~cond & false_)
        return torch.where(cond, true_, false_)

    @classmethod
    def constant_raw(cls, value: Any, dtype: str, device: str | None) -> torch.Tensor:
        """:return: tensor from a number or array"""
        if isinstance(value, torch.Tensor):
            return value.to(device=device, dtype=cls.as_dtype_raw(dtype))
        if isinstance(value, (int, float)):
            return torch.tensor(value, dtype=cls.as_dtype_raw(dtype), device=device)
        return torch.tensor(numpy.asarray(value), dtype=cls.as_dtype_raw(dtype), device=device)

    @classmethod
    def number_raw(cls, value: Any, dtype: str, other: Tensor) -> Any:
        """:return: the number, which takes the dtype of the tensor beside it"""
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return value if is_number else cls.constant_raw(value, dtype, other.device)

    @staticmethod
    def copy_raw(raw_tensor: torch.Tensor) -> torch.Tensor:
        """:return: tensor with its own memory"""
        return raw_tensor.clone()

    @staticmethod
    def get_device(x: Tensor) -> str | None:
        """:return: device name"""
        return None if x._raw_tensor is None else str(x._raw_tensor.device)

    @staticmethod
    def copy_to_device(x: Tensor, device: str | None) -> Tensor:
        """:return: tensor on the device"""
        if device is None or x.raw_tensor is None or str(x.raw_tensor.device) == device:
            return x
        out = x.copy_template()
        out._raw_tensor = x.raw_tensor.to(device)
        return out

    @staticmethod
    def should_pickle_tensor(raw_tensor: torch.Tensor) -> bool:
        """:return: True"""
        return True

    @staticmethod
    def runtime_sanity_checks(tensor: Tensor) -> None:
        """Checks the shape of the value."""
        sizes = tuple(int(dim.get_dim_value()) for dim in tensor.dims)
        if sizes != tuple(tensor.raw_tensor.shape):
            raise DimError(f"{tensor}: the value has the shape {tuple(tensor.raw_tensor.shape)}, the dims say {sizes}.")
