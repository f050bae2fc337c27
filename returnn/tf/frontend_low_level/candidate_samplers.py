"""
Samples of classes, as for losses over large vocabularies, that follow from a seed. TensorFlow's own samplers keep a
state in the session. Like these, they run on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy
import tensorflow as tf

_Array = numpy.ndarray


@dataclass(frozen=True)
class Distribution:
    """Over the classes 0 to `num_classes` - 1."""

    draw: Callable[[numpy.random.Generator, int, int], _Array]  # (generator, num_classes, size) -> (size,)
    probability: Callable[[_Array, int], _Array]  # (classes, num_classes) -> of the shape of the classes
    num_possible: int | None = None  # classes that can be drawn; None: all


def _draw_log_uniform(generator: numpy.random.Generator, num_classes: int, size: int) -> _Array:
    return (numpy.exp(generator.random(size) * numpy.log(num_classes + 1)).astype("int64") - 1) % num_classes


DISTRIBUTIONS = {
    "UniformCandidateSampler": Distribution(
        lambda generator, num_classes, size: generator.integers(num_classes, size=size),
        lambda classes, num_classes: numpy.full(classes.shape, 1.0 / num_classes),
    ),
    "LogUniformCandidateSampler": Distribution(
        _draw_log_uniform,
        lambda classes, num_classes: numpy.log((classes + 2.0) / (classes + 1.0)) / numpy.log(num_classes + 1),
    ),
}
SAMPLERS = (*DISTRIBUTIONS, "FixedUnigramCandidateSampler")  # types of operations


def distribution_of(op: tf.Operation) -> Distribution | None:
    """:return: that of a sampler; None if it is not known, or changes with each sample"""
    if op.type != "FixedUnigramCandidateSampler":
        return DISTRIBUTIONS.get(op.type)
    if op.get_attr("num_shards") != 1:
        return None
    return _fixed_unigram(
        op.get_attr("unigrams") or _last_column(op.get_attr("vocab_file").decode()),
        distortion=op.get_attr("distortion"),
        num_reserved=op.get_attr("num_reserved_ids"),
        num_classes=op.get_attr("range_max"),
    )


def _fixed_unigram(
    counts: Sequence[float], *, distortion: float, num_reserved: int, num_classes: int
) -> Distribution | None:
    """:return: the distribution by how often each class was counted, without those which are reserved"""
    weights = numpy.array([0.0] * num_reserved + [float(count) ** distortion for count in counts])
    if len(weights) != num_classes:
        return None  # TensorFlow says what is wrong
    probabilities = weights / weights.sum()
    return Distribution(
        lambda generator, num_classes, size: generator.choice(num_classes, size=size, p=probabilities),
        lambda classes, num_classes: probabilities[classes],
        num_possible=int((weights > 0).sum()),
    )


def _last_column(filename: str) -> list[float]:
    with open(filename, encoding="utf8") as file:
        return [float(line.rpartition(",")[2]) for line in file if line.strip()]


def sample_candidates(
    distribution: Distribution, true_classes: tf.Tensor, seed: tf.Tensor, *, num: int, unique: bool, num_classes: int
) -> list[tf.Tensor]:
    """
    :param distribution: of the classes
    :param true_classes: (N, M), int64
    :param seed: (2,), int64
    :param num: how many classes are drawn
    :param unique: each of them is drawn once; else, they may be drawn again
    :param num_classes: how many there are
    :return: classes (num,), int64; how often a class was to be expected, float32: for the true ones (N, M), and for
        those that were drawn (num,)
    """

    def sample(true: _Array, seed: _Array) -> tuple[_Array, _Array, _Array]:
        generator = numpy.random.Generator(numpy.random.Philox(key=seed.view("uint64")))
        drawn, num_tries = _draw(distribution, generator, num=num, unique=unique, num_classes=num_classes)

        def expected(classes: _Array) -> _Array:
            probability = distribution.probability(classes, num_classes)
            counts = -numpy.expm1(num_tries * numpy.log1p(-probability)) if unique else probability * num_tries
            return counts.astype("float32")

        return drawn, expected(true), expected(drawn)

    results = tf.numpy_function(sample, [true_classes, seed], [tf.int64, tf.float32, tf.float32])
    for result, shape in zip(results, ([num], true_classes.shape, [num]), strict=True):
        result.set_shape(shape)
    return list(results)


def _draw(
    distribution: Distribution, generator: numpy.random.Generator, *, num: int, unique: bool, num_classes: int
) -> tuple[_Array, int]:
    """:return: classes, and how many were drawn for them, with those that were not taken again"""
    drawn = distribution.draw(generator, num_classes, num)
    if not unique:
        return drawn, num
    while True:
        first = numpy.sort(numpy.unique(drawn, return_index=True)[1])
        if len(first) >= num:
            return drawn[first[:num]], int(first[num - 1]) + 1
        drawn = numpy.concatenate([drawn, distribution.draw(generator, num_classes, len(drawn))])
