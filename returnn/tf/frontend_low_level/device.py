"""Where operations run."""

from __future__ import annotations

import contextlib
from typing import Any

import tensorflow as tf


def on_device(device: str | None) -> Any:
    """
    :param device: such as "cpu", "cuda" or "gpu:1"; None: as it is around, or where TensorFlow puts it
    :return: context manager for operations that run there
    """
    if device is None:
        return contextlib.nullcontext()
    return tf.device(device.replace("cuda", "gpu"))
