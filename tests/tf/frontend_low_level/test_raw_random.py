import numpy
import pytest
import tensorflow as tf

from returnn.tf.frontend_low_level import raw_random
from returnn.tf.frontend_low_level.loop_counter import set_loop_counter

MAKE = {
    "uniform": lambda: raw_random.uniform([100], minval=2.0, maxval=3.0),
    "integers": lambda: raw_random.uniform([100], minval=5, maxval=1000, dtype="int32"),
    "normal": lambda: raw_random.normal([100]),
    "truncated": lambda: raw_random.normal([100], truncated=True),
    "dropped": lambda: raw_random.dropped(tf.ones([100]), rate=0.5),
}


def in_loop(make, num_frames=3):
    array = tf.TensorArray(tf.float32, size=num_frames, element_shape=[100])

    def body(i, array):
        set_loop_counter(i)
        value = tf.cond(i >= 0, lambda: tf.cast(make(), tf.float32), lambda: tf.zeros([100]))
        return i + 1, array.write(i, value)

    return tf.while_loop(lambda i, _: i < num_frames, body, [tf.constant(0), array])[1].stack()


def all_values(make, numbers):
    """:return: of two operations, and three frames of a loop, (run, 5, 100), in a new session"""
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        values = tf.concat([[tf.cast(make(), tf.float32), tf.cast(make(), tf.float32)], in_loop(make)], axis=0)
        feeds = [{} if x is None else raw_random.run_seed_feed(graph, x) for x in numbers]
        return numpy.stack([session.run(values, feed) for feed in feeds])


@pytest.mark.parametrize("name", MAKE)
def test_values_follow_from_what_is_fed_and_differ_otherwise(name):
    values = all_values(MAKE[name], [[1, 1], [1, 2], [2, 1], None, None])
    again = all_values(MAKE[name], [[1, 2], [2, 1]])
    numpy.testing.assert_array_equal(values[1:3], again)
    flat = values.reshape(25, 100)
    assert len(numpy.unique(flat, axis=0)) == 25


def test_loop_that_does_not_tell_its_frame_has_other_values_in_each():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        _, values = tf.while_loop(
            lambda i, _: i < 3, lambda i, x: (i + 1, tf.concat([x, [raw_random.uniform([10])]], axis=0)),
            [tf.constant(0), tf.zeros([0, 10])], shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 10])],
        )  # fmt: skip
        assert len(numpy.unique(session.run(values), axis=0)) == 3


def test_distributions():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        uniform = session.run(raw_random.uniform([10000], minval=2.0, maxval=3.0))
        normal = session.run(raw_random.normal([10000], truncated=True))
        dropped = session.run(raw_random.dropped(tf.ones([10000]), rate=0.2))
    assert 2 <= uniform.min() < 2.01 < 2.99 < uniform.max() < 3
    assert abs(normal.mean()) < 0.05
    assert numpy.abs(normal).max() <= 2
    assert set(dropped.tolist()) == {0.0, 1.25}
    assert abs(dropped.mean() - 1) < 0.02
