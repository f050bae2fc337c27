"""The train flag of a network, as the frontend's operations (dropout, batch normalization) see it."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Tensor


def train_flag_ctx(train_flag: bool | tf.Tensor) -> Any:
    """:return: context in which `rf` knows whether this is training"""
    if not isinstance(train_flag, bool):
        # On templates, it is one, too: otherwise operations would mix it with values.
        raw = None if rf.get_selected_backend() == "template" else train_flag
        train_flag = Tensor("train_flag", dims=(), dtype="bool", raw_tensor=raw)
    return rf.get_run_ctx().train_flag_ctx(train_flag)
