"""Options which are a layer, or a plain value in its place."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.tensor import Tensor
from returnn.tf.layers.core.layer_base import LayerBase


def value_of(option: LayerBase | Any) -> Any:
    """:return: output of the layer; what is no layer as it is"""
    return option.output if isinstance(option, LayerBase) else option


def number_of(option: LayerBase | Any) -> Any:
    """:return: see `value_of`; indices into a dim are plain numbers, to compute with"""
    value = value_of(option)
    return rf.set_sparse_dim(value, None) if isinstance(value, Tensor) else value


def value_like(option: LayerBase | Any, dtype: str) -> Any:
    """:return: see `value_of`; a number without a fraction is an integer beside integers, as 0.0 beside labels"""
    value = value_of(option)
    is_integer = isinstance(value, float) and value.is_integer() and dtype.startswith(("int", "uint"))
    return int(value) if is_integer else value
