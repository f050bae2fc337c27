"""Sequences of labels: mapped to other labels, without repetitions, compared."""

from __future__ import annotations

from collections.abc import Mapping

import numpy
import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Tensor
from returnn.util.errors import ConfigError
from returnn.util.texts.bleu import compute_bleu


def map_labels(x: Tensor, label_map: Mapping[int, int], name: str = "map_labels") -> Tensor:
    """
    :param x: sparse
    :param label_map: new label for each label
    :param name: of the result
    :return: the same dims, the new labels
    """
    size = max(label_map) + 1
    if sorted(label_map) != list(range(size)):
        missing = sorted(set(range(size)) - set(label_map))
        raise ConfigError(f"label_map: there is no new label for {missing[:5] or min(label_map)}.")
    if x.sparse_dim is not None and x.sparse_dim.dimension not in (None, size):
        raise ConfigError(f"label_map: has {size} labels, but the data is {x}.")
    table = numpy.array([label_map[i] for i in range(size)], dtype="int32")
    out = x.copy(name=name)
    out.raw_tensor = tf.cast(tf.gather(table, tf.clip_by_value(x.raw_tensor, 0, size - 1)), x.dtype)
    return out


def collapse_repeated(x: Tensor) -> Tensor:
    """:return: [B, T']: x [B, T], of neighbours which are equal only the first one"""
    time_dim = x.get_time_dim_tag()
    before, _ = rf.shift_right(x, axis=time_dim, pad_value=-1), None
    return rf.masked_select(x, mask=rf.compare(x, "!=", before), dims=[time_dim])[0]


def bleu_of_labels(output: Tensor, target: Tensor) -> Tensor:
    """:return: [B]: BLEU score of each sequence, 0 to 1"""
    output, target = output.copy_as_batch_major(), target.copy_as_batch_major()
    lengths = [_lengths_of(x) for x in (output, target)]
    raw = tf.numpy_function(bleu_scores, [output.raw_tensor, lengths[0], target.raw_tensor, lengths[1]], tf.float32)
    raw.set_shape((None,))
    return Tensor("bleu", dims=[output.dims[0]], dtype="float32", raw_tensor=raw)


def _lengths_of(x: Tensor) -> tf.Tensor:
    """:return: raw (B,): lengths of sequences [B, T], which need not have a time dim by name"""
    (frames,) = x.dims[1:]
    return frames.get_size_tensor().copy_compatible_to_dims_raw([x.dims[0]]) + tf.zeros(
        tf.shape(x.raw_tensor)[:1], "int32"
    )


def bleu_scores(
    output: numpy.ndarray, output_lengths: numpy.ndarray, target: numpy.ndarray, target_lengths: numpy.ndarray
) -> numpy.ndarray:
    """:return: (B,): BLEU score of each hypothesis (B * beam or B, T); several may have the same reference"""
    beam = max(len(output) // max(len(target), 1), 1)
    references = [list(target[i // beam, : target_lengths[i // beam]]) for i in range(len(output))]
    hypotheses = [list(row[:length]) for row, length in zip(output, output_lengths, strict=True)]
    pairs = zip(references, hypotheses, strict=True)
    scores = [compute_bleu([reference], [hypothesis], smooth=True) for reference, hypothesis in pairs]
    return numpy.array(scores, dtype="float32")
