"""Parameters: arrays that are changed in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

from returnn.frontend._backends.numpy.raw import RawNumpyOps, check_device
from returnn.frontend._ops.layout import raw_for_broadcast
from returnn.tensor import Dim, Tensor

if TYPE_CHECKING:
    from returnn.frontend.parameter import Parameter


class ParameterNumpyOps:
    """For the meaning of the operations see `returnn.frontend._backends.required`."""

    @classmethod
    def create_parameter_raw(cls, tensor: Parameter, *, device: str | None = None) -> numpy.ndarray:
        """:return: array with the initial value"""
        check_device(device)
        raw = numpy.zeros([dim.get_dim_value() for dim in tensor.dims], RawNumpyOps.as_dtype_raw(tensor.dtype))
        _write(raw, tensor, tensor.draw_initial_value())
        return raw

    @staticmethod
    def set_parameter_initial_value(param: Parameter, value: Any) -> None:
        """Writes the value."""
        _write(param.raw_tensor, param, value)

    @staticmethod
    def set_parameter_trainable(param: Parameter, trainable: bool) -> None:
        """Nothing to do: there is no training with numpy."""

    @staticmethod
    def parameter_assign_raw(param: Parameter, value: Any, op: str) -> None:
        """Writes the value."""
        new = _raw(value, param.dims)
        raw = param.raw_tensor
        raw[...] = raw + new if op == "add" else new

    @staticmethod
    def parameter_assign_key_raw(
        param: Parameter, axes: Sequence[Dim], keys: Sequence[Any], dims: Sequence[Dim], value: Any, op: str
    ) -> None:
        """Writes the value to a part."""
        rest = [dim for dim in param.dims if dim not in axes]
        view = numpy.transpose(param.raw_tensor, [param.dims.index(dim) for dim in (*axes, *rest)])
        index = tuple(_index(one_key, view.shape[i], dims) for i, one_key in enumerate(keys))
        new = _raw(value, [*dims, *rest])
        view[index] = view[index] + new if op == "add" else new

    @staticmethod
    def parameter_move_to(param: Parameter, *, device: str | None = None, dtype: str | None = None) -> None:
        """Changes the dtype."""
        check_device(device)
        if dtype is not None:
            param.replace_raw(param.raw_tensor.astype(dtype), dtype)


def _write(raw: numpy.ndarray, param: Parameter, value: Any) -> None:
    raw[...] = _raw(value, param.dims)


def _raw(value: Any, dims: Sequence[Dim]) -> Any:
    return raw_for_broadcast(value, dims) if isinstance(value, Tensor) else value


def _index(key: Any, size: int, dims: Sequence[Dim]) -> Any:
    """:return: indices, with one axis for each of `dims`, or fewer, in front of which others can be added"""
    if isinstance(key, tuple):
        cut, dim = key
        frames = numpy.arange(size)[slice(*(_number(x) for x in (cut.start, cut.stop, cut.step)))]
        key = Tensor("slice", dims=[dim], dtype="int64", raw_tensor=frames)
    return _raw(key, dims)


def _number(x: Any) -> int | None:
    return int(x.raw_tensor) if isinstance(x, Tensor) else x
