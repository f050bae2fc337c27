"""Self-attention with several heads (Vaswani et al. 2017, section 3.2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._attention.dot import dot_attention
from returnn.frontend._feature_dims import feature_dim
from returnn.frontend._ranges import positions
from returnn.frontend.array_ import concat, cum_concat_step, merge_dims, split, split_dims
from returnn.frontend.const import zeros
from returnn.frontend.dims import replace_dim
from returnn.frontend.linear import Linear
from returnn.frontend.math_ import combine_bc, compare_bc
from returnn.frontend.module import Module
from returnn.frontend.state import State
from returnn.tensor import Dim, Tensor, single_step_dim
from returnn.tensor.dim_rules import twin
from returnn.util.errors import DimError


class SelfAttentionBase(Module):
    """What all kinds of self-attention share: linear maps to queries, keys and values, heads, and the output."""

    def __init__(
        self,
        in_dim: Dim | int,
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
        :param in_dim: features that come in
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
        self.in_dim = in_dim = feature_dim(in_dim, "in_dim")
        self.num_heads = Dim(num_heads, name="num_heads") if isinstance(num_heads, int) else num_heads
        self.key_dim_total = key_dim_total = feature_dim(key_dim_total, "key_dim_total")
        self.key_dim_per_head = _per_head(key_dim_total, self.num_heads)
        self.value_dim_total = value_dim_total = feature_dim(value_dim_total, "value_dim_total")
        self.value_dim_per_head = _per_head(value_dim_total, self.num_heads)
        self.qkv_dim_total = key_dim_total + key_dim_total + value_dim_total
        self.qkv_dim_per_head = self.key_dim_per_head + self.key_dim_per_head + self.value_dim_per_head
        self.qkv = Linear(in_dim, self.qkv_dim_total, with_bias=with_bias)
        self.proj = None if proj_dim is None else Linear(value_dim_total, proj_dim, with_bias=with_bias)
        self.out_dim = value_dim_total if self.proj is None else self.proj.out_dim
        self.att_dropout = att_dropout
        self.att_dropout_broadcast = att_dropout_broadcast

    def forward_qkv(self, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """
        :param source: {..., in_dim}
        :return: queries and keys {..., num_heads, key_dim_per_head}, values {..., num_heads, value_dim_per_head}
        """
        qkv = split_dims(self.qkv(source), axis=self.qkv_dim_total, dims=(self.num_heads, self.qkv_dim_per_head))
        parts = (self.key_dim_per_head, self.key_dim_per_head, self.value_dim_per_head)
        query, key, value = split(qkv, axis=self.qkv_dim_per_head, out_dims=parts)
        return query, key, value

    def attention(self, q: Tensor, k: Tensor, v: Tensor, *, kv_axis: Dim, **options: Any) -> Tensor:
        """
        :param q: {..., num_heads, key_dim_per_head}
        :param k: {..., kv_axis, num_heads, key_dim_per_head}
        :param v: {..., kv_axis, num_heads, value_dim_per_head}
        :param kv_axis: to attend to
        :param options: further ones of `dot_attention`
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
            **options,
        )
        return self._merge_heads(out)

    def _merge_heads(self, x: Tensor) -> Tensor:
        dims = (self.num_heads, self.value_dim_per_head)
        out, _ = merge_dims(x, dims=dims, out_dim=self.value_dim_total)
        out.feature_dim = self.value_dim_total
        return out if self.proj is None else self.proj(out)


class SelfAttention(SelfAttentionBase):
    """Each frame attends to all frames of its sequence. Parameters: `qkv`, `proj`."""

    def __call__(self, source: Tensor, *, axis: Dim) -> Tensor:
        """
        :param source: {..., axis, in_dim}
        :param axis: of the frames
        :return: {..., axis, out_dim}
        """
        q, k, v = self.forward_qkv(source)
        k, v, kv_axis = as_keys(k, v, axis)
        return self.attention(q, k, v, kv_axis=kv_axis)


class CausalSelfAttentionState(State):
    """The keys and values of all frames so far."""

    k_accum: Tensor
    v_accum: Tensor
    accum_axis: Dim

    def __init__(
        self,
        *_args: Any,
        k_accum: Tensor | None = None,
        v_accum: Tensor | None = None,
        accum_axis: Dim | None = None,
    ) -> None:
        """
        :param _args: see `State`
        :param k_accum: {..., accum_axis, num_heads, key_dim_per_head}
        :param v_accum: {..., accum_axis, num_heads, value_dim_per_head}
        :param accum_axis: frames so far
        """
        super().__init__(
            *_args, **({} if _args else {"k_accum": k_accum, "v_accum": v_accum, "accum_axis": accum_axis})
        )


class CausalSelfAttention(SelfAttentionBase):
    """Each frame attends to itself and to those before it, for sequences or step by step. Parameters: `qkv`, `proj`."""

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
        return self.attention(q, keys.k, keys.v, kv_axis=keys.axis, **keys.what_is_visible(axis)), keys.state

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> CausalSelfAttentionState:
        """
        :param batch_dims: of the sequences
        :return: no frames
        """
        accum_axis = Dim(zeros((), dtype="int32", device="cpu"), name="self_att_accum", kind=Dim.Types.Spatial)
        dims = [*batch_dims, accum_axis, self.num_heads]
        return CausalSelfAttentionState(
            k_accum=zeros([*dims, self.key_dim_per_head], feature_dim=self.key_dim_per_head),
            v_accum=zeros([*dims, self.value_dim_per_head], feature_dim=self.value_dim_per_head),
            accum_axis=accum_axis,
        )


class AccumulatedKeys:
    """All keys and values that a query can see, in causal self-attention."""

    def __init__(self, k: Tensor, v: Tensor, axis: Dim, offset: int | Tensor) -> None:
        """
        :param k: {..., axis, ...}
        :param v: {..., axis, ...}
        :param axis: of the frames
        :param offset: position of the first query
        """
        self.k, self.v, self.axis, self.offset = k, v, axis, offset
        self.state = CausalSelfAttentionState(k_accum=k, v_accum=v, accum_axis=axis)

    def what_is_visible(self, query_dim: Dim) -> dict[str, Any]:
        """:return: options for `dot_attention`"""
        if query_dim == single_step_dim:
            return {}
        if isinstance(self.offset, int) and self.offset == 0:
            return {"causal_query_spatial_dim": query_dim}
        return {"mask": self.mask(query_dim)}

    def mask(self, query_dim: Dim) -> Tensor:
        """:return: [query_dim, axis], True where a key is not behind the query"""
        query_position = combine_bc(positions(query_dim), "+", self.offset)
        return compare_bc(query_position, ">=", positions(self.axis))


def accumulate_keys(k: Tensor, v: Tensor, axis: Dim, state: CausalSelfAttentionState | None) -> AccumulatedKeys:
    """
    :param k: {..., axis, ...}
    :param v: {..., axis, ...}
    :param axis: of the frames; or `single_step_dim`
    :param state: the frames before, needed for a single step
    """
    if axis == single_step_dim:
        if state is None:
            raise DimError("causal self-attention: a single step needs a state.\n  See default_initial_state.")
        before = state.accum_axis
        k, kv_axis = cum_concat_step(k, prev_accum=state.k_accum, axis=before)
        v, _ = cum_concat_step(v, prev_accum=state.v_accum, axis=before, out_spatial_dim=kv_axis)
        return AccumulatedKeys(k, v, kv_axis, before.get_size_tensor_or_int())
    if state is None:
        return AccumulatedKeys(*as_keys(k, v, axis), 0)
    before = state.accum_axis
    k, kv_axis = concat((state.k_accum, before), (k, axis))
    v, _ = concat((state.v_accum, before), (v, axis), out_dim=kv_axis)
    return AccumulatedKeys(k, v, kv_axis, before.get_size_tensor_or_int())


def as_keys(k: Tensor, v: Tensor, axis: Dim) -> tuple[Tensor, Tensor, Dim]:
    """:return: k and v with another dim for `axis`, so that it is not the one of the queries; this dim"""
    kv_axis = twin(axis)
    k, _ = replace_dim(k, in_dim=axis, out_dim=kv_axis)
    v, _ = replace_dim(v, in_dim=axis, out_dim=kv_axis)
    return k, v, kv_axis


def _per_head(total: Dim, num_heads: Dim) -> Dim:
    if total.size is not None and num_heads.size is not None and total.size % num_heads.size:
        raise DimError(f"attention: the features {total} cannot be divided among {num_heads.size} heads.")
    return total.div_left(num_heads)
