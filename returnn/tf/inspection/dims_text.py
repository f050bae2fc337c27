"""Dims of a layer's output, short enough for a table: `[B, time:data, 512]`."""

from __future__ import annotations

import re

from returnn.tensor import Dim, Tensor
from returnn.util.texts.counted import counted


def dims_text(x: Tensor | None) -> str:
    """:return: dims in the order of the axes; for labels their number; the dtype where it is a special one"""
    if x is None:
        return "?"
    text = f"[{', '.join(dim_text(dim) for dim in x.dims)}]"
    if x.sparse_dim is not None:
        size = x.sparse_dim.size
        return f"{text} of {'? labels' if size is None else counted(size, 'label')}"
    return text if x.dtype == "float32" else f"{text} {x.dtype}"


def dim_text(dim: Dim) -> str:
    """:return: its name; of a dim with a fixed size the size"""
    if dim.is_batch_dim():
        return "B"
    name = dim.name or ""
    if dim.is_beam_dim():
        return f"beam({dim.size})"
    if dim.size is None:
        return re.sub(r"\[[^\[\]]*\]", "", str(dim))  # without what the lengths depend on
    is_given_by_user = name and ":" not in name
    return f"{name}({dim.size})" if is_given_by_user else str(dim.size)
