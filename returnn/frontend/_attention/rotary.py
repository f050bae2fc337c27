"""Self-attention with rotary positions (Su et al. 2021, RoFormer)."""

from __future__ import annotations

from returnn.frontend._attention.positions import sinusoidal_positional_encoding
from returnn.frontend._attention.self_attention import (
    CausalSelfAttention,
    CausalSelfAttentionState,
    SelfAttention,
    accumulate_keys,
    as_keys,
)
from returnn.frontend._backend import get_backend_of
from returnn.tensor import Dim, Tensor


class RotaryPosSelfAttention(SelfAttention):
    """Queries and keys are turned by angles which grow with their positions. Parameters: `qkv`, `proj`."""

    def __call__(self, source: Tensor, *, axis: Dim) -> Tensor:
        """
        :param source: {..., axis, in_dim}
        :param axis: of the frames
        :return: {..., axis, out_dim}
        """
        q, k, v = self.forward_qkv(source)
        k, v, kv_axis = as_keys(k, v, axis)
        q, k = (_turned(x, dim, 0, self.key_dim_per_head) for x, dim in ((q, axis), (k, kv_axis)))
        return self.attention(q, k, v, kv_axis=kv_axis)


class RotaryPosCausalSelfAttention(CausalSelfAttention):
    """Like `RotaryPosSelfAttention`; each frame attends to itself and to those before it."""

    def __call__(
        self, source: Tensor, axis: Dim, *, state: CausalSelfAttentionState | None = None
    ) -> tuple[Tensor, CausalSelfAttentionState]:
        """
        :param source: {..., axis, in_dim}
        :param axis: of the frames; or `single_step_dim`
        :param state: the frames before, needed for a single step. Its keys are not turned yet
        :return: {..., axis, out_dim}; state
        """
        q, k, v = self.forward_qkv(source)
        keys = accumulate_keys(k, v, axis, state)
        q = _turned(q, axis, keys.offset, self.key_dim_per_head)
        k = _turned(keys.k, keys.axis, 0, self.key_dim_per_head)
        return self.attention(q, k, keys.v, kv_axis=keys.axis, **keys.what_is_visible(axis)), keys.state


def _turned(x: Tensor, axis: Dim, offset: int | Tensor, feat_dim: Dim) -> Tensor:
    encoding = sinusoidal_positional_encoding(spatial_dim=axis, feat_dim=feat_dim, offset=offset, dtype=x.dtype)
    return get_backend_of(x).apply_rope(x, encoding, feat_dim)
