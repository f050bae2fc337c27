"""
Attention. The methods here are made of others; a backend may know a faster way.

Vaswani et al. 2017; relative positions: Dai et al. 2019 (Transformer-XL); rotary positions: Su et al. 2021 (RoFormer).
"""

from __future__ import annotations

from typing import Any

from returnn.frontend._ops.concat import ConcatOps
from returnn.frontend._ops.matmul import MatmulOps
from returnn.frontend._ops.merge_split import MergeSplitOps
from returnn.frontend._ops.pad import PadOps
from returnn.frontend._ops.slice import SliceOps
from returnn.frontend._ops.softmax import SoftmaxOps
from returnn.tensor import Dim, Tensor
from returnn.tensor._frontend import frontend
from returnn.tensor.dim_rules import padded_dim, twin
from returnn.util.errors import DimError


class AttentionOps(PadOps, SoftmaxOps, MatmulOps, MergeSplitOps, ConcatOps, SliceOps):
    """Attention over the frames of `kv_spatial_dim`. Frames beyond the ends of its sequences get no weight."""

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
        """
        :param query: {..., query_spatial_dim, qk_feat_dim}
        :param key: {..., kv_spatial_dim, qk_feat_dim}
        :param value: {..., kv_spatial_dim, v_feat_dim}
        :param attention_mask: {..., kv_spatial_dim}, bool, True where a frame can be seen
        :param att_dropout: probability to drop a weight, in training
        :param att_dropout_broadcast: whether a frame is dropped for all queries and heads together
        :param v_feat_dim: features that come out
        :param qk_feat_dim: to compare query and key
        :param kv_spatial_dim: to attend to
        :param query_spatial_dim: of the query
        :param is_causal: whether a query sees only the frames up to its own position
        :param scale: of the scalar products. Default: 1 / sqrt(size of qk_feat_dim)
        :return: {..., query_spatial_dim, v_feat_dim}; 0 for a query that sees no frame
        """
        energy = cls.matmul(scaled_query(cls, query, qk_feat_dim, scale), key, reduce=qk_feat_dim)
        mask = cls.visible_frames(attention_mask, kv_spatial_dim, query_spatial_dim if is_causal else None)
        out: Tensor = cls.attention_by_energy(
            energy,
            value,
            mask=mask,
            sees_some_frame=attention_mask is None,
            kv_spatial_dim=kv_spatial_dim,
            att_dropout=att_dropout,
            att_dropout_broadcast=att_dropout_broadcast,
        )
        out.feature_dim = v_feat_dim
        return out

    @classmethod
    def rel_pos_self_attention(
        cls,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        pos_emb: Tensor,
        *,
        pos_bias_u: Tensor | None,
        pos_bias_v: Tensor | None,
        att_dropout: float = 0.0,
        att_dropout_broadcast: bool,
        v_feat_dim: Dim,
        qk_feat_dim: Dim,
        kv_spatial_dim: Dim,
        query_spatial_dim: Dim,
        pos_emb_spatial_dim: Dim,
    ) -> Tensor:
        """
        The energy of a query and a key is `(q + u) * k + (q + v) * p` (Dai et al. 2019, section 3.3), where p stands
        for the position of the key relative to the query.

        :param query: {..., query_spatial_dim, qk_feat_dim}
        :param key: {..., kv_spatial_dim, qk_feat_dim}
        :param value: {..., kv_spatial_dim, v_feat_dim}
        :param pos_emb: {..., pos_emb_spatial_dim, qk_feat_dim}; its first frame stands for the first key as the last
            query sees it, its last one for the last key as the first query sees it
        :param pos_bias_u: {..., qk_feat_dim}, u
        :param pos_bias_v: {..., qk_feat_dim}, v
        :param att_dropout: probability to drop a weight, in training
        :param att_dropout_broadcast: whether a frame is dropped for all queries and heads together
        :param v_feat_dim: features that come out
        :param qk_feat_dim: to compare query and key
        :param kv_spatial_dim: to attend to
        :param query_spatial_dim: of the query
        :param pos_emb_spatial_dim: in memory one less than query_spatial_dim and kv_spatial_dim together
        :return: {..., query_spatial_dim, v_feat_dim}
        """
        energy = rel_pos_energy(
            cls,
            query,
            key,
            pos_emb,
            biases=(pos_bias_u, pos_bias_v),
            qk_feat_dim=qk_feat_dim,
            kv_spatial_dim=kv_spatial_dim,
            query_spatial_dim=query_spatial_dim,
            pos_emb_spatial_dim=pos_emb_spatial_dim,
        )
        out: Tensor = cls.attention_by_energy(
            energy,
            value,
            mask=None,
            kv_spatial_dim=kv_spatial_dim,
            att_dropout=att_dropout,
            att_dropout_broadcast=att_dropout_broadcast,
        )
        out.feature_dim = v_feat_dim
        return out

    @classmethod
    def apply_rope(cls, x: Tensor, pos_enc: Tensor, feat_dim: Dim) -> Tensor:
        """
        Turns each pair of neighbouring features by an angle.

        :param x: {..., feat_dim}
        :param pos_enc: {..., feat_dim}: the sines of all angles, then the cosines
        :param feat_dim: of even size
        :return: {..., feat_dim}
        """
        half, pair = feat_dim.div_left(2), Dim(2, name="pair")
        if feat_dim.size is None or feat_dim.size % 2:
            raise DimError(f"apply_rope: {x}: the features {feat_dim} should be of a fixed even size.")
        sine, cosine = cls.unstack(cls.split_dims(pos_enc, axis=feat_dim, dims=(pair, half)), axis=pair)
        real, imaginary = cls.unstack(cls.split_dims(x, axis=feat_dim, dims=(half, pair)), axis=pair)

        def mul(a: Tensor, b: Tensor) -> Any:
            return cls.combine(a, "mul", b, allow_broadcast_all_sources=True)

        turned = [
            cls.combine(mul(real, cosine), "sub", mul(imaginary, sine)),
            cls.combine(mul(real, sine), "add", mul(imaginary, cosine)),
        ]
        out: Tensor
        out, _ = cls.merge_dims(cls.stack(turned, out_dim=pair), dims=(half, pair), out_dim=feat_dim)
        if x.feature_dim is not None:
            out.feature_dim = x.feature_dim
        return out

    @classmethod
    def visible_frames(
        cls, mask: Tensor | None, kv_spatial_dim: Dim, causal_query_spatial_dim: Dim | None
    ) -> Tensor | None:
        """
        :param mask: what can be seen otherwise, None: everything
        :param kv_spatial_dim: to attend to
        :param causal_query_spatial_dim: None: not causal
        :return: bool, True where a frame can be seen; None: all can
        """
        if causal_query_spatial_dim is None:
            return mask
        rf = frontend()
        position, query_position = rf.range_over_dim(kv_spatial_dim), rf.range_over_dim(causal_query_spatial_dim)
        causal: Tensor = cls.compare(query_position, "greater_equal", position, allow_broadcast_all_sources=True)
        if mask is not None:
            causal = cls.combine(mask, "logical_and", causal, allow_broadcast_all_sources=True)
        return causal

    @classmethod
    def attention_by_energy(
        cls,
        energy: Tensor,
        value: Tensor,
        *,
        mask: Tensor | None,
        sees_some_frame: bool = False,
        kv_spatial_dim: Dim,
        att_dropout: float,
        att_dropout_broadcast: bool,
    ) -> Tensor:
        """
        :param energy: {..., kv_spatial_dim}
        :param value: {..., kv_spatial_dim}
        :param mask: bool, True where a frame can be seen
        :param sees_some_frame: whether there is one for each query, such as itself
        :param kv_spatial_dim: to attend to
        :param att_dropout: probability to drop a weight, in training
        :param att_dropout_broadcast: whether a frame is dropped for all queries and heads together
        :return: sum of the values, weighted with the softmax of the energy; 0 if there is no frame to see
        """
        if mask is not None:
            energy = cls.where(mask, energy, float("-inf"), allow_broadcast_all_sources=True)
        weights = cls.softmax(energy, axis=kv_spatial_dim)
        if mask is not None and not sees_some_frame:
            weights = cls.where(mask, weights, 0.0, allow_broadcast_all_sources=True)
        weights = frontend().dropout(weights, att_dropout, axis=kv_spatial_dim if att_dropout_broadcast else None)
        out: Tensor = cls.matmul(weights, value, reduce=kv_spatial_dim)
        return out


def scaled_query(backend: type[AttentionOps], query: Tensor, qk_feat_dim: Dim, scale: float | None) -> Tensor:
    """:return: query times the scale, which is less than to scale all energies"""
    if scale is None:
        if qk_feat_dim.size is None:
            raise DimError(f"attention: {query}: the features {qk_feat_dim} should be of a fixed size.")
        scale = float(qk_feat_dim.size) ** -0.5
    return query if scale == 1 else backend.combine(query, "mul", scale)


def rel_pos_energy(
    backend: type[AttentionOps],
    query: Tensor,
    key: Tensor,
    pos_emb: Tensor,
    *,
    biases: tuple[Tensor | None, Tensor | None],
    qk_feat_dim: Dim,
    kv_spatial_dim: Dim,
    query_spatial_dim: Dim | None,
    pos_emb_spatial_dim: Dim,
) -> Tensor:
    """
    :param biases: u and v
    :param query_spatial_dim: None: there is a single query, and a position for each key
    :return: {..., query_spatial_dim, kv_spatial_dim}, see `AttentionOps.rel_pos_self_attention`, also for the others
    """
    scaled = scaled_query(backend, query, qk_feat_dim, None)
    by_content = backend.matmul(_with_bias(backend, scaled, biases[0], qk_feat_dim), key, reduce=qk_feat_dim)
    by_position = backend.matmul(_with_bias(backend, scaled, biases[1], qk_feat_dim), pos_emb, reduce=qk_feat_dim)
    if query_spatial_dim is None:
        by_position = backend.replace_dim(by_position, in_dim=pos_emb_spatial_dim, out_dim=kv_spatial_dim)
    else:
        by_position = shifted_to_keys(backend, by_position, query_spatial_dim, pos_emb_spatial_dim, kv_spatial_dim)
    return backend.combine(by_content, "add", by_position, allow_broadcast_all_sources=True)


def shifted_to_keys(backend: type[AttentionOps], x: Tensor, query_dim: Dim, pos_dim: Dim, key_dim: Dim) -> Tensor:
    """
    :param x: {..., query_dim, pos_dim}, where the position p stands for a key relative to the query: for `query`, it is
        `key - query + (number of queries - 1)`
    :return: {..., query_dim, key_dim}. With one frame of padding in front of each row, the right entry for each key is
        found at the same distance from the one for the next query (Dai et al. 2019, appendix B).
    """
    may_be_empty = query_dim.size is None and key_dim != twin(query_dim)
    behind = 1 if may_be_empty else 0  # without queries, there is one position less than keys
    queries, shifted = padded_dim(query_dim), pos_dim + behind
    longer = 1 + shifted
    x = backend.replace_dim(x, in_dim=query_dim, out_dim=queries)
    x = backend.pad(x, axes=[pos_dim], padding=[(1, behind)], out_dims=[longer], handle_dynamic_dims=False)
    x = backend.reshape(x, [queries, longer], [longer, queries])
    x = backend.slice(x, axis=longer, start=1, out_dim=shifted)
    x = backend.reshape(x, [shifted, queries], [queries, shifted])
    x = backend.slice(x, axis=shifted, start=0, end=key_dim, out_dim=key_dim)
    return backend.replace_dim(x, in_dim=queries, out_dim=query_dim)


def _with_bias(backend: type[AttentionOps], query: Tensor, bias: Tensor | None, qk_feat_dim: Dim) -> Tensor:
    """:return: query with the bias, which is scaled like the query"""
    if bias is None:
        return query
    return backend.combine(
        query, "add", scaled_query(backend, bias, qk_feat_dim, None), allow_broadcast_all_sources=True
    )
