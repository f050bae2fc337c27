"""
Targets that have a label for each frame, but a time dim of their own: data of two keys have, unless the config says
otherwise. As the target is taken as if it had the time dim of the frames, it has to be as long as these.
"""

from __future__ import annotations

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.util.errors import ConfigError


def check_of_lengths(
    own: Dim, frames: Dim, *, where: str, target: str, frames_of: str, kind: str = "target"
) -> tf.Operation:
    """
    :param own: time dim of the target
    :param frames: time dim of the frames
    :param where: how the error begins
    :param target: its key
    :param frames_of: what has the frames, such as "source"
    :param kind: what is as long as these
    :return: operation that fails if they have other lengths, and says in which sequence
    """
    num_labels, num_frames = own.get_size_tensor(), frames.get_size_tensor()
    is_same = rf.compare_bc(num_labels, "==", num_frames)
    differs = tf.reshape(tf.logical_not(is_same.raw_tensor), [-1])
    i = tf.argmax(differs)
    sizes = [x.copy_compatible_to_dims_raw(is_same.dims) for x in (num_labels, num_frames)]
    of_all = [tf.reshape(tf.broadcast_to(x, tf.shape(is_same.raw_tensor)), [-1]) for x in sizes]
    labels, frames_there = (tf.strings.as_string(x[i]) for x in of_all)
    message = f"{where}: the {kind} {target!r} needs as many labels as the {frames_of} has frames. "
    if len(is_same.dims) == 1 and is_same.dims[0].is_batch_dim():  # to ask for its tag, all had to be fed in each step
        message = tf.strings.join([message, "Sequence ", tf.strings.as_string(i), " of the batch, from 0 on: "])
    text = tf.strings.join([message, labels, " labels, ", frames_there, " frames."])
    return tf.raw_ops.Assert(condition=tf.logical_not(tf.reduce_any(differs)), data=[text])


def with_lengths_of(target: Tensor, own: Dim, frames: Dim, *, where: str) -> Tensor:
    """:return: the target, whose value is an error where its dim `own` is not as long as the frames of the output"""
    if target.raw_tensor is None:
        return target
    return checked(target, check_of_lengths(own, frames, where=where, target=target.name, frames_of="output"))


def checked(x: Tensor, check: tf.Operation) -> Tensor:
    """:return: x, whose value is an error where the check fails"""
    out = x.copy()
    with tf.control_dependencies([check]):
        out.raw_tensor = tf.identity(x.raw_tensor)
    return out


def with_dims_of(target: Tensor, output: Tensor, where: str) -> Tensor:
    """
    :return: target with the dynamic dims of the output. Data of two keys have time dims of their own, although a target
        for each frame is as long as the frames.
    """
    own = [d for d in target.dims if d not in output.dims and d.is_dynamic_seq_length()]
    free = [d for d in output.dims if d not in target.dims and d.is_dynamic_seq_length() and not d.is_batch_dim()]
    if len(own) == len(free) == 1:
        return rf.replace_dim(with_lengths_of(target, own[0], free[0], where=where), in_dim=own[0], out_dim=free[0])[0]
    if own and free:
        raise ConfigError(f"{where}: it is not clear which dims of the target {target} belong to those of {output}.")
    return target
