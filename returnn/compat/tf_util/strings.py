"""Strings in the graph: vocabularies, words, subwords."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import tensorflow as tf

from returnn.tf.frontend_low_level.outermost_graph import outermost_graph

tf1 = tf.compat.v1

_SHARED = "returnn_shared_vocabs"  # graph collection


def get_shared_vocab(vocab_strings: Sequence[str]) -> tf.Tensor:
    """
    :param vocab_strings: string of each label
    :return: (labels,), strings; the same tensor for equal vocabularies of one graph
    """
    known = tf1.get_collection_ref(_SHARED)
    key = tuple(vocab_strings)
    for strings, tensor in known:
        if strings == key:
            return tensor
    with outermost_graph(), tf1.name_scope("shared_vocab"):
        tensor = tf.constant(list(vocab_strings), dtype=tf.string)
    known.append((key, tensor))
    return tensor


def vocab_idx_to_vocab_string(labels: tf.Tensor, vocab: Any) -> tf.Tensor:
    """
    :param labels: (...), indices
    :param vocab: (labels,), strings, as from `get_shared_vocab`; or a `Vocabulary`
    :return: (...), strings
    """
    return tf.gather(vocab if tf.is_tensor(vocab) else get_shared_vocab(vocab.labels), labels)


def vocab_idx_repr(labels: tf.Tensor, data: Any) -> tf.Tensor:
    """:return: (...), strings: the labels by the vocabulary of the data, or else as numbers"""
    if data.vocab is None:
        return tf.strings.as_string(labels)
    return vocab_idx_to_vocab_string(labels, data.vocab)


def string_merge(strings: tf.Tensor, seq_lens: tf.Tensor, separator: str = " ") -> tf.Tensor:
    """
    :param strings: (B, T)
    :param seq_lens: (B,)
    :param separator: between them
    :return: (B,)
    """
    mask = tf.sequence_mask(seq_lens, tf.shape(strings)[1])
    is_first = tf.equal(tf.range(tf.shape(strings)[1])[None], 0)
    with_separator = tf.where(is_first, strings, tf.strings.join([tf.constant(separator), strings]))
    return tf.strings.reduce_join(tf.where(mask, with_separator, ""), axis=1)


def string_replace(strings: tf.Tensor, old: str, new: str, count: int = -1) -> tf.Tensor:
    """:return: strings with `old` replaced by `new`; `count` times, or everywhere for -1"""
    if count not in (-1, 1):

        def replace(values: numpy.ndarray) -> numpy.ndarray:
            return numpy.char.replace(values.astype("S"), old.encode(), new.encode(), count).astype(object)

        result = tf.numpy_function(replace, [strings], tf.string)
        result.set_shape(strings.shape)
        return result
    pattern = "".join(f"\\x{{{ord(char):x}}}" for char in old)
    rewrite = new.replace("\\", "\\\\")
    return tf.strings.regex_replace(strings, pattern, rewrite, replace_global=count == -1)


def bpe_merge(strings: tf.Tensor) -> tf.Tensor:
    """:return: (...): subwords, of which "@@ " says that the word goes on, put together to words"""
    return string_replace(strings, "@@ ", "")


def words_split(strings: tf.Tensor) -> tf.SparseTensor:
    """:return: strings (B,) split at spaces"""
    return tf.strings.split(strings).to_sparse()


def string_words_calc_wer(hyps: tf.Tensor, refs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """
    :param hyps: (B,)
    :param refs: (B,)
    :return: (B,): edit distance in words; (B,): number of words in the references
    """
    references = tf.strings.split(refs)
    distance = tf.edit_distance(words_split(hyps), references.to_sparse(), normalize=False)
    return tf.cast(tf.reshape(distance, [-1]), tf.int64), tf.cast(references.row_lengths(), tf.int64)


def encode_raw(x: tf.Tensor, axis: int = -1, seq_lens: tf.Tensor | None = None) -> tf.Tensor:
    """
    :param x: bytes: uint8, or integers up to 255
    :param axis: over which they make a string
    :param seq_lens: (B,)
    :return: strings, without this axis
    """

    def encode(values: numpy.ndarray, lengths: numpy.ndarray) -> numpy.ndarray:
        rows = numpy.moveaxis(values, axis, -1)
        flat = rows.reshape(-1, rows.shape[-1]).astype("uint8")
        repeat = max(len(flat) // max(len(lengths), 1), 1)
        ends = numpy.repeat(lengths, repeat) if len(lengths) else [rows.shape[-1]] * len(flat)
        strings = [row[:end].tobytes() for row, end in zip(flat, ends, strict=True)]
        return numpy.array(strings, dtype=object).reshape(rows.shape[:-1])

    lengths = tf.zeros([0], tf.int32) if seq_lens is None else seq_lens
    result = tf.numpy_function(encode, [x, lengths], tf.string)
    shape = x.shape.as_list()
    del shape[axis]
    result.set_shape(shape)
    return result
