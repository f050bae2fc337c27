"""Random numpy values for templates, for tests and for trying things out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from returnn.tensor.dim import Dim
from returnn.tensor.tensor import Tensor
from returnn.tensor.tensor_dict import TensorDict


def tensor_dict_fill_random_numpy_(
    tensor_dict: TensorDict,
    *,
    rnd: int | numpy.random.RandomState = 42,
    dyn_dim_max_sizes: Mapping[Dim, int] | None = None,
    dyn_dim_min_sizes: Mapping[Dim, int] | None = None,
) -> None:
    """
    Fills all templates with random values, in place, and their dims with random lengths.

    :param rnd: seed, or random state
    :param dyn_dim_max_sizes: longest length of a dim
    :param dyn_dim_min_sizes: shortest length of a dim
    """
    state = rnd if isinstance(rnd, numpy.random.RandomState) else numpy.random.RandomState(rnd)
    for tensor in tensor_dict.data.values():
        tensor_fill_random_numpy_(
            tensor, rnd=state, dyn_dim_max_sizes=dyn_dim_max_sizes, dyn_dim_min_sizes=dyn_dim_min_sizes
        )


def tensor_fill_random_numpy_(
    x: Tensor,
    *,
    min_val: int = 0,
    max_val: int | None = None,
    rnd: numpy.random.RandomState | None = None,
    dyn_dim_max_sizes: Mapping[Dim, int] | None = None,
    dyn_dim_min_sizes: Mapping[Dim, int] | None = None,
) -> bool:
    """
    Fills one template. Integers are in [min_val, max_val), floats are normally distributed.

    :return: whether it had no value before
    """
    rnd = rnd or numpy.random.RandomState(42)
    max_sizes, min_sizes = dyn_dim_max_sizes or {}, dyn_dim_min_sizes or {}
    for dim in x.dims:
        if dim.size is None and dim.dyn_size is None:
            _fill_lengths(dim, x, rnd, max_sizes, min_sizes)
    if x.raw_tensor is not None:
        return False
    shape = [int(dim.get_dim_value()) for dim in x.dims]
    if x.dtype.startswith(("int", "uint")):
        if max_val is None:
            max_val = (x.sparse_dim.size if x.sparse_dim is not None and x.sparse_dim.size else None) or 10
        value: Any = rnd.randint(min_val, max(max_val, min_val + 1), size=shape)
    elif x.dtype == "bool":
        value = rnd.randint(0, 2, size=shape) > 0
    elif x.dtype.startswith("complex"):
        value = rnd.normal(size=shape) + 1j * rnd.normal(size=shape)
    else:
        value = rnd.normal(size=shape)
    x.raw_tensor = numpy.asarray(value, dtype=x.dtype)
    return True


def tensor_dict_dims_random_seq_len_min_max(
    tensor_dict: TensorDict, seq_lens: int | tuple[int, int] | Mapping[Any, Any] | None = None
) -> tuple[list[Dim], dict[Dim, tuple[int, int]]]:
    """
    :param tensor_dict: templates
    :param seq_lens: shortest and longest length (or one number for both), for all, or by dim, or by name of the tensor
    :return: the dynamic dims without the batch; shortest and longest length of each
    """
    by_key = seq_lens if isinstance(seq_lens, Mapping) else {None: seq_lens}
    ranges: dict[Dim, tuple[int, int]] = {}
    for name, tensor in tensor_dict.data.items():
        for dim in tensor.get_dyn_size_tags():
            value = by_key.get(dim, by_key.get(name, by_key.get(None)))
            value = (5, 15) if value is None else value
            ranges.setdefault(dim, (value, value) if isinstance(value, int) else value)
    return list(ranges), ranges


def get_random_seq_lens_for_dyn_dims(
    dims: Sequence[Dim],
    seq_len_min_max: Mapping[Dim, tuple[int, int]],
    *,
    batch_size: int = 1,
    rnd: int | numpy.random.RandomState = 1337,
) -> dict[Dim, numpy.ndarray]:
    """:return: lengths (B,) of each dim, between its shortest and longest"""
    state = rnd if isinstance(rnd, numpy.random.RandomState) else numpy.random.RandomState(rnd)
    return {
        dim: numpy.asarray(state.randint(low, high + 1, size=[batch_size]), dtype="int32")
        for dim, (low, high) in ((dim, seq_len_min_max[dim]) for dim in dims)
    }


def _fill_lengths(
    dim: Dim,
    x: Tensor,
    rnd: numpy.random.RandomState,
    max_sizes: Mapping[Dim, int],
    min_sizes: Mapping[Dim, int],
) -> None:
    for atom in dim.expression.atoms() if dim.is_derived() else ():
        if atom.size is None and atom.dyn_size is None:
            _fill_lengths(atom, x, rnd, max_sizes, min_sizes)
    if dim.is_derived():
        return
    if dim.dyn_size_ext is None:
        lengths_dims = () if dim.is_batch_dim() or not x.have_batch_axis() else (x.get_batch_dim_tag(),)
        dim.dyn_size_ext = Tensor(f"{dim.name}:lengths", dims=lengths_dims, dtype="int32")
    lengths = dim.dyn_size_ext
    assert lengths is not None
    low, high = min_sizes.get(dim, 2), max_sizes.get(dim, 7)
    for inner in lengths.dims:
        if inner.size is None and inner.dyn_size is None:
            _fill_lengths(inner, x, rnd, max_sizes, min_sizes)
    shape = [int(inner.get_dim_value()) for inner in lengths.dims]
    value = numpy.asarray(rnd.randint(low, high + 1, size=shape), dtype=lengths.dtype)
    if value.size:
        value.flat[0] = high  # the axis in memory is as long as the longest sequence
    filled = lengths.copy_template()
    filled.raw_tensor = value
    dim.dyn_size_ext = filled
