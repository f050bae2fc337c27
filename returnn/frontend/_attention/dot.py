"""Attention by scalar products (Vaswani et al. 2017)."""

from __future__ import annotations

from typing import Any

from returnn.config.current import current_config
from returnn.frontend._backend import get_backend_of
from returnn.frontend._ops.nn.attention import scaled_query
from returnn.frontend._ops.operands import require_dims
from returnn.frontend.dropout import dropout_broadcast_default
from returnn.tensor import Dim, Tensor


def dot_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    key_dim: Dim,
    axis: Dim,
    att_dropout: float = 0.0,
    att_dropout_broadcast: bool | None = None,
    causal_query_spatial_dim: Dim | None = None,
    scale: float | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """
    `softmax_axis(query * keys * scale) * values`. Frames beyond the ends of the sequences get no weight.

    :param query: {..., key_dim}
    :param keys: {..., axis, key_dim}
    :param values: {..., axis}
    :param key_dim: to compare query and keys
    :param axis: to attend to
    :param att_dropout: probability to drop a weight, in training
    :param att_dropout_broadcast: whether a frame is dropped for all queries and heads together. Default: the option
        `rf_att_dropout_broadcast` of the config
    :param causal_query_spatial_dim: dim of the query; each one sees only the frames of `axis` up to its own position
    :param scale: of the scalar products. Default: 1 / sqrt(size of key_dim)
    :param mask: {..., axis}, bool, True where a frame can be seen
    :return: the dims of values without `axis`, and those of the query without `key_dim`; 0 where no frame can be seen
    """
    require_dims("dot_attention: key_dim", query, [key_dim], operands=[query, keys])
    require_dims("dot_attention: key_dim, axis", keys, [key_dim, axis], operands=[query, keys])
    require_dims("dot_attention: axis", values, [axis], operands=[keys, values])
    options: dict[str, Any] = {
        "att_dropout": att_dropout,
        "att_dropout_broadcast": att_dropout_broadcast_or_default(att_dropout_broadcast),
        "kv_spatial_dim": axis,
    }
    backend = get_backend_of(query, keys, values, mask)
    query_dim = causal_query_spatial_dim or _only_dim([d for d in query.dims if d not in (*keys.dims, *values.dims)])
    value_dim = _only_dim([d for d in values.dims if d not in (*keys.dims, *query.dims) or d == key_dim])
    if query_dim is not None and value_dim is not None:
        return backend.scaled_dot_product_attention(
            query,
            keys,
            values,
            attention_mask=mask,
            v_feat_dim=value_dim,
            qk_feat_dim=key_dim,
            query_spatial_dim=query_dim,
            is_causal=causal_query_spatial_dim is not None,
            scale=scale,
            **options,
        )
    energy = backend.matmul(scaled_query(backend, query, key_dim, scale), keys, reduce=key_dim)
    visible = backend.visible_frames(mask, axis, causal_query_spatial_dim)
    return backend.attention_by_energy(energy, values, mask=visible, sees_some_frame=mask is None, **options)


def att_dropout_broadcast_or_default(value: bool | None) -> bool:
    """:return: what was given; or else by the config"""
    if value is not None:
        return value
    config = current_config()
    by_config = None if config is None else config.options.rf_att_dropout_broadcast
    return dropout_broadcast_default() if by_config is None else by_config


def _only_dim(dims: list[Dim]) -> Dim | None:
    return dims[0] if len(dims) == 1 else None
