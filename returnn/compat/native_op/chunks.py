"""Sequences cut into chunks, and put together again, on raw tensors."""

from __future__ import annotations

import numpy
import tensorflow as tf


def naive_chunk_start_frames(n_time: int, chunk_size: int, chunk_step: int) -> list[int]:
    """:return: first frame of each chunk, until one of them reaches the end"""
    starts = [0]
    while starts[-1] + chunk_size < n_time:
        starts.append(starts[-1] + chunk_step)
    return starts


def chunk(
    x: tf.Tensor, index: tf.Tensor, chunk_size: int | tf.Tensor, chunk_step: int | tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """
    :param x: (T, B, F)
    :param index: (T, B), 1 for frames of the sequences
    :param chunk_size: in frames
    :param chunk_step: how many frames after the one before a chunk begins
    :return: (chunk_size, chunks * B, F), 0 behind the end: all first chunks, all second ones, ...; and which frames
        there are, (chunk_size, chunks * B), with the type of `index`
    """
    frames = _frames(tf.shape(x)[0], chunk_size, chunk_step)
    is_there = tf.cast(frames < tf.shape(x)[0], index.dtype)
    frames = tf.minimum(frames, tf.shape(x)[0] - 1)
    out_index = tf.gather(index, frames) * is_there[..., None]
    out = tf.gather(x, frames) * tf.cast(is_there, x.dtype)[..., None, None]
    num, size, batch = tf.shape(frames)[0], tf.shape(frames)[1], tf.shape(x)[1]
    out = tf.reshape(tf.transpose(out, [1, 0, 2, 3]), [size, num * batch, tf.shape(x)[2]])
    out.set_shape([None, None, x.shape[2]])
    return out, tf.reshape(tf.transpose(out_index, [1, 0, 2]), [size, num * batch])


def unchunk(
    x: tf.Tensor,
    index: tf.Tensor,
    chunk_size: int | tf.Tensor,
    chunk_step: int | tf.Tensor,
    n_time: int | tf.Tensor,
    n_batch: int | tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """
    :param x: (chunk_size, chunks * B, F), see `chunk`
    :param index: (chunk_size, chunks * B)
    :param chunk_size: in frames
    :param chunk_step: how many frames after the one before a chunk begins
    :param n_time: T
    :param n_batch: B
    :return: (T, B, F), the mean over all chunks that have the frame; (T, B), which frames there are; (T, B), by which
        factor their sum was multiplied
    """
    frames = _frames(n_time, chunk_size, chunk_step)
    num, size = tf.shape(frames)[0], tf.shape(frames)[1]
    weights = tf.transpose(tf.reshape(index, [size, num, n_batch]), [1, 0, 2])
    values = tf.transpose(tf.reshape(x, [size, num, n_batch, tf.shape(x)[2]]), [1, 0, 2, 3])
    values *= tf.cast(weights, x.dtype)[..., None]
    slots = tf.where(frames < n_time, frames, n_time)
    counts = tf.math.unsorted_segment_sum(tf.cast(weights, x.dtype), slots, n_time + 1)[:-1]
    factors = tf.math.divide_no_nan(tf.ones_like(counts), counts)
    out = tf.math.unsorted_segment_sum(values, slots, n_time + 1)[:-1] * factors[..., None]
    out.set_shape([None, None, x.shape[2]])
    return out, tf.cast(counts > 0, index.dtype), factors


def _frames(n_time: int | tf.Tensor, chunk_size: int | tf.Tensor, chunk_step: int | tf.Tensor) -> tf.Tensor:
    """:return: (chunks, chunk_size), number of each frame in the sequence"""
    num = 1 + tf.maximum(0, -((chunk_size - n_time) // chunk_step))
    return tf.range(num)[:, None] * chunk_step + tf.range(chunk_size)[None]


def sparse_splice_offset_numpy(s0: numpy.ndarray, idx: numpy.ndarray) -> numpy.ndarray:
    """
    :param s0: (n,), indices in ascending order
    :param idx: (m,), others, in ascending order
    :return: (m,), for each of these, how many of the first ones are before it
    """
    return numpy.searchsorted(s0, idx, side="left")
