"""The forms in which configs give the dims of data: `data_dims`, `output_dim` and so on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from returnn.datasets.core.dataset_seq import DEFAULT_KEY

DataDim: TypeAlias = "int | list[int] | tuple[int, int] | dict[str, Any]"


def convert_data_dims(data_dims: int | Mapping[str, DataDim], leave_dict_as_is: bool = False) -> dict[str, Any]:
    """
    :param data_dims: one dim, of the key "classes"; or by key a dim, a pair (dim, ndim), or a dict as in `extern_data`
    :param leave_dict_as_is: whether such a dict stays one
    :return: key -> (dim, ndim), ndim counts the axes of one sequence, with time: 1 for labels, 2 for features
    """
    if isinstance(data_dims, int):
        data_dims = {"classes": data_dims}
    return {key: _convert(key, dim, leave_dict_as_is) for key, dim in data_dims.items()}


def _convert(key: str, dim: DataDim, leave_dict_as_is: bool) -> Any:
    if isinstance(dim, int):
        return dim, 2 if key == DEFAULT_KEY else 1
    if isinstance(dim, Mapping):
        return dict(dim) if leave_dict_as_is else _from_data_options(dim)
    size, ndim = dim
    return size, ndim


def shape_for_dims(options: Mapping[str, Any]) -> dict[str, Any]:
    """
    :param options: as in `extern_data`, maybe with `dims` or `dim_tags`
    :return: the same data with the `shape` of one sequence, `dim` and `sparse` in place of these
    """
    dims = options.get("dims") or options.get("dim_tags")
    if not dims:
        return dict(options)
    shape = [dim.size for dim in dims if not dim.is_batch_dim()]
    labels = options.get("sparse_dim")
    features = [dim.size for dim in dims if dim.is_feature_dim()] or shape[-1:]
    dim = getattr(labels, "size", labels) if labels is not None else features[-1] if features else None
    known = {"shape": shape, "sparse": labels is not None, "dim": dim}
    return {**{key: value for key, value in options.items() if key not in ("dims", "dim_tags")}, **known}


def _from_data_options(options: Mapping[str, Any]) -> tuple[int | None, int]:
    """:return: dim and ndim; of features, the shape says how many there are, too"""
    options = shape_for_dims(options)
    shape, labels = options.get("shape"), options.get("sparse_dim")
    is_sparse = options.get("sparse", labels is not None)
    dim = options.get("dim", getattr(labels, "size", labels))
    if dim is None and shape and not is_sparse:
        dim = shape[-1]
    return dim, len(shape) if shape is not None else 1 if is_sparse else 2
