"""From the whole batch to some sequences, and back."""

from __future__ import annotations

import numpy
import pytest
import tensorflow as tf

from returnn.tf.layers.loop.smaller_batch.sequences_left import sequences_left


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("indices", [(), (2,), (0, 3), (0, 1, 2, 3)])
def test_back_in_their_places_and_zeros_elsewhere(axis, indices):
    rows = numpy.random.default_rng(1).normal(size=(4, 4, 2))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        left = sequences_left(tf.constant(indices, tf.int32), tf.constant(4))
        back = session.run(left.in_whole_batch(left.of_whole_batch(tf.constant(rows), axis), axis))
    is_left = numpy.isin(numpy.arange(4), indices)
    numpy.testing.assert_array_equal(back, rows * (is_left[:, None, None] if axis == 0 else is_left[None, :, None]))
