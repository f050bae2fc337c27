"""Search frame by frame: against trying all alignments, on all backends, whatever the batch is."""

from __future__ import annotations

import itertools

import numpy
import pytest

import returnn.frontend as rf
from returnn.frontend.search import time_synchronous_search
from returnn.tensor import Dim, single_step_dim
from returnn.util.errors import ConfigError
from tests.frontend.models.model_run import SEARCH_BACKENDS, Batch, run
from tests.frontend.search.test_label_synchronous import assert_same, hypotheses

WB = Dim(3, name="labels_with_blank")
HIDDEN = Dim(4, name="hidden")
BLANK = 2
KINDS = ("ctc", "ctc with a language model", "transducer")


class Model(rf.Module):
    """Scores of frames by a table; those of labels behind others by a recurrent network."""

    def __init__(self):
        super().__init__()
        self.embedding = rf.Embedding(WB, HIDDEN)
        self.lstm = rf.LSTM(HIDDEN, HIDDEN)
        self.out = rf.Linear(HIDDEN, WB)
        self.out.weight.initial = rf.init.Normal(stddev=3.0)

    def start(self, batch_dims):
        state = self.lstm.default_initial_state(batch_dims=batch_dims)
        return rf.State(lstm=state)

    def after(self, labels, state):
        _, lstm = self.lstm(self.embedding(labels), spatial_dim=single_step_dim, state=state.lstm)
        return rf.State(lstm=lstm)

    def scores(self, state):
        return rf.log_softmax(self.out(state.lstm.h), axis=WB)


def searched(kind, *, beam_size=3, merge="sum", label_loop=True):
    def call(model, inputs):
        def transducer(frame, state):
            return rf.log_softmax(frame + model.scores(state), axis=WB)

        options = {"score": lambda frame, _: frame}
        if kind == "ctc with a language model":
            options["label_score"] = model.scores
        if kind == "transducer":
            options["score"] = transducer
        if kind != "ctc":
            options["advance"] = model.after
            options["initial_state"] = model.start
        found = time_synchronous_search(
            **options,
            xs=rf.log_softmax(inputs.source, axis=WB),
            spatial_dim=inputs.time_dim,
            batch_dims=[inputs.batch_dim],
            beam_size=beam_size,
            wb_dim=WB,
            blank=BLANK,
            label_loop=label_loop,
            merge=merge,
        )
        return (
            found.scores.copy_transpose([inputs.batch_dim, found.beam_dim]),
            found.spatial_dim.get_size_tensor().copy_transpose([inputs.batch_dim, found.beam_dim]),
            found.labels.copy_transpose([inputs.batch_dim, found.beam_dim, found.spatial_dim]),
            found.alignment.copy_transpose([inputs.batch_dim, found.beam_dim, inputs.time_dim]),
        )

    return call


def random_frames(lengths, seed=1):
    values = numpy.random.RandomState(seed).normal(size=(len(lengths), max(lengths), WB.dimension)) * 2
    return Batch(values, list(lengths))


def collapse(alignment, label_loop):
    """:return: the labels of an alignment"""
    before = (BLANK, *alignment[:-1])
    return tuple(a for a, b in zip(alignment, before, strict=True) if a != BLANK and not (label_loop and a == b))


def all_hypotheses(kind, params, frames, *, label_loop, merge):
    """:return: (score, labels) of all label sequences, the best one first"""
    model = NumpyModel(params)
    frames = log_softmax(frames)
    scores = {}
    for alignment in itertools.product(range(WB.dimension), repeat=len(frames)):
        total, before, state = 0.0, BLANK, model.start()
        for frame, symbol in zip(frames, alignment, strict=True):
            begins = symbol != BLANK and not (label_loop and symbol == before)
            if kind == "transducer":
                frame = log_softmax(frame + model.scores(state))
            total += frame[symbol]
            if kind == "ctc with a language model" and begins:
                total += model.scores(state)[symbol]
            if begins:
                state = model.after(symbol, state)
            before = symbol
        labels = collapse(alignment, label_loop)
        join = numpy.logaddexp if merge == "sum" else max
        scores[labels] = join(scores[labels], total) if labels in scores else total
    return sorted(((score, labels) for labels, score in scores.items()), reverse=True)


def log_softmax(x):
    return x - numpy.logaddexp.reduce(x, axis=-1, keepdims=True)


class NumpyModel:
    """`Model` for a single hypothesis, through the numpy backend."""

    def __init__(self, params):
        self.params = params
        with rf.backend_ctx("numpy"), rf.set_default_float_dtype_ctx("float64"):
            self.model = Model()
            for name, parameter in self.model.named_parameters():
                parameter.assign(params[name])

    def start(self):
        with rf.backend_ctx("numpy"), rf.set_default_float_dtype_ctx("float64"):
            return self.model.start([])

    def after(self, symbol, state):
        with rf.backend_ctx("numpy"), rf.set_default_float_dtype_ctx("float64"):
            return self.model.after(rf.convert_to_tensor(symbol, dims=(), dtype="int32", sparse_dim=WB), state)

    def scores(self, state):
        with rf.backend_ctx("numpy"), rf.set_default_float_dtype_ctx("float64"):
            return self.model.scores(state).raw_tensor


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("label_loop", "merge"), [(True, "sum"), (False, "sum"), (True, "max")])
def test_a_wide_beam_finds_the_best_of_all(kind, label_loop, merge):
    batch = random_frames([4, 2, 3])
    call = searched(kind, beam_size=70, merge=merge, label_loop=label_loop)
    found, params = run("torch", Model, call, batch, WB)
    for b, hyps in enumerate(hypotheses(found)):
        frames = batch.values[b, : batch.lengths[b]]
        expected = all_hypotheses(kind, params, frames, label_loop=label_loop, merge=merge)[:6]
        hyps = hyps[: len(expected)]
        assert [labels for _, labels in hyps] == [labels for _, labels in expected]
        numpy.testing.assert_allclose([score for score, _ in hyps], [score for score, _ in expected])
        alignment = tuple(found[3][b, 0, : len(frames)])
        assert collapse(alignment, label_loop) == hyps[0][1]


@pytest.mark.parametrize("kind", KINDS)
def test_backends_agree_and_other_sequences_do_not_matter(kind):
    batch = random_frames([9, 1, 5, 9])
    call = searched(kind)
    found, params = run("numpy", Model, call, batch, WB)
    expected = hypotheses(found)
    for backend in SEARCH_BACKENDS[1:]:
        got, _ = run(backend, Model, call, batch, WB, params=params)
        assert_same(possible(hypotheses(got)), possible(expected))
    for b in range(len(batch.lengths)):
        alone, _ = run("torch", Model, call, batch.only(b), WB, params=params)
        assert_same(possible(hypotheses(alone)), possible(expected[b : b + 1]))


def possible(hyps):
    """:return: the hypotheses without empty places of the beam"""
    return [[(score, labels) for score, labels in beam if score > -1e20] for beam in hyps]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"blank": 3}, "blank=3 is no label of"),
        ({"beam_size": 0}, "beam_size should be at least 1, not 0"),
        ({"merge": "mean"}, "merge should be 'sum' or 'max', not 'mean'"),
    ],
)
def test_error_texts(options, text):
    options = {"blank": 0, "beam_size": 1, "merge": "sum", **options}
    with pytest.raises(ConfigError, match=text):
        time_synchronous_search(None, xs=None, spatial_dim=WB, batch_dims=[], wb_dim=WB, label_loop=True, **options)
