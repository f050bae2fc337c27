"""Parameters of PyTorch: `torch.nn.Parameter`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from returnn.frontend._ops.layout import raw_for_broadcast
from returnn.tensor import Dim, Tensor
from returnn.torch.frontend.raw import RawTorchOps

if TYPE_CHECKING:
    from returnn.frontend.parameter import Parameter


class ParameterTorchOps(RawTorchOps):
    """For their meaning see `returnn.frontend._backends.required`."""

    @classmethod
    def create_parameter_raw(cls, tensor: Parameter, *, device: str | None = None) -> torch.nn.Parameter:
        """:return: parameter with the initial value"""
        shape = [dim.get_dim_value() for dim in tensor.dims]
        raw = torch.zeros(shape, dtype=cls.as_dtype_raw(tensor.dtype), device=device)
        _write(raw, tensor, tensor.draw_initial_value())
        return torch.nn.Parameter(raw, requires_grad=bool(tensor.trainable))

    @staticmethod
    def set_parameter_initial_value(param: Parameter, value: Any) -> None:
        """Writes the value."""
        _write(param.raw_tensor, param, value)

    @staticmethod
    def set_parameter_trainable(param: Parameter, trainable: bool) -> None:
        """Sets whether PyTorch computes a gradient for it."""
        param.raw_tensor.requires_grad = trainable

    @classmethod
    def parameter_assign_raw(cls, param: Parameter, value: Any, op: str) -> None:
        """Writes the value."""
        with torch.no_grad():
            new = _raw(value, param, param.dims)
            raw = param.raw_tensor
            raw.add_(new) if op == "add" else raw.copy_(new)

    @classmethod
    def parameter_assign_key_raw(
        cls, param: Parameter, axes: Sequence[Dim], keys: Sequence[Any], dims: Sequence[Dim], value: Any, op: str
    ) -> None:
        """Writes the value to a part."""
        rest = [dim for dim in param.dims if dim not in axes]
        with torch.no_grad():
            view = param.raw_tensor.permute([param.dims.index(dim) for dim in (*axes, *rest)])
            index = tuple(_index(one_key, view.shape[i], dims, view.device) for i, one_key in enumerate(keys))
            new = _raw(value, param, [*dims, *rest])
            view[index] = view[index] + new if op == "add" else new

    @classmethod
    def parameter_move_to(cls, param: Parameter, *, device: str | None = None, dtype: str | None = None) -> None:
        """Moves the value; a gradient goes with it. The parameter stays the same object for PyTorch."""
        raw = param.raw_tensor
        torch_dtype = None if dtype is None else cls.as_dtype_raw(dtype)
        raw.data = raw.data.to(device=device, dtype=torch_dtype)
        if raw.grad is not None:
            raw.grad = raw.grad.to(device=device, dtype=torch_dtype)
        param.replace_raw(raw, dtype or param.dtype)


def _raw(value: Any, param: Parameter, dims: Sequence[Dim]) -> torch.Tensor:
    if isinstance(value, Tensor):
        return raw_for_broadcast(value, dims)
    return torch.as_tensor(value, dtype=param.raw_tensor.dtype, device=param.raw_tensor.device)


def _write(raw: torch.Tensor, param: Parameter, value: Any) -> None:
    with torch.no_grad():
        new = raw_for_broadcast(value, param.dims) if isinstance(value, Tensor) else torch.as_tensor(value)
        raw.copy_(new)


def _index(key: Any, size: int, dims: Sequence[Dim], device: torch.device) -> torch.Tensor:
    """:return: indices, with one axis for each of `dims`"""
    if isinstance(key, tuple):
        cut, dim = key
        bounds = slice(*(_number(x) for x in (cut.start, cut.stop, cut.step))).indices(size)
        frames = torch.arange(*bounds, device=device)
        key = Tensor("slice", dims=[dim], dtype="int64", raw_tensor=frames)
    if isinstance(key, Tensor):
        return raw_for_broadcast(key, dims).to(device=device, dtype=torch.int64)
    return torch.as_tensor(key, device=device)


def _number(x: Any) -> int | None:
    return int(x.raw_tensor) if isinstance(x, Tensor) else x
