"""Attention of a decoder to an encoder (Vaswani et al. 2017, section 3.2.3)."""

from __future__ import annotations

from returnn.frontend._attention.dot import dot_attention
from returnn.frontend._attention.self_attention import _per_head
from returnn.frontend._feature_dims import feature_dim
from returnn.frontend.array_ import merge_dims, split, split_dims
from returnn.frontend.linear import Linear
from returnn.frontend.module import Module
from returnn.frontend.state import State
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DimError


class CrossAttention(Module):
    """
    Each query attends to all frames of the encoder. Keys and values are computed once, by `transform_encoder`.
    Parameters: `kv`, `q`, `proj`.
    """

    def __init__(
        self,
        encoder_dim: Dim | int,
        query_in_dim: Dim | int,
        proj_dim: Dim | int | None,
        *,
        key_dim_total: Dim | int,
        value_dim_total: Dim | int,
        num_heads: int | Dim,
        with_bias: bool = True,
        att_dropout: float = 0.1,
        att_dropout_broadcast: bool | None = None,
    ) -> None:
        """
        :param encoder_dim: features of the encoder
        :param query_in_dim: features of the decoder
        :param proj_dim: features that come out, of a linear map; None: the values of all heads come out
        :param key_dim_total: features to compare queries and keys, of all heads together
        :param value_dim_total: features of the values, of all heads together
        :param num_heads: each one attends on its own
        :param with_bias: whether the linear maps have one
        :param att_dropout: probability to drop an attention weight, in training
        :param att_dropout_broadcast: whether a frame is dropped for all queries and heads together. Default: the option
            `rf_att_dropout_broadcast` of the config
        """
        super().__init__()
        self.encoder_dim = encoder_dim = feature_dim(encoder_dim, "encoder_dim")
        self.query_in_dim = query_in_dim = feature_dim(query_in_dim, "query_in_dim")
        self.num_heads = Dim(num_heads, name="num_heads") if isinstance(num_heads, int) else num_heads
        self.key_dim_total = key_dim_total = feature_dim(key_dim_total, "key_dim_total")
        self.key_dim_per_head = _per_head(key_dim_total, self.num_heads)
        self.value_dim_total = value_dim_total = feature_dim(value_dim_total, "value_dim_total")
        self.value_dim_per_head = _per_head(value_dim_total, self.num_heads)
        self.kv_dim_total = key_dim_total + value_dim_total
        self.kv_dim_per_head = self.key_dim_per_head + self.value_dim_per_head
        self.kv = Linear(encoder_dim, self.kv_dim_total, with_bias=with_bias)
        self.q = Linear(query_in_dim, key_dim_total, with_bias=with_bias)
        self.proj = None if proj_dim is None else Linear(value_dim_total, proj_dim, with_bias=with_bias)
        self.out_dim = value_dim_total if self.proj is None else self.proj.out_dim
        self.att_dropout = att_dropout
        self.att_dropout_broadcast = att_dropout_broadcast

    def transform_encoder(self, encoder: Tensor, *, axis: Dim) -> State:
        """
        :param encoder: {..., axis, encoder_dim}
        :param axis: frames of the encoder
        :return: keys `k` {..., axis, num_heads, key_dim_per_head}, values `v` {..., axis, num_heads,
            value_dim_per_head}, and `kv_axis`, which is `axis`
        """
        k, v = self.forward_kv(encoder)
        return State(k=k, v=v, kv_axis=axis)

    def forward_kv(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """
        :param source: {..., encoder_dim}
        :return: keys {..., num_heads, key_dim_per_head}, values {..., num_heads, value_dim_per_head}
        """
        kv = split_dims(self.kv(source), axis=self.kv_dim_total, dims=(self.num_heads, self.kv_dim_per_head))
        key, value = split(kv, axis=self.kv_dim_per_head, out_dims=(self.key_dim_per_head, self.value_dim_per_head))
        return key, value

    def forward_query(self, source: Tensor) -> Tensor:
        """
        :param source: {..., query_in_dim}
        :return: {..., num_heads, key_dim_per_head}
        """
        return split_dims(self.q(source), axis=self.key_dim_total, dims=(self.num_heads, self.key_dim_per_head))

    def __call__(self, q: Tensor, encoder: State) -> Tensor:
        """
        :param q: {..., query_in_dim}
        :param encoder: what `transform_encoder` returned
        :return: {..., out_dim}
        :raises DimError: if the queries have the frames of the encoder, too: each would see only one of them
        """
        if encoder.kv_axis in q.dims:
            raise DimError(
                f"CrossAttention: the queries have the dim {encoder.kv_axis} of the encoder, too: {q}.\n"
                "  Give the encoder a dim of its own, such as by rf.replace_dim."
            )
        return self.attention(self.forward_query(q), encoder.k, encoder.v, kv_axis=encoder.kv_axis)

    def attention(self, q: Tensor, k: Tensor, v: Tensor, *, kv_axis: Dim) -> Tensor:
        """
        :param q: {..., num_heads, key_dim_per_head}
        :param k: {..., kv_axis, num_heads, key_dim_per_head}
        :param v: {..., kv_axis, num_heads, value_dim_per_head}
        :param kv_axis: frames of the encoder
        :return: {..., out_dim}
        """
        out = dot_attention(
            q,
            k,
            v,
            key_dim=self.key_dim_per_head,
            axis=kv_axis,
            att_dropout=self.att_dropout,
            att_dropout_broadcast=self.att_dropout_broadcast,
        )
        out, _ = merge_dims(out, dims=(self.num_heads, self.value_dim_per_head), out_dim=self.value_dim_total)
        out.feature_dim = self.value_dim_total
        return out if self.proj is None else self.proj(out)
