"""What the output of a layer class of a user looks like that does not say it by `get_out_data_from_opts`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.user_code.out_type import call_out_type
from returnn.util.not_specified import NotSpecified

_DIMS = {"shape", "dims", "dim_tags"}  # options of `Tensor`


def template_like_source(
    name: str,
    network: Network | None = None,
    sources: Sequence[Any] = (),
    n_out: Any = NotSpecified,
    out_dim: Dim | None = None,
    out_type: dict[str, Any] | Callable[..., Tensor] | None = None,
    **other: Any,
) -> Tensor:
    """
    :param name: of the layer
    :param network: of the layer
    :param sources: layers
    :param n_out: size of the feature dim
    :param out_dim: the feature dim
    :param out_type: see `LayerBase`
    :param other: further options of the layer
    :return: like the first source, with another feature dim if one is given; or as `out_type` says
    """
    if callable(out_type):
        options = {"network": network, "sources": sources, "n_out": n_out, "out_dim": out_dim, **other}
        return call_out_type(out_type, name=f"{name}_output", where=f"layer {name!r}", **options)
    options = dict(out_type or {})
    if out_dim is None and n_out not in (NotSpecified, None):
        options.setdefault("dim", n_out)
    if not sources:
        if out_dim is not None and not _DIMS & set(options):
            options["dim"] = out_dim.dimension
        return Tensor(**{"name": f"{name}_output", **options})
    source = sources[0].output.copy_template(name=f"{name}_output")
    if _DIMS & set(options):
        return Tensor(**{"name": f"{name}_output", "dtype": source.dtype, **options})
    if out_dim is None and options.get("dim") is not None:
        out_dim = Dim(options["dim"], name=f"{name}:feature-dense", kind=Dim.Types.Feature, auto_generated=True)
    return _changed(source, out_dim, is_sparse=bool(options.get("sparse")), dtype=options.get("dtype"))


def _changed(source: Tensor, feature: Dim | None, *, is_sparse: bool, dtype: str | None) -> Tensor:
    """:return: the template with this feature dim, or with labels of this dim"""
    source = source.copy_template_dense() if source.sparse and not is_sparse else source
    axis = source.feature_dim_axis
    if feature is not None and is_sparse:
        dims = [dim for i, dim in enumerate(source.dims) if i != axis]
        return Tensor(source.name, dims=dims, sparse_dim=feature, dtype=dtype or "int32", version=1)
    if feature is not None and axis is not None:
        source = source.copy_template_replace_dim_tag(axis, feature).copy_with_roles(feature_dim=feature)
    elif feature is not None:
        source = source._insert_dim(feature, len(source.dims)).copy_with_roles(feature_dim=feature)
    return source.copy_template(dtype=dtype)
