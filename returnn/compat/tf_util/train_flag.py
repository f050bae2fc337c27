"""Whether this is training, for raw tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from returnn.frontend.run_ctx import get_run_ctx
from returnn.tensor import Tensor
from returnn.tf.frontend_low_level.outermost_graph import outermost_graph

_PLACEHOLDER = "returnn_train_flag"  # graph collection


def get_global_train_flag() -> bool | tf.Tensor:
    """:return: whether this is training, as the network says whose layer is being made"""
    flag = get_run_ctx().train_flag
    return flag.raw_tensor if isinstance(flag, Tensor) else flag


def get_global_train_flag_placeholder() -> tf.Tensor:
    """:return: bool scalar to feed, one for each graph"""
    known = tf.compat.v1.get_collection_ref(_PLACEHOLDER)
    if not known:
        with outermost_graph():
            known.append(tf.compat.v1.placeholder_with_default(False, shape=(), name="train_flag"))
    return known[0]


def cond_on_train_flag(fn_train: Callable[[], Any], fn_eval: Callable[[], Any]) -> Any:
    """:return: fn_train() in training, fn_eval() otherwise"""
    flag = get_global_train_flag()
    if isinstance(flag, bool):
        return fn_train() if flag else fn_eval()
    return tf.cond(flag, fn_train, fn_eval)
