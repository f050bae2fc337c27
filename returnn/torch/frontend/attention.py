"""Attention by PyTorch's own operation, which can use fused kernels."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch

from returnn.frontend._ops.layout import raw_in_order
from returnn.frontend._ops.nn.attention import AttentionOps
from returnn.frontend.dropout import dropout
from returnn.frontend.run_ctx import get_run_ctx
from returnn.tensor import Dim, Tensor
from returnn.tensor.dim_rules import twin


class AttentionTorchOps(AttentionOps):
    """For the meaning of the operations see `returnn.frontend._backends.required`."""

    @classmethod
    def scaled_dot_product_attention(
        cls,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        attention_mask: Tensor | None = None,
        att_dropout: float = 0.0,
        att_dropout_broadcast: bool,
        v_feat_dim: Dim,
        qk_feat_dim: Dim,
        kv_spatial_dim: Dim,
        query_spatial_dim: Dim,
        is_causal: bool = False,
        scale: float | None = None,
    ) -> Tensor:
        """:return: attention; by single operations where PyTorch's does not fit"""
        options = {
            "attention_mask": attention_mask,
            "att_dropout": att_dropout,
            "att_dropout_broadcast": att_dropout_broadcast,
            "v_feat_dim": v_feat_dim,
            "qk_feat_dim": qk_feat_dim,
            "kv_spatial_dim": kv_spatial_dim,
            "query_spatial_dim": query_spatial_dim,
            "is_causal": is_causal,
            "scale": scale,
        }
        query, key, value = cls.as_tensor(query), cls.as_tensor(key), cls.as_tensor(value)
        common = [dim for dim in query.dims if dim not in (query_spatial_dim, qk_feat_dim)]
        layouts = (
            [*common, query_spatial_dim, qk_feat_dim],
            [*common, kv_spatial_dim, qk_feat_dim],
            [*common, kv_spatial_dim, v_feat_dim],
        )
        operands = (query, key, value)
        fits = all(_has_just(x, dims) for x, dims in zip(operands, layouts, strict=True))
        drop = att_dropout if att_dropout and get_run_ctx().is_train_flag_enabled(func=dropout) is True else 0.0
        # Padding is only behind the last frame of a query that counts, if the keys are the frames of the queries.
        only_causal = is_causal and attention_mask is None and kv_spatial_dim == twin(query_spatial_dim)
        mask = None if only_causal else cls._mask(attention_mask, kv_spatial_dim, query_spatial_dim, is_causal)
        fits = fits and (mask is None or set(mask.dims) <= {*layouts[0], kv_spatial_dim})
        fits = fits and (torch.jit.is_tracing() or kv_spatial_dim.get_dim_value() > 0)  # over nothing, PyTorch's is NaN
        if not fits or (drop and att_dropout_broadcast):
            return super().scaled_dot_product_attention(query, key, value, **options)
        raw_query, raw_key, raw_value = (
            raw_in_order(x.copy_masked(0, dims=[kv_spatial_dim]) if kv_spatial_dim in x.dims else x, dims)
            for x, dims in zip(operands, layouts, strict=True)
        )
        raw_mask = (
            None if mask is None else mask.copy_compatible_to_dims_raw([*common, query_spatial_dim, kv_spatial_dim])
        )
        out = Tensor("attention", [*common, query_spatial_dim, v_feat_dim], query.dtype, feature_dim=v_feat_dim)
        attend = functools.partial(
            torch.nn.functional.scaled_dot_product_attention,
            attn_mask=raw_mask,
            dropout_p=drop,
            is_causal=only_causal,
            scale=scale,
        )
        out._raw_tensor = cls.product_raw(attend, raw_query, raw_key, raw_value, dtype=query.dtype)
        return out

    @staticmethod
    def sdpa_varlen_raw(
        *,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        seq_starts_q: torch.Tensor,
        seq_lens_q: torch.Tensor,
        seq_starts_kv: torch.Tensor,
        seq_lens_kv: torch.Tensor,
        max_len_q: int,
        max_len_kv: int,
        is_causal: bool,
        dropout_p: float,
        scale: float | None,
    ) -> torch.Tensor:
        """:return: attention, one sequence after the other"""
        parts = []
        rows = torch.stack([seq_starts_q, seq_lens_q, seq_starts_kv, seq_lens_kv]).t().tolist()
        for start, length, kv_start, kv_length in rows:
            q, k, v = (
                x[begin : begin + size].movedim(0, -2)
                for x, begin, size in ((query, start, length), (key, kv_start, kv_length), (value, kv_start, kv_length))
            )
            if kv_length:
                out = torch.nn.functional.scaled_dot_product_attention(
                    q[None], k[None], v[None], dropout_p=dropout_p, is_causal=is_causal, scale=scale
                )[0]
            else:
                out = q.new_zeros([*q.shape[:-1], v.shape[-1]])  # over nothing, PyTorch's is NaN
            parts.append(out.movedim(-2, 0))
        return torch.cat(parts)

    @classmethod
    def _mask(cls, mask: Tensor | None, kv_spatial_dim: Dim, query_spatial_dim: Dim, is_causal: bool) -> Tensor | None:
        """:return: bool, True where a frame can be seen, and is none beyond the end; None: all can"""
        mask = cls.visible_frames(mask, kv_spatial_dim, query_spatial_dim if is_causal else None)
        if not kv_spatial_dim.need_masking():
            return mask
        valid = kv_spatial_dim.get_mask()
        return valid if mask is None else cls.combine(mask, "logical_and", valid, allow_broadcast_all_sources=True)


def _has_just(x: Tensor, dims: Sequence[Dim]) -> bool:
    return len(x.dims) == len(dims) and set(x.dims) == set(dims)
