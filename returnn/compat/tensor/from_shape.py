"""
The old ways to describe the axes of a tensor, as in `extern_data = {"data": {"shape": (None, 40)}}`.

`shape` counts without the batch axis, None stands for a time axis; `dim` is the size of the feature axis, or the number
of labels if `sparse`. `dim_tags` gives the dims themselves, and `same_dim_tags_as` some of them by their description.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from returnn.compat.tensor.batch_size import take_batch_size_from
from returnn.tensor.dim import Dim, batch_dim
from returnn.tensor.dim_types import DimKind
from returnn.tensor.tensor import Tensor
from returnn.tensor.tensor_batch import declare_to_be_the_batch
from returnn.util.errors import DimError, check_known
from returnn.util.not_specified import NotSpecified

_OPTIONS = (
    "shape",
    "dim",
    "dim_tags",
    "batch_dim_axis",
    "sparse",
    "same_dim_tags_as",
    "size_placeholder",
    "auto_create_placeholders",
)
_OPTIONS_OF_TENSOR = (
    "time_dim_axis",
    "available_for_inference",
    "batch",
    "beam",
    "control_flow_ctx",
    "vocab",
)


@dataclass(frozen=True)
class DescribedDims:
    """What the old forms mean in the words of `Tensor`."""

    dims: tuple[Dim, ...]
    sparse_dim: Dim | None


def accept_old_forms(init: Callable[..., None]) -> Callable[..., None]:
    """
    :param init: constructor of `Tensor`
    :return: the same, which also takes the options of `dims_from_shape`, and `placeholder` for `raw_tensor`
    """

    def init_with_old_forms(
        self: Tensor,
        name: str,
        dims: Sequence[Dim] | None = None,
        dtype: str | None = None,
        *,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
        feature_dim_axis: int | type[NotSpecified] | None = NotSpecified,
        raw_tensor: Any = None,
        version: int | None = None,
        **kwargs: Any,
    ) -> None:
        """
        See `returnn.tensor.tensor_base` and `dims_from_shape`.

        :param version: default: 2 with `dims`, 1 with the old ways of describing the axes
        """
        if dims is not None and not kwargs:  # each operation makes a tensor like this, so it has to be fast
            init(
                self,
                name,
                dims,
                dtype,
                sparse_dim=sparse_dim,
                feature_dim=feature_dim,
                feature_dim_axis=feature_dim_axis,
                raw_tensor=raw_tensor,
                version=2 if version is None else version,
            )
            return
        options = {"sparse_dim": sparse_dim, "feature_dim": feature_dim, "feature_dim_axis": feature_dim_axis, **kwargs}
        _init_by_old_forms(self, init, name, dims, dtype, raw_tensor=raw_tensor, version=version, **options)

    return init_with_old_forms


def _init_by_old_forms(
    tensor: Tensor,
    init: Callable[..., None],
    name: str,
    dims: Sequence[Dim] | None,
    dtype: str | None,
    *,
    raw_tensor: Any,
    version: int | None,
    **options: Any,
) -> None:
    known = ("sparse_dim", "feature_dim", "feature_dim_axis", *_OPTIONS_OF_TENSOR)
    old = {option: options.pop(option) for option in list(options) if option not in known}
    placeholder = old.pop("placeholder", None)
    is_old_form = _is_shape_form(old)
    if dims is None or is_old_form:
        described = dims_from_shape(
            name,
            dims=dims,
            sparse_dim=options["sparse_dim"],
            time_dim_axis=options.get("time_dim_axis", NotSpecified),
            feature_dim_axis=options["feature_dim_axis"],
            vocab=options.get("vocab"),
            **old,
        )
        dims, options["sparse_dim"] = described.dims, described.sparse_dim
        version = 1 if version is None else version
    init(
        tensor,
        name,
        dims,
        dtype,
        raw_tensor=placeholder if raw_tensor is None else raw_tensor,
        version=2 if version is None else version,
        **options,
    )
    _check_dim(tensor, old.get("dim"))
    if old.get("size_placeholder"):
        tensor.size_placeholder = old["size_placeholder"]  # type: ignore[attr-defined]
    if old.get("auto_create_placeholders"):
        tensor.create_placeholders()
    if placeholder is not None or old.get("auto_create_placeholders"):
        take_batch_size_from(tensor)


def dims_from_shape(
    name: str,
    *,
    dims: Sequence[Dim] | None,
    sparse_dim: Dim | None,
    time_dim_axis: int | type[NotSpecified] | None,
    feature_dim_axis: int | type[NotSpecified] | None,
    vocab: Any,
    shape: Sequence[int | None] | None = None,
    dim: int | type[NotSpecified] | None = NotSpecified,
    dim_tags: Sequence[Dim] | None = None,
    batch_dim_axis: int | type[NotSpecified] | None = NotSpecified,
    sparse: bool | None = None,
    same_dim_tags_as: Mapping[str, Dim] | None = None,
    size_placeholder: Any = None,
    auto_create_placeholders: bool = False,
) -> DescribedDims:
    """
    :raises DimError: if the options contradict each other
    """
    sparse = sparse_dim is not None if sparse is None else sparse
    if isinstance(dim, Dim):
        if sparse:
            sparse_dim = dim
        dim = dim.size
    given = dims if dims is not None else dim_tags
    if given is not None:
        axes = list(given)
        if dim_tags is not None:
            declare_to_be_the_batch(axes)
        _check_no_contradiction(name, axes, shape, batch_dim_axis)
    else:
        shape_, batch_axis = _complete_shape(name, shape, dim, batch_dim_axis, time_dim_axis, sparse)
        if vocab is not None and dim is NotSpecified and sparse:
            dim = getattr(vocab, "num_labels", NotSpecified)
        axes = _make_dims(name, shape_, batch_axis, time_dim_axis, feature_dim_axis, sparse)
        if dim is NotSpecified and not sparse and shape_:
            dim = shape_[-1]
    if sparse and sparse_dim is None:
        size = dim if isinstance(dim, int) else None
        sparse_dim = Dim(size, name=f"{name}:sparse-dim", kind=DimKind.Feature, auto_generated=True)
    for description, same in (same_dim_tags_as or {}).items():
        axes[_axis_of_description(name, axes, description, time_dim_axis)] = same
    return DescribedDims(tuple(axes), sparse_dim)


def _check_no_contradiction(
    name: str, dims: Sequence[Dim], shape: Sequence[int | None] | None, batch_dim_axis: int | type[NotSpecified] | None
) -> None:
    if shape is not None:
        sizes = tuple(d.size for d in dims if not d.is_batch_dim())
        if sizes != tuple(shape):
            raise DimError(f"tensor {name!r}: the shape {tuple(shape)} does not fit the dims {list(dims)}.")
    if isinstance(batch_dim_axis, int) and not dims[batch_dim_axis].is_batch_dim():
        raise DimError(f"tensor {name!r}: batch_dim_axis is {batch_dim_axis}, but the dims are {list(dims)}.")


def _check_dim(tensor: Tensor, dim: Any) -> None:
    size = dim.size if isinstance(dim, Dim) else dim
    if isinstance(size, int) and tensor.dim != size:
        raise DimError(
            f"option 'dim' is {size}, but {tensor} has no feature dim of this size.\n"
            "  For labels: 'sparse': True. Otherwise 'shape' has the feature dim, too, such as (None, 40)."
        )


def _complete_shape(
    name: str,
    shape: Sequence[int | None] | None,
    dim: Any,
    batch_dim_axis: int | type[NotSpecified] | None,
    time_dim_axis: int | type[NotSpecified] | None,
    sparse: bool,
) -> tuple[tuple[int | None, ...], int | None]:
    """:return: shape without batch axis; the batch axis"""
    batch_axis: int | None = 0 if batch_dim_axis is NotSpecified else batch_dim_axis  # type: ignore[assignment]
    if shape is None:
        if dim is NotSpecified and not sparse:
            raise DimError(f"tensor {name!r}: one of 'dims', 'dim_tags', 'shape' or 'dim' is needed.")
        has_time = time_dim_axis is not None
        shape = ((None,) if has_time else ()) + (() if sparse else (dim,))
        if batch_dim_axis is NotSpecified and time_dim_axis == 0:
            batch_axis = 1
    elif isinstance(shape, int):
        raise DimError(f"tensor {name!r}: shape must be a tuple such as (None, {shape}), got {shape}.")
    if batch_dim_axis is NotSpecified and isinstance(time_dim_axis, int) and time_dim_axis == 0:
        batch_axis = 1
    return tuple(shape), batch_axis


def _make_dims(
    name: str,
    shape: tuple[int | None, ...],
    batch_axis: int | None,
    time_dim_axis: int | type[NotSpecified] | None,
    feature_dim_axis: int | type[NotSpecified] | None,
    sparse: bool,
) -> list[Dim]:
    sizes: list[int | None] = list(shape)
    ndim = len(sizes) + (batch_axis is not None)
    for option, axis in (("batch_dim_axis", batch_axis), ("time_dim_axis", time_dim_axis)):
        if isinstance(axis, int) and not -ndim <= axis < ndim:
            raise DimError(f"tensor {name!r}: {option} is {axis}, but there are {ndim} axes.")
    if batch_axis is not None:
        batch_axis %= ndim
        sizes.insert(batch_axis, None)
    others = [i for i in range(ndim) if i != batch_axis]
    if time_dim_axis is NotSpecified:
        time_axis = next((i for i in others if sizes[i] is None), None)
    else:
        time_axis = time_dim_axis % ndim if isinstance(time_dim_axis, int) else None
    if feature_dim_axis is NotSpecified:
        rest = [] if sparse else [i for i in others if i != time_axis]
        static = [i for i in rest if sizes[i] is not None]
        feature_axis = (static or rest)[-1] if rest else None
    else:
        feature_axis = feature_dim_axis % ndim if isinstance(feature_dim_axis, int) else None
    dims: list[Dim] = []
    for i, size in enumerate(sizes):
        if i == batch_axis:
            dims.append(batch_dim)
        elif i == feature_axis:
            dims.append(Dim(size, name=f"feature:{name}", kind=DimKind.Feature, auto_generated=size is not None))
        else:
            kind = "time" if i == time_axis else f"spatial{sum(j != batch_axis for j in range(i))}"
            label = f"{kind}:var:{name}" if size is None else f"{kind}:static{size}:{name}"
            same_size = [d for d in dims if d.is_spatial_dim() and d.size == size]  # dims of one tensor are never equal
            dims.append(Dim(size, name=label, kind=DimKind.Spatial, auto_generated=size is not None and not same_size))
    return dims


def _axis_of_description(
    name: str, dims: Sequence[Dim], description: str | int, time_dim_axis: int | type[NotSpecified] | None
) -> int:
    """:return: the axis which a key of `same_dim_tags_as` means: "B", "T", "F" or a number, counted without batch"""
    key = description.lower() if isinstance(description, str) else description
    without_batch = [i for i, d in enumerate(dims) if not d.is_batch_dim()]
    if isinstance(key, int):
        return without_batch[key]
    if key in ("t", "time"):
        if isinstance(time_dim_axis, int):
            return time_dim_axis
        candidates = [i for i in without_batch if dims[i].is_spatial_dim()]
        candidates.sort(key=lambda i: dims[i].size is not None)
    elif key in ("b", "batch"):
        candidates = [i for i, d in enumerate(dims) if d.is_batch_dim()]
    elif key in ("f", "feature"):
        candidates = [i for i, d in enumerate(dims) if d.is_feature_dim()]
    else:
        raise DimError(f"tensor {name!r}: same_dim_tags_as: unknown axis {description!r}. Possible: 'B', 'T', 'F'.")
    if not candidates:
        raise DimError(f"tensor {name!r}: same_dim_tags_as: there is no axis {description!r} in {list(dims)}.")
    return candidates[0]


def _is_shape_form(options: Mapping[str, Any]) -> bool:
    """
    :return: whether one of the old forms is used
    :raises ConfigError: for an option that does not exist
    """
    for option in options:
        check_known("option", option, _OPTIONS, where="tensor")
    return any(options.get(option) is not None for option in ("shape", "dim", "dim_tags", "sparse", "same_dim_tags_as"))
