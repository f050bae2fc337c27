"""Attention, by theme in `returnn.frontend._attention`."""

from returnn.frontend._attention.cross_attention import CrossAttention
from returnn.frontend._attention.dot import dot_attention
from returnn.frontend._attention.positions import (
    LearnedRelativePositionalEncoding,
    relative_positional_encoding,
    sinusoidal_encoding,
    sinusoidal_positional_encoding,
)
from returnn.frontend._attention.rel_pos import RelPosCausalSelfAttention, RelPosSelfAttention
from returnn.frontend._attention.rotary import RotaryPosCausalSelfAttention, RotaryPosSelfAttention
from returnn.frontend._attention.self_attention import (
    CausalSelfAttention,
    CausalSelfAttentionState,
    SelfAttention,
    SelfAttentionBase,
)

__all__ = [
    "CausalSelfAttention",
    "CausalSelfAttentionState",
    "CrossAttention",
    "LearnedRelativePositionalEncoding",
    "RelPosCausalSelfAttention",
    "RelPosSelfAttention",
    "RotaryPosCausalSelfAttention",
    "RotaryPosSelfAttention",
    "SelfAttention",
    "SelfAttentionBase",
    "dot_attention",
    "relative_positional_encoding",
    "sinusoidal_encoding",
    "sinusoidal_positional_encoding",
]
