"""Beam search label by label: against trying all sequences, on all backends, whatever the batch is."""

from __future__ import annotations

import itertools

import numpy
import pytest

import returnn.frontend as rf
from returnn.frontend.decoder.transformer import TransformerDecoder
from returnn.frontend.search import beam_search
from returnn.frontend.search.result import NEVER
from returnn.tensor import Dim, single_step_dim
from returnn.util.errors import ConfigError
from tests.frontend.models.model_run import SEARCH_BACKENDS, Batch, run

VOCAB, MODEL = Dim(4, name="vocab"), Dim(8, name="model")
BOS, EOS = 1, 0


def make():
    decoder = TransformerDecoder(None, VOCAB, MODEL, num_layers=1, num_heads=2)
    decoder.logits.weight.initial = rf.init.Normal(stddev=0.5)  # sharp
    return decoder


def searched(**options):
    options = {"beam_size": 3, **options}

    def call(decoder, inputs):
        """The first label of each sequence stands before all that is found; its length is the limit."""
        first = rf.gather(inputs.source, indices=0, axis=inputs.time_dim)

        def initial_state(batch_dims):
            state = decoder.default_initial_state(batch_dims=batch_dims)
            label = rf.expand_dims(first, [d for d in batch_dims if d not in first.dims]).copy_transpose(batch_dims)
            return decoder(label, spatial_dim=single_step_dim, state=state)[1]

        def step(labels, state):
            logits, state = decoder(labels, spatial_dim=single_step_dim, state=state)
            return rf.log_softmax(logits, axis=VOCAB), state

        found = beam_search(
            step,
            initial_state=initial_state,
            batch_dims=[inputs.batch_dim],
            vocab_dim=VOCAB,
            bos=BOS,
            **{"eos": EOS, "max_seq_len": inputs.time_dim.get_size_tensor(), **options},
        )
        best, best_dim = found.best()
        return (
            found.scores.copy_transpose([inputs.batch_dim, found.beam_dim]),
            found.spatial_dim.get_size_tensor().copy_transpose([inputs.batch_dim, found.beam_dim]),
            found.labels.copy_transpose([inputs.batch_dim, found.beam_dim, found.spatial_dim]),
            best.copy_transpose([inputs.batch_dim, best_dim]),
            found.ranking.copy_transpose([inputs.batch_dim, found.beam_dim]),
            found.ended.copy_transpose([inputs.batch_dim, found.beam_dim]),
        )

    return call


def hypotheses(found):
    """:return: for each sequence the hypotheses, as (score, labels)"""
    scores, lengths, labels, *_ = found
    return [
        [(float(scores[b, k]), tuple(labels[b, k, : lengths[b, k]])) for k in range(scores.shape[1])]
        for b in range(scores.shape[0])
    ]


def all_sequences(params, first, limit, exponent):
    """
    :return: (compared, score, labels) of all sequences of labels with the end, and of those that are as long as the
        limit, the best one first: a score is the one of the labels, given all at once
    """

    def score_all(decoder, inputs):
        state = decoder.default_initial_state(batch_dims=[inputs.batch_dim])
        logits, _ = decoder(inputs.source, spatial_dim=inputs.time_dim, state=state)
        return rf.log_softmax(logits, axis=VOCAB).copy_transpose([inputs.batch_dim, inputs.time_dim, VOCAB])

    rest = [label for label in range(VOCAB.dimension) if label != EOS]
    known = []
    for length in range(limit + 1):
        end = (EOS,) if length < limit else ()
        known += [(*labels, *end) for labels in itertools.product(rest, repeat=length)]
    longest = max(len(labels) for labels in known)
    values = numpy.zeros((len(known), longest + 2), "int32")
    for i, labels in enumerate(known):
        values[i, : len(labels) + 2] = (first, BOS, *labels)
    batch = Batch(values, [len(labels) + 2 for labels in known])
    log_probs, _ = run("torch", make, score_all, batch, VOCAB, params=params)
    out = []
    for i, labels in enumerate(known):
        score = sum(log_probs[i, t + 1, label] for t, label in enumerate(labels))
        out.append((score / len(labels) ** exponent, score, tuple(label for label in labels if label != EOS)))
    return sorted(out, reverse=True)


BATCH = Batch(numpy.array([[2, 0, 0], [3, 0, 0], [2, 0, 0], [0, 0, 0]], "int32"), [3, 1, 2, 2])


@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_a_wide_beam_finds_the_best_of_all(exponent):
    wide = searched(beam_size=200, length_normalization_exponent=exponent)
    found, params = run("torch", make, wide, BATCH, VOCAB)
    for b, hyps in enumerate(hypotheses(found)):
        expected = all_sequences(params, BATCH.values[b, 0], BATCH.lengths[b], exponent)[:10]
        hyps = hyps[: len(expected)]
        assert [labels for _, labels in hyps] == [labels for _, _, labels in expected]
        numpy.testing.assert_allclose([score for score, _ in hyps], [score for _, score, _ in expected])
        assert tuple(found[3][b, : len(hyps[0][1])]) == hyps[0][1]
        numpy.testing.assert_allclose(
            found[4][b, : len(expected)], [compared for compared, _, _ in expected], rtol=1e-5
        )


@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_backends_agree_and_other_sequences_do_not_matter(exponent):
    call = searched(length_normalization_exponent=exponent)
    found, params = run("numpy", make, call, BATCH, VOCAB)
    expected = hypotheses(found)
    for backend in SEARCH_BACKENDS[1:]:
        got, _ = run(backend, make, call, BATCH, VOCAB, params=params)
        assert_same(hypotheses(got), expected)
    for b in range(len(BATCH.lengths)):
        alone, _ = run("torch", make, call, BATCH.only(b), VOCAB, params=params)
        assert_same(hypotheses(alone), expected[b : b + 1])


def assert_same(got, expected):
    for one, other in zip(got, expected, strict=True):
        assert [labels for _, labels in one] == [labels for _, labels in other]
        numpy.testing.assert_allclose([s for s, _ in one], [s for s, _ in other], rtol=1e-9)


def test_layers_have_the_scores_of_a_search_with_a_state_of_fixed_size():
    """The next label depends on the one before alone; its vectors have the labels as dim twice."""

    def make_bigrams():
        bigrams = rf.Linear(VOCAB, VOCAB)
        bigrams.weight.initial = rf.init.Normal(stddev=0.5)
        return bigrams

    def call(bigrams, inputs):
        found = beam_search(
            lambda labels, num: (rf.log_softmax(bigrams(labels), axis=VOCAB), num + 1),
            initial_state=lambda batch_dims: rf.zeros(batch_dims, dtype="int32"),
            batch_dims=[inputs.batch_dim],
            beam_size=3,
            vocab_dim=VOCAB,
            bos=BOS,
            eos=EOS,
            max_seq_len=inputs.time_dim.get_size_tensor(),
        )
        return found.scores.copy_transpose([inputs.batch_dim, found.beam_dim])

    expected, params = run("numpy", make_bigrams, call, BATCH, VOCAB)
    got, _ = run("returnn_layers_tf", make_bigrams, call, BATCH, VOCAB, params=params)
    numpy.testing.assert_allclose(got, expected)


def test_without_an_end_all_have_as_many_labels_as_the_limit_says():
    call = searched(beam_size=70, eos=None)
    found, params = run("numpy", make, call, BATCH, VOCAB)
    for b, (limit, hyps) in enumerate(zip(BATCH.lengths, hypotheses(found), strict=True)):
        real = [(score, labels) for score, labels in hyps if score > NEVER / 2]
        assert sorted(labels for _, labels in real) == list(itertools.product(range(VOCAB.dimension), repeat=limit))
        numpy.testing.assert_allclose(numpy.logaddexp.reduce([score for score, _ in real]), 0.0, atol=1e-6)
        alone, _ = run("torch", make, call, BATCH.only(b), VOCAB, params=params)
        assert_same([hypotheses(alone)[0][: len(real)]], [real])


def test_without_an_end_backends_agree():
    found, params = run("numpy", make, searched(eos=None), BATCH, VOCAB)
    for backend in SEARCH_BACKENDS[1:]:
        got, _ = run(backend, make, searched(eos=None), BATCH, VOCAB, params=params)
        assert_same(hypotheses(got), hypotheses(found))


@pytest.mark.parametrize("limit", [0, 1])
def test_a_number_limits_all(limit):
    (scores, lengths, *_, ended), _ = run("numpy", make, searched(max_seq_len=limit), BATCH, VOCAB)
    assert lengths.max() == limit
    real = scores > NEVER / 2
    assert numpy.array_equal(ended[real], lengths[real] < limit)
    assert not ended.all()
    assert numpy.all(scores[:, 0] < 0 if limit else scores[:, 0] == 0)


@pytest.mark.parametrize(
    ("options", "text"),
    [({"eos": 9}, "eos=9 is no label of"), ({"beam_size": 0}, "beam_size should be at least 1, not 0")],
)
def test_error_texts(options, text):
    options = {"bos": 0, "eos": 0, "beam_size": 1, "max_seq_len": 1, **options}
    with pytest.raises(ConfigError, match=text):
        beam_search(None, initial_state=None, batch_dims=[], vocab_dim=VOCAB, **options)
