"""
The names of TensorFlow 1, in today's TensorFlow.

Configs from that time use `tf.to_float`, `tf.log_sigmoid`, `tf.log` and the like. What still exists in
`tf.compat.v1`, and has no other meaning today, gets its old name back.
"""

from __future__ import annotations

import functools
from types import ModuleType

import tensorflow as tf

_SUBMODULES = ("nn", "math", "random", "train", "losses", "initializers", "linalg", "image", "summary", "test")


@functools.cache
def add_tf1_names() -> None:
    """Adds the missing names. Nothing that is there is changed."""
    _add(tf, tf.compat.v1)
    for name in _SUBMODULES:
        _add(getattr(tf, name), getattr(tf.compat.v1, name))


def _add(module: ModuleType, old: ModuleType) -> None:
    for name, value in list(vars(old).items()):
        if not name.startswith("_") and name not in vars(module):
            setattr(module, name, value)
