"""Caches, checks, random values, gradients, initial values, hypotheses, parts of parameters."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import itertools

import numpy
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tf.util import basic
from returnn.tf.util.parameters.param_split import parts_of_dim
from returnn.util.errors import ConfigError
from returnn.util.sig_proc import GammatoneFilterbank, greenwood_function, inv_greenwood_function

tf1 = tf.compat.v1


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf1.Session() as session, rf.backend_ctx("tf"):
        yield session


def test_global_tensors_are_made_once(session):
    calls = []

    def make():
        calls.append(1)
        return tf.constant(5)

    def body(i):
        return i + basic.global_tensor(make, "five")

    result = tf.while_loop(lambda i: i < 12, body, [basic.global_tensor(make, "five")])
    assert session.run(result) == [15]
    assert calls == [1]


def test_global_queue(session):
    first, second = (basic.global_queue("q", tf.queue.FIFOQueue, 3, [tf.int32], shapes=[()]) for _ in range(2))
    assert first is second
    session.run(first.enqueue(7))
    assert session.run(second.dequeue()) == 7


@pytest.mark.usefixtures("session")
def test_results_belong_to_tensors():
    x, lengths = tf.ones((2, 3)), tf.constant([1, 2])
    cache = basic.get_flatten_with_seq_len_mask_cache(x, lengths, 0, 1)
    assert not cache.has_cache()
    cache.set_cache("result")
    same = basic.get_flatten_with_seq_len_mask_cache(x, lengths, 0, 1)
    other = basic.get_flatten_with_seq_len_mask_cache(x, tf.constant([1, 2]), 0, 1)
    assert (same.has_cache(), same.get_cache(), other.has_cache()) == (True, "result", False)


def test_checks_of_numbers(session):
    x = tf1.placeholder(tf.float32, (2,))
    checked = basic.identity_with_check_numerics(x)
    (gradient,) = tf1.gradients(tf.sqrt(checked), x)
    fetches = tf.sqrt(x)
    all_checks = basic.add_check_numerics_ops(fetches, debug_print_added_checks=False)
    asserts = basic.add_check_numerics_ops(fetches, use_check_numerics=False, debug_print_added_checks=False)
    assert session.run(checked, {x: [1, 2]}).tolist() == [1, 2]
    session.run([gradient, all_checks, asserts], {x: [1, 2]})
    for fetch, value in ((checked, [1, numpy.nan]), (gradient, [0, 1]), (all_checks, [-1, 1]), (asserts, [-1, 1])):
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(fetch, {x: value})


def test_debug_log(session):
    noted = []
    x = tf1.placeholder(tf.float32, ())
    y = basic.identity_with_debug_log(x, {"twice": 2 * x}, noted)
    assert session.run(y, {x: 3}) == 3
    assert noted == [{"twice": 6}]


def test_random_values(session):
    tf1.set_random_seed(3)
    generator = basic.get_global_random_generator()
    assert basic.get_global_random_generator() is generator
    seed = basic.StatelessRandomSeed.create(shape=(2000,))
    values = [
        seed.normal(),
        seed.normal(),
        seed.uniform(minval=2.0, maxval=4.0),
        basic.StatelessRandomSeed.create(shape=(2000,)).normal(),
    ]
    integers = seed.uniform(minval=1, maxval=4, dtype=tf.int32)
    session.run(tf1.global_variables_initializer())
    first, same, uniform, other = session.run(values)
    numpy.testing.assert_array_equal(first, same)
    assert abs(first.mean()) < 0.1
    assert first.std() == pytest.approx(1, abs=0.1)
    assert (uniform.min() >= 2, uniform.max() < 4) == (True, True)
    assert uniform.mean() == pytest.approx(3, abs=0.1)
    assert not numpy.array_equal(first, other)
    assert not numpy.array_equal(first, session.run(values[0]))  # the generator went on
    assert set(session.run(integers)) == {1, 2, 3}
    assert basic.get_random_seed() != basic.get_random_seed()


def test_functions_with_their_own_gradient(session):
    gradient = basic.CustomGradient()
    square = gradient.register([tf.float32], tf.square, lambda op, g: g * op.inputs[0], name="my_square")
    assert gradient.register([tf.float32], tf.square, lambda op, g: g * op.inputs[0], name="other") is not square
    x = tf.constant(3.0)
    y = square(x)
    assert session.run([y, tf1.gradients(y, x)[0]]) == [9, 3]
    assert gradient.num_calls == 1
    loss = basic.custom_gradient.generic_loss_and_error_signal(tf.constant(5.0), x, tf.constant(7.0))
    assert session.run([loss, tf1.gradients(loss, x)[0]]) == [5, 7]


def test_gradients_of_operations():
    found = basic.lookup_grad_func_by_name("MatMul")
    assert basic.opt_register_grad_func("MatMul", found) is found
    assert basic.opt_register_grad_func("MatMul", lambda op, g: g, assert_is_same=False) is found
    with pytest.raises(AssertionError, match="has another gradient already"):
        basic.opt_register_grad_func("MatMul", lambda op, g: g)


def test_large_gradients_are_filtered(session):
    x = tf.constant([[1.0, 1.0], [3.0, 4.0]])
    y = basic.filter_grad(x, threshold=2.0, axis=1)
    assert session.run(tf1.gradients(0.5 * tf.reduce_sum(tf.square(y)), x)[0]).tolist() == [[1, 1], [0, 0]]


def test_noise_on_gradients(session):
    var = tf1.get_variable("v", shape=(5000,), use_resource=True)
    sparse = tf.IndexedSlices(tf.zeros((2,)), tf.constant([0, 3]), tf.constant([5000]))
    grads = [(tf.zeros((5000,)), var), (None, var), (sparse, var), (sparse, var)]
    noisy = [g for g, _ in basic.add_scaled_noise_to_gradients(grads[:3], 0.5)]
    (still_sparse, _) = basic.add_scaled_noise_to_gradients(grads[3:], 0.5, sparse_grads=True)[0]
    assert isinstance(still_sparse, tf.IndexedSlices)
    assert noisy[1] is None
    assert session.run(noisy[0]).std() == pytest.approx(0.5 * 0.88, rel=0.1)  # truncated at two standard deviations


@pytest.mark.parametrize(
    ("text", "largest", "smallest"),
    [
        ("xavier", (6 / 30) ** 0.5, 0),
        ("xavier_initializer(uniform=True)", (6 / 30) ** 0.5, 0),
        ("random_uniform_abs_initializer(limit=0.2)", 0.2, 0),
        ("variance_scaling_non_zero_initializer(mode='fan_in', scale=0.75)", (3 * 0.75 / 10) ** 0.5, 0.5),
        ({"class": "VarianceScalingNonZero", "non_zero_fraction": 0.25}, (3 / 10) ** 0.5, 0.25),
    ],
    ids=str,
)
def test_initial_values(session, text, largest, smallest):
    values = numpy.abs(session.run(basic.get_initializer(text, seed=3)((10, 20), dtype=tf.float32)))
    assert 0.9 * largest < values.max() <= largest * 1.0001
    assert values.min() >= smallest * largest * 0.999


@pytest.mark.parametrize(
    "text", ["math.sqrt(0.25)", "1./2", "numpy.array(0.5)", 0.5, numpy.float64(0.5), "0.5"], ids=str
)
def test_the_same_initial_value_everywhere(session, text):
    assert (session.run(basic.get_initializer(text)((2, 3), dtype=tf.float32)) == 0.5).all()


@pytest.mark.parametrize("value", [[1.0, 2.0], {"value": 1.0}, ("glorot_uniform",)], ids=str)
def test_what_is_no_initializer(value):
    with pytest.raises(ConfigError, match="is no initializer: it has to be a number, the name of an initializer"):
        basic.get_initializer(value)


def test_initial_values_from_a_file(session, tmp_path):
    numpy.savetxt(tmp_path / "w.txt", [[1.0, 2.0], [3.0, 4.0]])
    initializer = basic.get_initializer(f"load_txt_file_initializer({str(tmp_path / 'w.txt')!r})")
    assert session.run(initializer((2, 2), dtype=tf.float32)).tolist() == [[1, 2], [3, 4]]


def test_gammatone_filters(session):
    bank = GammatoneFilterbank(num_channels=5, length=0.04, sample_rate=16000)
    centers = bank.center_frequencies(5, 7500.0, 100.0)
    numpy.testing.assert_allclose(centers[[0, -1]], [100, 7500], rtol=1e-6)
    assert greenwood_function(inv_greenwood_function(440.0)) == pytest.approx(440)
    filters = bank.get_gammatone_filterbank()
    gains = numpy.abs(numpy.fft.rfft(filters, n=16000, axis=0))  # a bin per Hz
    numpy.testing.assert_allclose(gains.max(axis=0), 1, rtol=0.01)
    assert numpy.all(numpy.abs(gains.argmax(axis=0) - centers) < 0.03 * centers + 5)
    initializer = basic.get_initializer("gammatone_filterbank_initializer()")
    values = session.run(initializer((640, 1, 5), dtype=tf.float32))
    numpy.testing.assert_array_equal(values[:, 0], filters)


def brute_force_search(scores, beam_size):
    indices = sorted(numpy.ndindex(scores.shape), key=lambda index: -scores[index])[:beam_size]
    return [i for i, _ in indices], [j for _, j in indices], [scores[i, j] for i, j in indices]


def test_best_hypotheses(session):
    scores = numpy.random.RandomState(1).normal(size=(3, 2, 5)).astype("float32")
    src, labels, best = session.run(basic.beam_search(tf.constant(scores), 4))
    for b in range(3):
        assert (src[b].tolist(), labels[b].tolist(), best[b].tolist()) == brute_force_search(scores[b], 4)
    src, labels, best = session.run(basic.beam_search(tf.constant(scores), 4, keep_beams=True))
    assert src.tolist() == [[0, 0, 1, 1]] * 3
    assert labels[0, :2].tolist() == numpy.argsort(-scores[0, 0])[:2].tolist()
    gold = numpy.argmax(scores[:, 1], axis=-1)
    src, labels, best = session.run(basic.beam_search(tf.constant(scores), 4, cheating_gold_targets=tf.constant(gold)))
    assert (src[:, -1].tolist(), labels[:, -1].tolist()) == ([1, 1, 1], gold.tolist())
    pairs = [set(zip(*row, strict=True)) for row in zip(src.tolist(), labels.tolist(), strict=True)]
    assert all(len(found) == 4 for found in pairs)  # the gold target is there once


def test_bleu(session):
    hyps, refs = numpy.array([[1, 2, 3, 4, 5], [1, 1, 1, 1, 0]]), numpy.array([[1, 2, 3, 4, 5], [2, 3, 4, 5, 0]])
    scores = session.run(
        basic.bleu_score(tf.constant(hyps), tf.constant(refs), tf.constant([5, 4]), tf.constant([5, 4]))
    )
    assert scores[0] == pytest.approx(1)
    assert scores[1] < 0.5


@pytest.fixture
def attention(session):
    lengths = Tensor("lengths", dims=[batch_dim], dtype="int32", raw_tensor=tf.constant([3, 2]))
    time, heads = Dim(lengths, name="time"), Dim(2, name="heads")
    batch_dim.dyn_size_ext = Tensor("batch", dims=[], dtype="int32", raw_tensor=tf.constant(2))
    values = numpy.random.RandomState(1).normal(size=(2, 3, 2)).astype("float32")
    values[1, 2] = numpy.nan
    return session, time, heads, values


def test_cross_entropy_over_sequences(attention):
    session, time, heads, values = attention
    logits = Tensor("logits", dims=[batch_dim, time, heads], dtype="float32", raw_tensor=tf.constant(values))
    targets = numpy.array([[0.5, 0.5, 0.0], [0.0, 1.0, numpy.nan]], dtype="float32")
    labels = Tensor("labels", dims=[batch_dim, time], dtype="float32", raw_tensor=tf.constant(targets))
    out = basic.softmax_cross_entropy_over_size(logits, labels)
    result = session.run(out)
    for b, h in itertools.product(range(2), range(2)):
        n = 3 - b
        probs = numpy.exp(values[b, :n, h]) / numpy.exp(values[b, :n, h]).sum()
        assert result[b, h] == pytest.approx(-(targets[b, :n] * numpy.log(probs)).sum(), rel=1e-4)


def test_reduced_to_the_dims_of_another(attention):
    session, time, heads, values = attention
    x = Tensor("x", dims=[batch_dim, time, heads], dtype="float32", raw_tensor=tf.constant(values))
    target = Tensor("y", dims=[heads, batch_dim], dtype="float32")
    out = session.run(basic.copy_compatible_reduce(x, target, "max").raw_tensor)
    numpy.testing.assert_allclose(out.reshape(2, 2).T, [values[0].max(axis=0), values[1, :2].max(axis=0)])
    basic.set_padding_info(x, time, 5.0)
    assert basic.get_padding_info_dict_ref(x) == {time: 5.0}


@pytest.mark.parametrize("circular", [True, False])
def test_smoothing_energy_of_a_plain_grid_is_zero_inside(session, circular):
    energy = session.run(basic.spatial_smoothing_energy(tf.ones((3, 16)), 16, use_circular_conv=circular))
    assert (energy == pytest.approx(0, abs=1e-6)) == circular


sizes = st.lists(st.integers(1, 4), min_size=1, max_size=3)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=3), st.integers(1, 3))
def test_each_part_gets_what_fits_of_the_old_part(parts, other):
    old, new = [a for a, _ in parts], [b for _, b in parts]
    values = numpy.arange(float(sum(old) * other)).reshape(sum(old), other) + 1
    result = basic.copy_with_new_split_axes([old, [other]], [new, [other + 1]], values)
    assert result.shape == (sum(new), other + 1)
    starts = zip(numpy.cumsum([0, *old]), numpy.cumsum([0, *new]), parts, strict=False)
    for a, b, (old_size, new_size) in starts:
        n = min(old_size, new_size)
        numpy.testing.assert_array_equal(result[b : b + n, :other], values[a : a + n])
        assert not result[b + n : b + new_size].any()


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5), st.integers(2, 4))
def test_parts_change_alike(n_in, n_out, new_out, gates):
    info = [[n_in, n_out], [n_out] * gates]
    if n_in == n_out:
        return
    new = basic.transform_param_axes_split_info_to_new_shape(info, [n_in + new_out, gates * new_out])
    assert new == [[n_in, new_out], [new_out] * gates]
    basic.check_param_axes_split_info([n_in + new_out, gates * new_out], new)


def test_parts_of_dims():
    a, b = Dim(3, name="a"), Dim(4, name="b")
    assert parts_of_dim(a + b) == [3, 4]
    assert parts_of_dim(2 * b) == [4, 4]
    assert parts_of_dim(a + 2 * b) == [3, 4, 4]
    assert parts_of_dim(a) is None


def test_nets_are_copied_with_the_same_tensors(session):
    x = tf.constant(1)
    net = {"a": [x, {"dim": batch_dim}]}
    copied = basic.safe_deep_copy(net)
    assert copied == net
    assert copied["a"] is not net["a"]
    assert copied["a"][0] is x
    assert session is not None


def test_threads_of_summary_writers_end(tmp_path):
    with tf.Graph().as_default():
        writer = tf1.summary.FileWriter(str(tmp_path))
    writer.add_summary(tf1.Summary(value=[tf1.Summary.Value(tag="x", simple_value=1.0)]), 1)
    basic.stop_all_event_writer_threads()
    assert any(path.stat().st_size > 0 for path in tmp_path.iterdir())
