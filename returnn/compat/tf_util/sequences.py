"""Raw tensors with sequences of different lengths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy
import tensorflow as tf

from returnn.tensor import Tensor
from returnn.tf.util import labels as labels_of_dims
from returnn.tf.util.shapes import Size, move_axis


def sequence_mask(lengths: tf.Tensor, name: str | None = None, **kwargs: Any) -> tf.Tensor:
    """:return: (B, T), True where t < lengths[b]"""
    return tf.sequence_mask(lengths, name=name, **kwargs)


def sequence_mask_time_major(lengths: tf.Tensor, **kwargs: Any) -> tf.Tensor:
    """:return: (T, B), True where t < lengths[b]"""
    return tf.transpose(tf.sequence_mask(lengths, **kwargs))


def flatten_with_seq_len_mask(
    x: tf.Tensor,
    seq_lens: tf.Tensor,
    batch_dim_axis: int | None = None,
    time_dim_axis: int | None = None,
    time_major: bool | None = None,
) -> tf.Tensor:
    """
    :param x: (B, T, ...) or (T, B, ...)
    :param seq_lens: (B,)
    :param batch_dim_axis: 0 or 1
    :param time_dim_axis: the other one
    :param time_major: the same in other words: whether the time axis is the first one
    :return: (sum of the lengths, ...): the frames of the first sequence, then those of the second, ...
    """
    if time_major is not None:
        batch_dim_axis, time_dim_axis = (1, 0) if time_major else (0, 1)
    if batch_dim_axis is None or time_dim_axis is None:
        raise TypeError("flatten_with_seq_len_mask: give both axes, or time_major")
    x = move_axis(x, batch_dim_axis, 0)
    time_axis = time_dim_axis + (1 if time_dim_axis < batch_dim_axis else 0)
    x = move_axis(x, time_axis, 1)
    return tf.boolean_mask(x, tf.sequence_mask(seq_lens, tf.shape(x)[1]))


def flatten_with_seq_len_mask_time_major(
    x: tf.Tensor, seq_lens: tf.Tensor, batch_dim_axis: int, time_dim_axis: int
) -> tf.Tensor:
    """:return: (sum of the lengths, ...): the first frames of all sequences, then the second ones, ..."""
    x = move_axis(x, time_dim_axis, 0)
    batch_axis = batch_dim_axis + (1 if batch_dim_axis < time_dim_axis else 0)
    x = move_axis(x, batch_axis, 1)
    return tf.boolean_mask(x, sequence_mask_time_major(seq_lens, maxlen=tf.shape(x)[0]))


def unflatten_with_seq_len_mask(x: tf.Tensor, seq_lens: tf.Tensor, batch_major: bool = True) -> tf.Tensor:
    """
    :param x: (sum of the lengths, ...), see `flatten_with_seq_len_mask`; or for `batch_major` False, in order of the
        time, see `flatten_with_seq_len_mask_time_major`
    :param seq_lens: (B,)
    :param batch_major: which order
    :return: (B, T, ...), or (T, B, ...)
    """
    mask = tf.sequence_mask(seq_lens) if batch_major else sequence_mask_time_major(seq_lens)
    shape = tf.concat([tf.shape(mask), tf.shape(x)[1:]], axis=0)
    return tf.scatter_nd(tf.cast(tf.where(mask), tf.int32), x, shape)


def sparse_labels(
    x: tf.Tensor, seq_lens: tf.Tensor, dtype: Any = tf.int32, collapse_repeated: bool = False
) -> tf.SparseTensor:
    """:return: labels (B, T) without padding, as sparse tensor"""
    return sparse_labels_with_seq_lens(x, seq_lens, dtype=dtype, collapse_repeated=collapse_repeated)[0]


def sparse_labels_with_seq_lens(
    x: tf.Tensor,
    seq_lens: tf.Tensor | None,
    dtype: Any = tf.int32,
    collapse_repeated: bool = False,
    post_filter_idx: int | None = None,
) -> tuple[tf.SparseTensor, tf.Tensor]:
    """
    :param x: (B, T), labels
    :param seq_lens: (B,); None: all frames
    :param dtype: of the labels
    :param collapse_repeated: of equal neighbours, keep the first one
    :param post_filter_idx: then drop this label
    :return: labels, without padding and what was dropped; how many are left, (B,)
    """
    size = tf.shape(x)[1]
    keep = tf.ones(tf.shape(x), tf.bool) if seq_lens is None else tf.sequence_mask(seq_lens, size)
    if collapse_repeated:
        changes = tf.not_equal(x[:, 1:], x[:, :-1])
        keep &= tf.pad(changes, [[0, 0], [1, 0]], constant_values=True)[:, :size]
    if post_filter_idx is not None:
        keep &= tf.not_equal(x, tf.cast(post_filter_idx, x.dtype))
    lengths = tf.reduce_sum(tf.cast(keep, tf.int32), axis=1)
    position = tf.where(tf.sequence_mask(lengths, size))
    labels = tf.SparseTensor(position, tf.cast(tf.boolean_mask(x, keep), dtype), tf.cast(tf.shape(x), tf.int64))
    return labels, lengths


def get_sparse_tensor_length(x: tf.SparseTensor) -> tf.Tensor:
    """:return: (B,): number of entries in each row"""
    return tf.math.bincount(
        tf.cast(x.indices[:, 0], tf.int32), minlength=tf.cast(x.dense_shape[0], tf.int32), dtype=tf.int32
    )


def map_labels(x: Any, label_map: Mapping[int, int | None], name: str = "map_labels") -> Any:
    """
    :param x: labels: a tensor with dims, a raw tensor, or a raw sparse one
    :param label_map: new label for each label; of sparse tensors, None removes it
    :param name: of the result
    :return: the new labels, in the same form
    """
    if isinstance(x, Tensor):
        return labels_of_dims.map_labels(x, label_map, name=name)
    if isinstance(x, tf.SparseTensor):
        x = remove_labels(x, [label for label, new in label_map.items() if new is None])
        known = {label: new or 0 for label, new in label_map.items()}
        return tf.SparseTensor(x.indices, map_labels(x.values, known, name=name), x.dense_shape)
    table = numpy.array([label_map[label] for label in range(max(label_map) + 1)], dtype=x.dtype.as_numpy_dtype)
    return tf.gather(table, x, name=name)


def remove_labels(x: tf.SparseTensor, labels: Any) -> tf.SparseTensor:
    """:return: sequences without some of the labels"""
    dense = tf.sparse.to_dense(x)
    keep = tf.sequence_mask(get_sparse_tensor_length(x), tf.shape(dense)[1])
    for label in labels:
        keep &= tf.not_equal(dense, label)
    position = tf.where(tf.sequence_mask(tf.reduce_sum(tf.cast(keep, tf.int32), axis=1), tf.shape(dense)[1]))
    return tf.SparseTensor(position, tf.boolean_mask(dense, keep), x.dense_shape)


def uniq(x: tf.Tensor) -> tf.Tensor:
    """:return: (T,): of equal neighbours, only the first one"""
    keep = tf.concat([tf.ones_like(x[:1], tf.bool), tf.not_equal(x[1:], x[:-1])], axis=0)
    return tf.boolean_mask(x, keep)


def batched_uniq(x: tf.Tensor, seq_lens: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """:return: x (B, T) with only the first of equal neighbours, as (B, T'), and new lengths (B,)"""
    labels, lengths = sparse_labels_with_seq_lens(x, seq_lens, dtype=x.dtype, collapse_repeated=True)
    return tf.sparse.to_dense(labels)[:, : tf.reduce_max(lengths)], lengths


def ctc_greedy_decode(logits: tf.Tensor, seq_lens: tf.Tensor, time_major: bool) -> tf.SparseTensor:
    """
    :param logits: (T, B, F) or (B, T, F), the last class is blank
    :param seq_lens: (B,)
    :param time_major: which of both
    :return: labels of the best path
    """
    logits = tf.transpose(logits, [1, 0, 2]) if time_major else logits
    best = tf.argmax(logits, axis=-1, output_type=tf.int32)
    blank = tf.shape(logits)[-1] - 1
    return sparse_labels_with_seq_lens(best, seq_lens, collapse_repeated=True, post_filter_idx=blank)[0]


def filter_ended_scores(
    x: tf.Tensor,
    end_flags: tf.Tensor,
    batch_dim: Size | None = None,
    dim: Size | None = None,
    score_zero: float = 0.0,
    score_rem: float = -1e30,
) -> tf.Tensor:
    """
    :param x: (B, ..., F), scores of labels
    :param end_flags: (B, ...), whether the hypothesis has ended
    :param batch_dim: B
    :param dim: F
    :param score_zero: score of label 0, where it has ended
    :param score_rem: score of all others, where it has ended
    """
    num_labels = tf.shape(x)[-1] if dim is None else dim
    ended = tf.where(tf.equal(tf.range(num_labels), 0), tf.cast(score_zero, x.dtype), tf.cast(score_rem, x.dtype))
    return tf.where(end_flags[..., None], ended, x)


def get_linear_alignment_out_to_in_indices(
    input_lens: tf.Tensor, output_lens: tf.Tensor, pad_value: int = 0
) -> tf.Tensor:
    """
    Spreads outputs evenly over the frames of an input: each one stands in the middle of its part.

    :param input_lens: (B,)
    :param output_lens: (B,)
    :param pad_value: behind the end
    :return: (B, max(output_lens)): for each output, the index of its frame
    """
    position = tf.range(tf.reduce_max(output_lens))[None]
    part = tf.cast(input_lens, tf.float32) / tf.cast(tf.maximum(output_lens, 1), tf.float32)
    middle = tf.cast(tf.floor((tf.cast(position, tf.float32) + 0.5) * part[:, None]), tf.int32)
    return tf.where(position < output_lens[:, None], tf.minimum(middle, input_lens[:, None] - 1), pad_value)


def get_rnnt_linear_aligned_output(
    input_lens: tf.Tensor,
    targets: tf.Tensor,
    target_lens: tf.Tensor,
    blank_label_idx: int,
    pad_value: int = 0,
    targets_consume_time: bool = False,
) -> tuple[tf.Tensor, tf.Tensor]:
    """
    Labels with blanks between them, evenly spread, as an RNN transducer would emit them.

    :param input_lens: (B,), number of frames
    :param targets: (B, N)
    :param target_lens: (B,)
    :param blank_label_idx: the label for blank
    :param pad_value: behind the end
    :param targets_consume_time: each label and each blank is one frame; otherwise only blank is
    :return: (B, out): labels and blanks; their lengths, (B,)
    """
    out_lens = input_lens if targets_consume_time else input_lens + target_lens
    place = get_linear_alignment_out_to_in_indices(out_lens, target_lens)
    is_label = tf.sequence_mask(target_lens, tf.shape(targets)[1])
    size = tf.reduce_max(out_lens)
    row = tf.broadcast_to(tf.range(tf.shape(targets)[0])[:, None], tf.shape(targets))
    index = tf.boolean_mask(tf.stack([row, place], axis=-1), is_label)
    blanks = tf.where(tf.sequence_mask(out_lens, size), blank_label_idx, pad_value)
    labels = tf.cast(tf.boolean_mask(targets, is_label), blanks.dtype)
    return tf.tensor_scatter_nd_update(blanks, index, labels), out_lens
