"""
`torch.nn.MultiheadAttention` for exports: PyTorch's own function fixes the number of frames when it is traced.

`torch.nn.Transformer` and its layers call it, too. In evaluation they take kernels that no format has, unless they are
switched off.
"""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn import functional

_original = functional.multi_head_attention_forward
_SIGNATURE = inspect.signature(_original)


@contextlib.contextmanager
def without_fast_path() -> Iterator[None]:
    """In it, PyTorch computes attention by its plain operations."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextlib.contextmanager
def traceable_attention() -> Iterator[None]:
    """In it, attention of PyTorch's modules can be traced, and holds for any number of sequences and frames."""
    functional.multi_head_attention_forward = _attention
    try:
        yield
    finally:
        functional.multi_head_attention_forward = _original


def _attention(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The same as `torch.nn.functional.multi_head_attention_forward`, in evaluation: (frames, batch, features)."""
    bound = _SIGNATURE.bind(*args, **kwargs)
    bound.apply_defaults()
    call = bound.arguments
    is_plain = all(call[name] is None for name in ("bias_k", "bias_v", "static_k", "static_v"))
    if not is_plain or call["add_zero_attn"] or call["query"].dim() != 3:
        return _original(*args, **kwargs)
    heads = call["num_heads"]
    names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
    are_apart = call["use_separate_proj_weight"]
    weights = [call[name] for name in names] if are_apart else call["in_proj_weight"].chunk(3)
    biases = [None] * 3 if call["in_proj_bias"] is None else call["in_proj_bias"].chunk(3)
    query, key, value = (
        functional.linear(call[name], weight, bias).unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)
        for name, weight, bias in zip(("query", "key", "value"), weights, biases, strict=True)
    )  # each is (batch, heads, frames, features)
    energies = query @ key.transpose(-1, -2) / math.sqrt(call["embed_dim_to_check"] // heads)
    mask, padding = call["attn_mask"], call["key_padding_mask"]
    if mask is not None:
        energies = _masked(energies, mask.unflatten(0, (-1, heads)) if mask.dim() == 3 else mask)
    if padding is not None:
        energies = _masked(energies, padding[:, None, None])
    attended = energies.softmax(-1)
    out = functional.linear(
        (attended @ value).permute(2, 0, 1, 3).flatten(2), call["out_proj_weight"], call["out_proj_bias"]
    )
    if not call["need_weights"]:
        return out, None
    return out, attended.mean(1) if call["average_attn_weights"] else attended


def _masked(energies: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """:param mask: where nothing is seen, or what is added"""
    return energies.masked_fill(mask, -math.inf) if mask.dtype == torch.bool else energies + mask
