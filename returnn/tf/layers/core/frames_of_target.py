"""
Targets that have a label for each frame, but a time dim of their own: data of two keys have, unless the config says
otherwise. As the target is taken as if it had the time dim of the frames, it has to be as long as these.
"""

from __future__ import annotations

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim


def check_of_lengths(own: Dim, frames: Dim, *, where: str, target: str, frames_of: str) -> tf.Operation:
    """
    :param own: time dim of the target
    :param frames: time dim of the frames
    :param where: how the error begins
    :param target: its key
    :param frames_of: what has the frames, such as "source"
    :return: operation that fails if they have other lengths
    """
    is_same = rf.compare_bc(own.get_size_tensor(), "==", frames.get_size_tensor())
    is_same = rf.reduce_all(is_same, axis=is_same.dims) if is_same.dims else is_same
    message = f"{where}: the target {target!r} needs as many labels as the {frames_of} has frames."
    return tf.raw_ops.Assert(condition=is_same.raw_tensor, data=[message])
