"""Functions of `returnn.tf.native_op`, each against a definition in plain Python, or against TensorFlow's own."""

from __future__ import annotations

import itertools

import numpy
import pytest
import tensorflow as tf

from returnn import native_op
from returnn.tf import native_op as tf_native_op
from returnn.util.errors import ConfigError

tf1 = tf.compat.v1
rng = numpy.random.default_rng(42)


def run(make):
    with tf.Graph().as_default(), tf1.Session() as session:
        return session.run(make())


def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a):
        new = [i + 1]
        for j, y in enumerate(b):
            new.append(min(row[j] + (x != y), row[j + 1] + 1, new[j] + 1))
        row = new
    return row


@pytest.fixture(params=["kernels", "loops"])
def implementation(request, monkeypatch):
    monkeypatch.setenv("RETURNN_NATIVE", str(int(request.param == "kernels")))


@pytest.fixture(scope="module")
def labels():
    a, b = (rng.integers(0, 3, [6, n]).astype("int32") for n in (5, 4))
    a_len, b_len = numpy.array([5, 0, 3, 4, 2, 1], "int32"), numpy.array([4, 2, 0, 3, 4, 1], "int32")
    pairs = [(list(x[:n]), list(y[:m])) for x, n, y, m in zip(a, a_len, b, b_len, strict=True)]
    return {"a": a, "a_len": a_len, "b": b, "b_len": b_len}, pairs


def test_edit_distances(labels, implementation):
    args, pairs = labels
    successors = numpy.arange(3, dtype="int32")
    names = ("edit_distance", "optimal_completion_edit_distance")
    per_successor = tf_native_op.optimal_completion_edit_distance_per_successor
    out = run(
        lambda: [*(getattr(tf_native_op, x)(**args) for x in names), per_successor(**args, successors=successors)]
    )
    assert out[0].tolist() == [distance(a, b)[-1] for a, b in pairs]
    assert out[1].tolist() == [min(distance(a, b)) for a, b in pairs]
    assert out[2].tolist() == [[min(distance([*a, s], b)) for s in successors] for a, b in pairs]


def test_rows_of_the_table(labels, implementation):
    args, pairs = labels
    row = numpy.array([distance(a, args["b"][i]) for i, (a, _) in enumerate(pairs)], "int32")
    label, ended = numpy.array([0, 1, 2, 0, 1, 2], "int32"), numpy.array([0, 1, 0, 0, 0, 0], "bool")
    rest = (args["a_len"], ended, args["b"], args["b_len"])
    candidates = numpy.broadcast_to(numpy.arange(3, dtype="int32"), [6, 3])
    reduce = tf_native_op.next_edit_distance_reduce
    new, reduced = run(
        lambda: [tf_native_op.next_edit_distance_row(row, label, *rest), reduce(row, candidates, *rest, a_blank_idx=2)]
    )
    for i, (a, b) in enumerate(pairs):
        with_label = a if ended[i] else [*a, label[i]]
        assert new[i].tolist() == distance(with_label, args["b"][i])
        assert reduced[i].tolist() == [distance(a if ended[i] or s == 2 else [*a, s], b)[-1] for s in range(3)]


def paths_of(edges, weights, start, end, num_frames):
    """:return: all label sequences with their weights"""
    for path in itertools.product(range(edges.shape[1]), repeat=num_frames):
        states = [start, *(edges[1, e] for e in path)]
        if states[-1] == end and all(edges[0, e] == states[i] for i, e in enumerate(path)):
            yield [int(edges[2, e]) for e in path], sum(float(weights[e]) for e in path)


def test_sums_and_maxima_over_automata(implementation):
    scores = numpy.log(rng.dirichlet([1.0] * 3, [4, 2])).astype("float32")
    lengths = numpy.array([4, 2], "int32")
    index = (numpy.arange(4)[:, None] < lengths).astype("float32")

    def make():
        edges, weights, states = tf_native_op.get_ctc_fsa_fast_bw(numpy.array([[0, 1], [1, 9]]), [2, 1], 2)
        weights = weights + tf.range(tf.size(weights), dtype=tf.float32) * 0.1
        fsa = {"edges": edges, "weights": weights, "start_end_states": states}
        sums = tf_native_op.fast_baum_welch(-scores, float_idx=index, **fsa)
        again = tf_native_op.make_fast_baum_welch_op()(-scores, edges, weights, states, index, None)
        best = tf_native_op.fast_viterbi(
            am_scores=scores, am_seq_len=lengths, edges=edges, weights=-weights, start_end_states=states, mask_idx=7
        )
        return fsa, sums, again, best

    fsa, (gammas, obs), again, (labels, best) = run(make)
    numpy.testing.assert_allclose(again[1], obs)
    for b in range(2):
        own = fsa["edges"][3] == b
        start, end = fsa["start_end_states"][:, b]
        paths = list(paths_of(fsa["edges"][:, own], fsa["weights"][own], start, end, lengths[b]))
        of_path = [sum(scores[t, b, x] for t, x in enumerate(path)) - weight for path, weight in paths]
        total = numpy.logaddexp.reduce(of_path)
        numpy.testing.assert_allclose(obs[: lengths[b], b], -total, rtol=1e-4)
        numpy.testing.assert_allclose(best[b], max(of_path), rtol=1e-4)
        assert labels[: lengths[b], b].tolist() == paths[int(numpy.argmax(of_path))][0]
        assert (labels[lengths[b] :, b] == 7).all()
        for t, x in itertools.product(range(lengths[b]), range(3)):
            share = sum(numpy.exp(s - total) for s, (path, _) in zip(of_path, paths, strict=True) if path[t] == x)
            numpy.testing.assert_allclose(numpy.exp(-gammas[t, b, x]), share, atol=1e-4)


def test_staircases():
    scores = rng.normal(size=[3, 1, 3]).astype("float32")
    gammas, obs = run(lambda: tf_native_op.fast_baum_welch_staircase(scores, numpy.array([3], "int32")))
    numpy.testing.assert_allclose(numpy.exp(-gammas[:, 0]), numpy.eye(3), atol=1e-5)
    numpy.testing.assert_allclose(obs[0, 0], numpy.trace(scores[:, 0]), rtol=1e-4)


def test_ctc_is_that_of_tensorflow_with_its_gradient(implementation):
    logits = rng.normal(size=[6, 3, 5]).astype("float32")
    targets, target_lengths = numpy.array([[0, 0], [1, 2], [3, 0]], "int32"), numpy.array([2, 2, 1], "int32")
    lengths = numpy.array([6, 5, 3], "int32")

    def make(function):
        x = tf.constant(logits)
        loss = function(x)
        return loss, tf.gradients(loss, x)[0]

    def own(x, **kwargs):
        return tf_native_op.ctc_loss(
            logits=x, logits_seq_lens=lengths, logits_time_major=True, targets=targets, targets_seq_lens=target_lengths,
            **kwargs,
        )  # fmt: skip

    def batch_major(x):
        x = tf.transpose(x, [1, 0, 2])
        return tf_native_op.ctc_loss(
            logits=x, logits_seq_lens=lengths, logits_time_major=False, targets=targets, targets_seq_lens=target_lengths
        )

    def reference(x):
        return tf.nn.ctc_loss(targets, x, target_lengths, lengths, blank_index=-1)

    def normalized(x):
        return own(tf.nn.log_softmax(x), logits_normalize=False, grad_wrt_softmax_in=False)

    losses = (reference, own, batch_major, normalized)
    (expected, expected_gradient), *others = run(lambda: [make(function) for function in losses])
    for loss, gradient in others:
        numpy.testing.assert_allclose(loss, expected, rtol=1e-4)
        numpy.testing.assert_allclose(gradient, expected_gradient, atol=1e-4)
    with pytest.raises(ValueError, match="cannot be different"):
        own(logits, label_loop=True, ctc_merge_repeated=False)


def test_ctc_by_the_best_alignment_and_without_any(implementation):
    logits = rng.normal(size=[3, 2, 4]).astype("float32")
    args = {
        "logits_seq_lens": [3, 1], "logits_time_major": True, "targets": numpy.array([[0, 1], [2, 2]], "int32"),
        "targets_seq_lens": [2, 2],
    }  # fmt: skip

    def make():
        x = tf.constant(logits)
        loss = tf_native_op.ctc_loss_viterbi(logits=x, zero_infinity=True, **args)
        return loss, tf.gradients(loss, x)[0], tf_native_op.ctc_loss(logits=x, **args), tf.nn.log_softmax(x)

    best, gradient, full, scores = run(make)
    paths = [[0, 1, 3], [0, 3, 1], [3, 0, 1], [0, 0, 1], [0, 1, 1]]
    of_path = [sum(scores[t, 0, x] for t, x in enumerate(path)) for path in paths]
    numpy.testing.assert_allclose(best, [-max(of_path), 0.0], rtol=1e-4)
    one_hot = numpy.eye(4)[paths[int(numpy.argmax(of_path))]]
    numpy.testing.assert_allclose(gradient[:, 0], numpy.exp(scores[:, 0]) - one_hot, atol=1e-4)
    assert not gradient[:, 1].any()
    assert numpy.isinf(full[1])


@pytest.mark.parametrize(("num_frames", "size", "step"), [(7, 3, 2), (6, 3, 3), (2, 5, 1), (5, 2, 1)])
def test_chunks_and_back(num_frames, size, step):
    x = rng.normal(size=[num_frames, 2, 3]).astype("float32")
    index = (numpy.arange(num_frames)[:, None] < [num_frames, max(1, num_frames - 2)]).astype("float32")

    def make():
        chunks, chunk_index = tf_native_op.chunk(x, index, size, step)
        return chunks, tf_native_op.unchunk(chunks, chunk_index, size, step, num_frames, 2)

    chunks, (back, back_index, factors) = run(make)
    starts = native_op.Chunking.naive_chunk_start_frames(num_frames, size, step)
    assert chunks.shape == (size, 2 * len(starts), 3)
    for i, start in enumerate(starts):
        part = x[start : start + size]
        numpy.testing.assert_allclose(chunks[: len(part), 2 * i : 2 * i + 2], part)
    numpy.testing.assert_allclose(back, x * index[..., None], rtol=1e-5)
    numpy.testing.assert_allclose(back_index, index)
    assert ((factors > 0) == (index > 0)).all()


def test_lstm_by_its_description():
    z, weights, c = (rng.normal(size=shape).astype("float32") for shape in ([4, 2, 12], [3, 12], [2, 3]))
    index = numpy.ones([4, 2], "float32")
    w = rng.normal(size=[8, 12]).astype("float32")
    x = rng.normal(size=[4, 2, 5]).astype("float32")

    def make():
        zeros = tf.zeros([2, 3])
        y, _, d = tf_native_op.make_lstm_op()(z, weights, c, index)
        y2, _, _, d2 = tf_native_op.make_op(native_op.NativeLstm2)(z, weights, zeros, c, index, 0, 1)
        low = tf_native_op.make_op(native_op.LstmLowMem)(x, w, tf.zeros([12]), zeros, c, index, 0, 1)
        same = tf_native_op.make_op(native_op.NativeLstm2)(tf.tensordot(x, w[:5], 1), w[5:], zeros, c, index, 0, 1)
        return (y, d), (y2, d2), (low[0], low[2]), (same[0], same[3])

    one, two, low, same = run(make)
    for a, b in ((one, two), (low, same)):
        for left, right in zip(a, b, strict=True):
            numpy.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)
    with pytest.raises(ConfigError, match="'start' has to be 0"):
        run(lambda: tf_native_op.make_op(native_op.NativeLstm2)(z, weights, c, c, index, 1, 1)[0])


def test_indices():
    x, index = rng.normal(size=[3, 2, 4]).astype("float32"), rng.integers(0, 4, [3, 2]).astype("int32")
    op = tf_native_op.make_op(native_op.SubtensorBatchedIndex)
    numpy.testing.assert_allclose(run(lambda: op(x, index)), numpy.take_along_axis(x, index[..., None], -1)[..., 0])
    assert native_op.sparse_splice_offset_numpy(numpy.array([1, 4, 7]), numpy.array([0, 4, 9])).tolist() == [0, 1, 3]


def test_a_gradient_of_ones_own():
    description = native_op.OpDescription.from_gen_base(native_op.SubtensorBatchedIndex)
    assert description.is_grad_defined
    op = tf_native_op.OpMaker(description).make_op(lambda op, dy: (op.inputs[0] * 2.0 + dy[..., None], None))
    x = numpy.ones([1, 1, 2], "float32")

    def make():
        value = tf.constant(x)
        return tf.gradients(op(value, tf.constant([[1]])), value)[0]

    assert run(make).tolist() == [[[3.0, 3.0]]]


def test_what_there_is_not_says_what_to_use():
    with pytest.raises(ConfigError, match="there is no native operation 'TwoDLSTM'"):
        tf_native_op.make_op(native_op.TwoDLSTM)
    with pytest.raises(ConfigError, match="option 'blas_lib' is not supported"):
        tf_native_op.make_op(native_op.EditDistanceOp, blas_lib="x")

    class Own(native_op.NativeOpGenBase):
        c_fw_code = "int x;"

    with pytest.raises(ConfigError, match="native operation 'Own': code that is compiled into one operation is not"):
        tf_native_op.make_op(Own)
    assert not tf_native_op.have_blocksparse_requirements()
    with pytest.raises(ConfigError, match="'blocksparse' does not work"):
        tf_native_op.init_blocksparse()
