"""Tensors from values, elementwise choice, copies, dims of size 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from returnn.frontend._backend import get_backend_by_raw_tensor_type, get_backend_of, get_global_backend
from returnn.frontend.device import get_default_device
from returnn.frontend.dtype import get_default_float_dtype
from returnn.tensor import Dim, Tensor
from returnn.tensor.plans import plans
from returnn.util.errors import DimError
from returnn.util.texts.counted import counted


def convert_to_tensor(
    value: Any,
    *,
    dims: Sequence[Dim] | None = None,
    dtype: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
    shape: Sequence[Dim] | None = None,
    device: str | None = None,
    keep_scalar_on_cpu: bool = False,
    name: str | None = None,
    _backend: Any = None,
) -> Tensor:
    """
    :param value: number, numpy array, raw tensor; a tensor is returned as it is
    :param dims: its dims; default: made from its shape
    :param dtype: default: that of the value; the default float dtype for Python floats, int32 for Python integers
    :param sparse_dim: what the values are indices into
    :param feature_dim: one of the dims
    :param shape: old word for `dims`
    :param device: such as "cpu"
    :param keep_scalar_on_cpu: a number stays on the CPU, whatever the default device is
    :param name: for people
    :raises DimError: if the shape is not that of the dims, also of those whose lengths are known
    """
    if isinstance(value, Tensor):
        return value
    dims = shape if dims is None else dims
    if dtype is None:
        dtype = _dtype_of_value(value)
    if dims is None:
        ndim_shape = _shape_of_value(value)
        dims = [Dim(size, name=f"const-axis{i}", auto_generated=True) for i, size in enumerate(ndim_shape)]
    if keep_scalar_on_cpu and not dims:
        device = "cpu"
    elif device is None and dims and _is_plain(value):
        device = get_default_device()
    backend = _backend or (get_global_backend() if _is_plain(value) else get_backend_by_raw_tensor_type(type(value)))
    if dims and backend.computes and backend.executing_eagerly():
        _check_sizes(_shape_of_value(value), dims, name or "const")
    return backend.convert_to_tensor(
        value, dims=dims, dtype=dtype, sparse_dim=sparse_dim, feature_dim=feature_dim, device=device, name=name
    )


constant = convert_to_tensor  # the name for it when the value is a number or an array


def where(
    cond: Tensor | bool, true_: Tensor | Any, false_: Tensor | Any, *, allow_broadcast_all_sources: bool = False
) -> Tensor:
    """
    :param cond: bool
    :param true_: tensor or number, taken where `cond` is true
    :param false_: tensor or number, taken where it is not
    :param allow_broadcast_all_sources: whether it is fine that none of the three has all dims
    """
    if isinstance(cond, bool):
        return convert_to_tensor(true_ if cond else false_)
    if not allow_broadcast_all_sources and (out := plans.run("where", cond, true_, false_)) is not None:
        return out  # type: ignore[no-any-return]
    return get_backend_of(cond, true_, false_).where(
        cond, true_, false_, allow_broadcast_all_sources=allow_broadcast_all_sources
    )


def cast(tensor: Tensor, dtype: str) -> Tensor:
    """:return: tensor with another dtype"""
    return get_backend_of(tensor).cast(tensor, dtype)


def copy(tensor: Tensor) -> Tensor:
    """:return: a copy; changing one in place does not change the other"""
    return get_backend_of(tensor).copy(tensor)


def expand_dim(source: Tensor, dim: Dim) -> Tensor:
    """:return: source with `dim` added, the values repeated along it"""
    return get_backend_of(source).expand_dim(source, dim)


def expand_dims(source: Tensor, dims: Sequence[Dim]) -> Tensor:
    """:return: source with all `dims` added, the values repeated along them"""
    for dim in dims:
        source = expand_dim(source, dim)
    return source


def expand_to(source: Tensor, dims: Sequence[Dim]) -> Tensor:
    """
    :param source: tensor
    :param dims: dims, of which source can have some
    :return: source with all of `dims`, the values repeated along those that it did not have
    """
    for dim in dims:
        if dim not in source.dims:
            source = expand_dim(source, dim)
    return source


def squeeze(source: Tensor, axis: Dim) -> Tensor:
    """:return: source without `axis`, which has size 1"""
    return get_backend_of(source).squeeze(source, axis)


def make_complex(real: Tensor, imag: Tensor) -> Tensor:
    """:return: real + i * imag"""
    return get_backend_of(real, imag).make_complex(real, imag)


def complex_as_real(x: Tensor, *, out_dim: Dim | None = None) -> tuple[Tensor, Dim]:
    """
    :param x: complex
    :param out_dim: of size 2; default: a new one
    :return: real and imaginary part along the new dim; the dim
    """
    if out_dim is None:
        out_dim = Dim(2, name="real-imag", auto_generated=True)
    return get_backend_of(x).complex_as_real(x, out_dim=out_dim)


def real_as_complex(x: Tensor, *, pair_dim: Dim) -> Tensor:
    """
    :param x: {..., pair_dim}
    :param pair_dim: of size 2: real and imaginary part
    :return: {...}, complex
    """
    return get_backend_of(x).real_as_complex(x, pair_dim=pair_dim)


def _is_plain(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex, str, bytes, list, tuple, numpy.ndarray, numpy.generic))


def _dtype_of_value(value: Any) -> str:
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        return "string" if value.dtype.kind in "OSU" else value.dtype.name
    if _is_plain(value):
        kind = numpy.asarray(value).dtype.kind
        return {"b": "bool", "i": "int32", "u": "int32", "f": get_default_float_dtype(), "c": "complex64"}.get(
            kind, "string"
        )
    return get_backend_by_raw_tensor_type(type(value)).get_dtype_name_raw(value)


def _shape_of_value(value: Any) -> Sequence[int | None]:
    if _is_plain(value):
        return numpy.asarray(value).shape
    return get_backend_by_raw_tensor_type(type(value)).get_known_shape_raw(value)


def _check_sizes(shape: Sequence[int | None], dims: Sequence[Dim], name: str) -> None:
    """:raises DimError: if an axis is not as long as its dim, whose lengths are known: later operations would fail"""
    if len(shape) != len(dims):
        return  # the tensor says so
    for size, dim in zip(shape, dims, strict=True):
        lengths = dim.dyn_size_ext if dim.size is None and not dim.special else None
        if size is None or lengths is None or lengths.raw_tensor is None:
            continue
        if not get_backend_of(lengths).executing_eagerly():
            continue
        expected = dim.get_dim_value()
        if size == expected or (size > expected and dim.can_be_longer_in_memory()):
            continue
        text = f"convert_to_tensor: {name!r}: the value has the shape {tuple(shape)}, but {dim} has "
        if not dim.is_batch_dim():
            raise DimError(f"{text}{counted(expected, 'frame')} in the longest sequence.")
        raise DimError(
            f"{text}{counted(expected, 'sequence')}.\n"
            f"  For another batch, say how many it has: batch_dim.dyn_size_ext = rf.convert_to_tensor({size})."
        )
