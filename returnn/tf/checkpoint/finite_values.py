"""
No checkpoint that a training or a search could start from has values that are not finite.

NaN is wrong in any variable. Infinity is, in parameters that are trained; a constant, such as a mask, may have it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy
import tensorflow as tf

from returnn.tf.checkpoint.files import CheckpointError
from returnn.util.texts.counted import are, counted


class FiniteValues:
    """Finds values that are not finite. Adds its ops to the current graph."""

    def __init__(self, values: Mapping[str, tf.Tensor], *, trained: frozenset[str]) -> None:
        """
        :param values: by name in the checkpoint
        :param trained: names of those that may not be infinite
        """
        counts = {
            name: _count(tf.math.logical_not(tf.math.is_finite(x)) if name in trained else tf.math.is_nan(x))
            for name, x in values.items()
            if x.dtype.is_floating
        }
        self._names = list(counts)
        self._counts = tf.stack(list(counts.values())) if counts else None

    def check(self, session: tf.compat.v1.Session, checkpoint: str) -> None:
        """
        :param session: with the values
        :param checkpoint: which is to be written
        :raises CheckpointError: if some are not finite
        """
        if self._counts is None:
            return
        _check_counts(dict(zip(self._names, session.run(self._counts), strict=True)), checkpoint)


def check_finite(values: Mapping[str, numpy.ndarray], checkpoint: str, *, trained: frozenset[str]) -> None:
    """
    :param values: by name in the checkpoint
    :param checkpoint: which is to be written
    :param trained: names of those that may not be infinite
    :raises CheckpointError: if some are not finite
    """
    floats = {name: value for name, value in values.items() if tf.as_dtype(value.dtype).is_floating}
    wrong = {name: ~numpy.isfinite(x) if name in trained else numpy.isnan(x) for name, x in floats.items()}
    _check_counts({name: int(numpy.count_nonzero(flags)) for name, flags in wrong.items()}, checkpoint)


def _check_counts(counts: Mapping[str, int], checkpoint: str) -> None:
    wrong = {name: int(count) for name, count in counts.items() if count}
    if wrong:
        name = next(iter(wrong))
        raise CheckpointError(
            f"checkpoint {checkpoint!r} is not written: {counted(wrong[name], 'value')} of {name!r} "
            f"{are(wrong[name])} not finite{f', and some of {len(wrong) - 1} more' if len(wrong) > 1 else ''}.\n"
            "  Checkpoints that are there are as they were. Lower 'learning_rate', and go on from the last one."
        )


def _count(flags: tf.Tensor) -> tf.Tensor:
    return tf.math.count_nonzero(flags)
