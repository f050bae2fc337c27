"""Self-attention with relative positions (Dai et al. 2019, Transformer-XL; Shaw et al. 2018)."""

from __future__ import annotations

from typing import Any

from returnn.frontend import init
from returnn.frontend._attention.dot import att_dropout_broadcast_or_default
from returnn.frontend._attention.positions import LearnedRelativePositionalEncoding, relative_positional_encoding
from returnn.frontend._attention.self_attention import (
    CausalSelfAttention,
    CausalSelfAttentionState,
    SelfAttentionBase,
    accumulate_keys,
    as_keys,
)
from returnn.frontend._backend import get_backend_of
from returnn.frontend._ops.nn.attention import rel_pos_energy
from returnn.frontend.array_ import split_dims
from returnn.frontend.dropout import dropout
from returnn.frontend.linear import Linear
from returnn.frontend.parameter import Parameter
from returnn.tensor import Dim, Tensor, single_step_dim


class _RelPos(SelfAttentionBase):
    """What both kinds share: the encoding of relative positions, and the biases of the energies."""

    def __init__(
        self,
        in_dim: Dim | int,
        proj_dim: Dim | int | None,
        *,
        key_dim_total: Dim | int,
        value_dim_total: Dim | int,
        num_heads: int | Dim,
        with_bias: bool = True,
        with_linear_pos: bool = True,
        with_pos_bias: bool = True,
        learnable_pos_emb: bool = False,
        learnable_pos_emb_clipping: int = 16,
        separate_pos_emb_per_head: bool = True,
        pos_emb_dropout: float = 0.0,
        att_dropout: float = 0.1,
    ) -> None:
        """
        :param in_dim: features that come in
        :param proj_dim: features that come out, of a linear map; None: the values of all heads come out
        :param key_dim_total: features to compare queries and keys, of all heads together
        :param value_dim_total: features of the values, of all heads together
        :param num_heads: each one attends on its own
        :param with_bias: whether the linear maps of queries, keys, values and output have one
        :param with_linear_pos: whether there is a linear map of the encoding
        :param with_pos_bias: whether there are u and v, see `rel_pos_self_attention`
        :param learnable_pos_emb: whether the encoding is learned, rather than sinusoidal
        :param learnable_pos_emb_clipping: distance from which on the learned encoding stays the same
        :param separate_pos_emb_per_head: whether each head has its own encoding
        :param pos_emb_dropout: probability to drop a value of the encoding, in training
        :param att_dropout: probability to drop an attention weight, in training
        """
        super().__init__(
            in_dim,
            proj_dim,
            key_dim_total=key_dim_total,
            value_dim_total=value_dim_total,
            num_heads=num_heads,
            with_bias=with_bias,
            att_dropout=att_dropout,
        )
        self.separate_pos_emb_per_head = separate_pos_emb_per_head
        key_dim = self.key_dim_total if separate_pos_emb_per_head else self.key_dim_per_head
        self.pos_emb_feat_dim = self.in_dim if with_linear_pos else key_dim
        self.linear_pos = Linear(self.in_dim, key_dim, with_bias=False) if with_linear_pos else None
        self.learned_pos_emb = (
            LearnedRelativePositionalEncoding(
                self.pos_emb_feat_dim, clipping=learnable_pos_emb_clipping, causal=isinstance(self, CausalSelfAttention)
            )
            if learnable_pos_emb
            else None
        )
        bias_dims = (self.num_heads, self.key_dim_per_head)
        self.pos_bias_u = Parameter(bias_dims, initial=init.Glorot()) if with_pos_bias else None
        self.pos_bias_v = Parameter(bias_dims, initial=init.Glorot()) if with_pos_bias else None
        self.pos_emb_dropout = pos_emb_dropout

    def _pos_emb(self, query_dim: Dim, key_dim: Dim, offset: int | Tensor, dtype: str) -> tuple[Tensor, Dim]:
        """:return: [pos_dim, num_heads, key_dim_per_head], or without the heads; pos_dim"""
        dims: dict[str, Any] = {
            "query_spatial_dim": query_dim,
            "key_value_spatial_dim": key_dim,
            "query_offset": offset,
        }
        if self.learned_pos_emb is not None:
            encoding, pos_dim = self.learned_pos_emb(**dims)
        else:
            encoding, pos_dim = relative_positional_encoding(feat_dim=self.pos_emb_feat_dim, dtype=dtype, **dims)
        encoding = dropout(encoding, self.pos_emb_dropout)
        if self.linear_pos is not None:
            encoding = self.linear_pos(encoding)
        if self.separate_pos_emb_per_head:
            encoding = split_dims(encoding, axis=self.key_dim_total, dims=(self.num_heads, self.key_dim_per_head))
        return encoding, pos_dim


class RelPosSelfAttention(_RelPos):
    """
    Self-attention with relative positions. Parameters: `qkv`, `proj`, `linear_pos`, `learned_pos_emb`, `pos_bias_u` and
    `pos_bias_v` [num_heads, key_dim_per_head].
    """

    def __call__(self, source: Tensor, *, axis: Dim, **_kwargs: Any) -> Tensor:
        """
        :param source: {..., axis, in_dim}
        :param axis: of the frames
        :param _kwargs: for derived classes
        :return: {..., axis, out_dim}
        """
        pos_emb, pos_dim = self._pos_emb(axis, axis, 0, source.dtype)
        q, k, v = self.forward_qkv(source)
        k, v, kv_axis = as_keys(k, v, axis)
        out = get_backend_of(q, pos_emb).rel_pos_self_attention(
            q,
            k,
            v,
            pos_emb,
            pos_bias_u=self.pos_bias_u,
            pos_bias_v=self.pos_bias_v,
            att_dropout=self.att_dropout,
            att_dropout_broadcast=att_dropout_broadcast_or_default(self.att_dropout_broadcast),
            v_feat_dim=self.value_dim_per_head,
            qk_feat_dim=self.key_dim_per_head,
            kv_spatial_dim=kv_axis,
            query_spatial_dim=axis,
            pos_emb_spatial_dim=pos_dim,
        )
        return self._merge_heads(out)


class RelPosCausalSelfAttention(_RelPos, CausalSelfAttention):
    """Like `RelPosSelfAttention`; each frame attends to itself and to those before it."""

    def __call__(
        self, source: Tensor, axis: Dim, *, state: CausalSelfAttentionState | None = None
    ) -> tuple[Tensor, CausalSelfAttentionState]:
        """
        :param source: {..., axis, in_dim}
        :param axis: of the frames; or `single_step_dim`
        :param state: the frames before, needed for a single step
        :return: {..., axis, out_dim}; state
        """
        q, k, v = self.forward_qkv(source)
        keys = accumulate_keys(k, v, axis, state)
        pos_emb, pos_dim = self._pos_emb(axis, keys.axis, keys.offset, source.dtype)
        is_step = axis == single_step_dim
        backend = get_backend_of(q, pos_emb)
        energy = rel_pos_energy(
            backend,
            q,
            keys.k,
            pos_emb,
            biases=(self.pos_bias_u, self.pos_bias_v),
            qk_feat_dim=self.key_dim_per_head,
            kv_spatial_dim=keys.axis,
            query_spatial_dim=None if is_step else axis,
            pos_emb_spatial_dim=pos_dim,
        )
        out = backend.attention_by_energy(
            energy,
            keys.v,
            mask=None if is_step else keys.mask(axis),
            sees_some_frame=True,
            kv_spatial_dim=keys.axis,
            att_dropout=self.att_dropout,
            att_dropout_broadcast=att_dropout_broadcast_or_default(self.att_dropout_broadcast),
        )
        return self._merge_heads(out), keys.state
