import numpy
import pytest
import tensorflow as tf

from returnn.tf.frontend_low_level.raw_random import run_seed_feed
from returnn.tf.frontend_low_level.users_random import _WITHOUT_STATE, without_state

SIZE = 2000
OPS = {
    "RandomUniform": lambda: tf.random.uniform([SIZE], -1, 3),
    "RandomStandardNormal": lambda: tf.random.normal([SIZE]),
    "TruncatedNormal": lambda: tf.random.truncated_normal([SIZE]),
    "RandomUniformInt": lambda: tf.random.uniform([SIZE], 0, 5, tf.int32),
    "Multinomial": lambda: tf.random.categorical(tf.math.log([[0.2, 0.5, 0.3]]), SIZE),
    "RandomGamma": lambda: tf.random.gamma([SIZE], [0.5, 2.0]),
    "RandomPoissonV2": lambda: tf.random.poisson([SIZE], [0.5, 2.0]),
    "ParameterizedTruncatedNormal": lambda: tf.raw_ops.ParameterizedTruncatedNormal(
        shape=[SIZE], means=1.0, stdevs=2.0, minvals=-1.0, maxvals=4.0
    ),
    "RandomShuffle": lambda: tf.random.shuffle(tf.range(SIZE)),
}


def test_all_operations_are_tested():
    assert set(OPS) == set(_WITHOUT_STATE)


@pytest.mark.parametrize("op_type", OPS)
def test_same_values_in_another_session_and_the_distribution_of_tensorflow(op_type):
    with tf.Graph().as_default() as graph:
        tf.compat.v1.set_random_seed(3)
        stateful = OPS[op_type]()
        with without_state():
            value, other = OPS[op_type](), OPS[op_type]()
        assert value.shape.as_list() == stateful.shape.as_list()
        assert value.dtype == stateful.dtype

        def draw(*numbers):
            with tf.compat.v1.Session(graph=graph) as session:
                return session.run([value, other, stateful], run_seed_feed(graph, numbers))

        first, second, expected = draw(1, 1)
        numpy.testing.assert_array_equal(first, draw(1, 1)[0])
        assert not numpy.array_equal(first, draw(1, 2)[0])
        assert not numpy.array_equal(first, second)
    deviation = numpy.std(expected, axis=-2 if expected.ndim == 2 and expected.shape[0] == SIZE else -1)
    axis = 0 if expected.shape[0] == SIZE else 1
    for statistics in (numpy.mean, numpy.std):
        numpy.testing.assert_allclose(
            statistics(first, axis=axis), statistics(expected, axis=axis), atol=6 * deviation.max() / SIZE**0.5
        )


COUNTS = [float(count) for count in range(1, 19)]


@pytest.mark.parametrize("sampler", ["uniform", "log_uniform", "fixed_unigram", "vocab_file"])
@pytest.mark.parametrize("unique", [False, True])
def test_candidates_are_as_those_of_tensorflow(sampler, unique, tmp_path):
    options = {}
    if sampler == "fixed_unigram":
        options = {"unigrams": COUNTS, "num_reserved_ids": 2, "distortion": 0.5}
    elif sampler == "vocab_file":
        (tmp_path / "vocab").write_text("".join(f"word{count},{count}\n" for count in [2.0, *COUNTS]))
        options = {"vocab_file": str(tmp_path / "vocab"), "num_reserved_ids": 1}

    def sample():
        name = "fixed_unigram" if options else sampler
        function = getattr(tf.random, f"{name}_candidate_sampler")
        return function([[3], [5]], num_true=1, num_sampled=8, unique=unique, range_max=20, **options)

    with tf.Graph().as_default() as graph:
        stateful = sample()
        with without_state():
            stateless = sample()
        assert [x.shape for x in stateless] == [x.shape for x in stateful]
        with tf.compat.v1.Session(graph=graph) as session:
            values = [session.run([stateless, stateful], run_seed_feed(graph, [i])) for i in range(300)]
            numpy.testing.assert_equal(session.run(stateless, run_seed_feed(graph, [7])), tuple(values[7][0]))
    for own, other in values:
        assert len(set(own[0])) == 8 or not unique
        assert own[0].dtype == other[0].dtype
    frequencies = [numpy.bincount(numpy.concatenate([v[i][0] for v in values]), minlength=20) for i in (0, 1)]
    numpy.testing.assert_allclose(*(f / 300 for f in frequencies), atol=0.2)
    for count in (1, 2):
        means = [numpy.mean([v[i][count] for v in values]) for i in (0, 1)]
        numpy.testing.assert_allclose(*means, rtol=0.1)


def test_more_candidates_than_classes_is_an_error_of_tensorflow():
    with tf.Graph().as_default() as graph, without_state():
        sampled = tf.random.uniform_candidate_sampler([[0]], 1, num_sampled=5, unique=True, range_max=3)
        with tf.compat.v1.Session(graph=graph) as session, pytest.raises(tf.errors.InvalidArgumentError):
            session.run(sampled)


def test_in_loops_of_others_nothing_changes():
    with tf.Graph().as_default() as graph, without_state():
        values = tf.map_fn(lambda x: x + tf.random.uniform([]), tf.zeros([4]))
        with tf.compat.v1.Session(graph=graph) as session:
            assert len(set(session.run(values).tolist())) == 4


def test_gradient_flows_through_dropout():
    with tf.Graph().as_default() as graph:
        x = tf.ones([100])
        with without_state():
            y = tf.nn.dropout(x, 0.5)
        (gradient,) = tf.gradients(y, x)
        with tf.compat.v1.Session(graph=graph) as session:
            numpy.testing.assert_array_equal(*session.run([y, gradient], run_seed_feed(graph, [1])))
