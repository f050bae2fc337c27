"""
Edit distances on raw tensors, at once or row by row of the table, as decoders for them need it: by the kernels of
`returnn.native`, or else by operations of TensorFlow.
"""

from __future__ import annotations

import tensorflow as tf

from returnn.tf.frontend_low_level.kernels import alignments

_MANY = 1 << 29  # more than any distance


def edit_distance(a: tf.Tensor, a_len: tf.Tensor, b: tf.Tensor, b_len: tf.Tensor) -> tf.Tensor:
    """
    :param a: (B, T), labels
    :param a_len: (B,)
    :param b: (B, U), labels
    :param b_len: (B,)
    :return: (B,), int32
    """
    return edit_distance_via_next_edit_distance_row(a, a_len, b, b_len)


def optimal_completion_edit_distance(a: tf.Tensor, a_len: tf.Tensor, b: tf.Tensor, b_len: tf.Tensor) -> tf.Tensor:
    """
    :param a: (B, T), labels, which more labels may follow
    :param a_len: (B,)
    :param b: (B, U), labels
    :param b_len: (B,)
    :return: (B,), int32: the edit distance if the best labels follow (Sabour et al. 2019)
    """
    return edit_distance_via_next_edit_distance_row(a, a_len, b, b_len, optimal_completion=True)


def optimal_completion_edit_distance_per_successor(
    a: tf.Tensor, a_len: tf.Tensor, b: tf.Tensor, b_len: tf.Tensor, successors: tf.Tensor
) -> tf.Tensor:
    """
    :param a: (B, T), labels
    :param a_len: (B,)
    :param b: (B, U), labels
    :param b_len: (B,)
    :param successors: (V,) or (B, V), labels
    :return: (B, V), int32: `optimal_completion_edit_distance` of `a` with this label at its end
    """
    row = edit_distance_via_next_edit_distance_row(a, a_len, b, b_len, full_row_output=True)
    ended = tf.zeros([tf.shape(a)[0]], tf.bool)
    return next_edit_distance_reduce(row, successors, a_len, ended, b, b_len, optimal_completion=True)


optimal_completion_edit_distance_per_successor_via_next_edit_distance = optimal_completion_edit_distance_per_successor


def edit_distance_via_next_edit_distance_row(
    a: tf.Tensor,
    a_len: tf.Tensor,
    b: tf.Tensor,
    b_len: tf.Tensor,
    optimal_completion: bool = False,
    full_row_output: bool = False,
) -> tf.Tensor:
    """
    :param a: (B, T), labels
    :param a_len: (B,)
    :param b: (B, U), labels
    :param b_len: (B,)
    :param optimal_completion: see `optimal_completion_edit_distance`
    :param full_row_output: see below
    :return: (B,), int32; with `full_row_output`, (B, U + 1): the distance to each beginning of b
    """
    size = tf.shape(b)[1] + 1
    first = tf.broadcast_to(tf.range(size)[None], [tf.shape(b)[0], size])
    if full_row_output:
        table = alignments.edit_distance_table(first, a, a_len, b)
        found = None if table is None else tf.concat([first[:, None], table], axis=1)[:, -1]
    else:
        found = alignments.edit_distance(a, a_len, b, b_len, optimal_completion=optimal_completion)
    if found is not None:
        return found

    def step(row: tf.Tensor, frame: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        label, n = frame
        return next_edit_distance_row(row, label, n, n >= a_len, b, b_len)

    rows = tf.scan(step, (tf.transpose(a), tf.range(tf.shape(a)[1])), initializer=first)
    row = tf.concat([first[None], rows], axis=0)[-1]
    return row if full_row_output else _reduced(row, b_len, optimal_completion=optimal_completion)


def next_edit_distance_row(
    last_row: tf.Tensor, a: tf.Tensor, a_n: tf.Tensor, a_ended: tf.Tensor, b: tf.Tensor, b_len: tf.Tensor
) -> tf.Tensor:
    """
    :param last_row: (B, U + 1): the distance of the labels so far to each beginning of b
    :param a: (B,), the next label
    :param a_n: its position. It follows from the row
    :param a_ended: (B,), whether there is no next label: then the row stays as it is
    :param b: (B, U), labels
    :param b_len: (B,). What is behind that does not matter to what is before
    :return: (B, U + 1), int32
    """
    del a_n, b_len
    lengths = 1 - tf.cast(a_ended, tf.int32)
    found = alignments.edit_distance_table(last_row, tf.convert_to_tensor(a)[:, None], lengths, b)
    return _next_row(last_row, a, a_ended, b) if found is None else found[:, 0]


def _next_row(last_row: tf.Tensor, a: tf.Tensor, a_ended: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    by_deletion = last_row + 1
    by_substitution = last_row[:, :-1] + tf.cast(tf.not_equal(a[:, None], b), tf.int32)
    best = tf.concat([by_deletion[:, :1], tf.minimum(by_deletion[:, 1:], by_substitution)], axis=1)
    # With insertions: the least of `best[k] + u - k` for all k <= u.
    position = tf.range(tf.shape(best)[1])
    is_shorter = position[None, :] <= position[:, None]
    new = tf.reduce_min(tf.where(is_shorter, (best - position)[:, None], _MANY), axis=-1) + position
    return tf.where(a_ended[:, None], last_row, new)


def next_edit_distance_reduce(
    last_row: tf.Tensor,
    a: tf.Tensor,
    a_n: tf.Tensor,
    a_ended: tf.Tensor,
    b: tf.Tensor,
    b_len: tf.Tensor,
    optimal_completion: bool = False,
    a_blank_idx: int | tf.Tensor | None = None,
) -> tf.Tensor:
    """
    :param last_row: (B, U + 1), see `next_edit_distance_row`
    :param a: (B, V) or (V,), each of them is a next label
    :param a_n: their position
    :param a_ended: (B,), whether there is no next label
    :param b: (B, U), labels
    :param b_len: (B,)
    :param optimal_completion: see `optimal_completion_edit_distance`
    :param a_blank_idx: with this label, the row stays as it is
    :return: (B, V), int32: distances with each of them
    """
    a = tf.convert_to_tensor(a)
    batch, num = tf.shape(last_row)[0], tf.shape(a)[-1]
    labels = tf.broadcast_to(a if a.shape.rank == 2 else a[None], [batch, num])
    found = alignments.edit_distance_of_successors(
        last_row, labels, a_ended, b, b_len, blank=a_blank_idx, optimal_completion=optimal_completion
    )
    if found is not None:
        return found
    no_label = tf.broadcast_to(tf.convert_to_tensor(a_ended)[:, None], [batch, num])
    if a_blank_idx is not None:
        no_label |= tf.equal(labels, a_blank_idx)
    rows, others, lengths = (tf.repeat(x, num, axis=0) for x in (last_row, b, b_len))
    rows = next_edit_distance_row(rows, tf.reshape(labels, [-1]), a_n, tf.reshape(no_label, [-1]), others, lengths)
    return tf.reshape(_reduced(rows, lengths, optimal_completion=optimal_completion), [batch, num])


def _reduced(row: tf.Tensor, b_len: tf.Tensor, *, optimal_completion: bool) -> tf.Tensor:
    """:return: (B,): the distance to all of b, or the least one to a beginning of b"""
    if not optimal_completion:
        return tf.gather(row, b_len, batch_dims=1)
    mask = tf.sequence_mask(b_len + 1, maxlen=tf.shape(row)[1])
    return tf.reduce_min(tf.where(mask, row, _MANY), axis=1)
