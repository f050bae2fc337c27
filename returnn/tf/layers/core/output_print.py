"""Printing what a layer has computed, in each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from returnn.tensor import Tensor
from returnn.tf.layers.core.floors.layer_core import LayerCore


def print_op(layer: LayerCore, x: Tensor, *, summarize: int | None = 99, extra_print_args: Sequence[Any] = ()) -> Any:
    """
    :param layer: whose name is printed
    :param x: has a value
    :param summarize: so many numbers at most; None: all
    :param extra_print_args: what is printed, too
    :return: operation that prints name, dims, shape, lengths and values
    """
    lengths = [dim.dyn_size for dim in x.dims if dim.is_dynamic_seq_length()]
    return tf.print(
        f"layer {layer.get_absolute_name()!r}: {x}",
        "shape:",
        tf.shape(x.raw_tensor),
        *(["lengths:", *lengths] if lengths else []),
        *extra_print_args,
        "values:",
        x.raw_tensor,
        summarize=-1 if summarize is None else summarize,
    )


def with_print(layer: LayerCore, x: Tensor, options: bool | dict[str, Any]) -> Any:
    """
    :param layer: whose output it is
    :param x: has a value
    :param options: for `print_op`; True for none
    :return: raw value of x, which is printed before it is used
    """
    with tf.control_dependencies([print_op(layer, x, **(options if isinstance(options, dict) else {}))]):
        return tf.identity(x.raw_tensor)
