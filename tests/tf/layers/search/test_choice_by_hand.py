"""Searches with random options of `choice`, against a search in numpy."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy
import pytest

from tests.tf.layers.search.search_net import EOS, NUM_LABELS, SearchNet, decoder, inputs
from tests.tf.layers.search.test_search import models

ACTIVATIONS = {"prob": "softmax", "log_prob": "log_softmax", "logits": None}
IMPOSSIBLE = -1e29


@dataclass(frozen=True)
class Hypothesis:
    """What was found so far, in numpy."""

    score: float
    state: object
    labels: tuple[int, ...] = ()
    ended: bool = False
    length: int = 0


class Search:
    """A search for all sequences of a batch at once, as far as they depend on each other."""

    def __init__(self, options, *, max_len, include_eos, depends_on_batch, targets):
        self.options, self.max_len, self.include_eos = options, max_len, include_eos
        self.depends_on_batch, self.targets = depends_on_batch, targets
        self.lengths = [len(x) for x in targets] if options["cheating"] else None

    def run(self, seqs):
        """:return: for each sequence the hypotheses, with their scores"""
        if not self.depends_on_batch and len(seqs) > 1:
            return [hyps for seq in seqs for hyps in self.run([seq])]
        beams = {seq: [Hypothesis(0.0, seq[1].start)] for seq in seqs}
        for t in range(self.max_len if self.lengths is None else max(self.lengths[i] for i, _ in seqs)):
            if self.lengths is None and all(x.ended for beam in beams.values() for x in beam):
                break
            beams = {seq: self.step(t, *seq, beam) for seq, beam in beams.items()}
        longest = [max(x.length for x in beam) for beam in beams.values()]
        longest = [max(longest)] * len(seqs) if self.depends_on_batch else longest
        lengths = [n if self.include_eos else n + 1 for n in longest]
        lengths = lengths if self.options["length_normalization"] else [1] * len(seqs)
        return [
            [(x.labels[: x.length], x.score / n) for x in beam] for beam, n in zip(beams.values(), lengths, strict=True)
        ]

    def step(self, t, index, model, beam):
        """:return: the hypotheses after this step"""
        is_last = self.lengths is not None and t >= self.lengths[index]
        if self.lengths is not None:
            over = t > self.lengths[index] if self.depends_on_batch else is_last
            beam = [replace(x, ended=over) for x in beam]
        log_probs, follow = zip(*(model.step(x.state) for x in beam), strict=True)
        scores = self.scores(t, beam, numpy.array(log_probs, "float64"))
        chosen = []
        for score, i, label in self.select(t, index, scores, len(beam)):
            old = beam[i]
            ended = old.ended or (label == EOS and self.lengths is None)
            stays = is_last or (old.ended if self.include_eos else ended)
            labels = (*old.labels, label)
            chosen.append(Hypothesis(score, follow[i](label), labels, ended, old.length + (not stays)))
        return chosen

    def scores(self, t, beam, scores):
        """:return: (beam, labels)"""
        base = numpy.array([x.score for x in beam])
        for i, old in enumerate(beam):
            if old.ended:
                scores[i] = [0.0, *[-1e30 if self.depends_on_batch else -numpy.inf] * (NUM_LABELS - 1)]
                if self.options["length_normalization"]:
                    base[i] *= ((t + 1) / max(t, 1)) ** self.options["length_normalization_exponent"]
        base = [x if numpy.isinf(x) else x * self.options["base_beam_score_scale"] for x in base]
        return scores * self.options["prob_scale"] + numpy.array(base)[:, None]

    def select(self, t, index, scores, num_old):
        """:return: score, index of the old hypothesis, label"""
        size = self.options["beam_size"]
        if self.options["keep_beams"] and t > 0:
            return [(row.max(), i, int(row.argmax())) for i, row in enumerate(scores)]
        if not self.options["cheating"]:
            return self.best(scores, size)
        source, label = 0 if t == 0 else num_old - 1, self.targets[index][t] if t < self.lengths[index] else 0
        free = scores.copy()
        if self.options["cheating"] == "exclusive":
            free[source, label] = -numpy.inf
        return [*self.best(free, size - 1), (scores[source, label], source, label)]

    @staticmethod
    def best(scores, size):
        order = numpy.argsort(-scores.ravel(), kind="stable")[:size]
        found = [(scores.ravel()[i], int(i) // NUM_LABELS, int(i) % NUM_LABELS) for i in order]
        return found + [(-numpy.inf, 0, 0)] * (size - len(found))


@pytest.mark.parametrize("seed", range(12))
def test_the_hypotheses_are_those_of_a_search_by_hand(seed):
    random = numpy.random.RandomState(seed)
    kind, input_type = ["plain", "plain", "keep_beams", True, "exclusive"][seed % 5], list(ACTIVATIONS)[seed % 3]
    beam_size, max_len, include_eos, depends_on_batch = 1 + seed % 4, random.randint(2, 5), seed % 2 == 0, seed % 4 > 1
    options = {
        "beam_size": beam_size,
        "input_type": input_type,
        "length_normalization": bool(random.randint(2)),
        "length_normalization_exponent": random.choice([1.0, 0.5, 2.0]),
        "prob_scale": random.choice([1.0, 0.5, 2.0]),
        "base_beam_score_scale": random.choice([1.0, 1.0, 0.6]),
        "keep_beams": kind == "keep_beams",
        "cheating": kind if kind in (True, "exclusive") else False,
    }
    p = {"class": "linear", "from": "s", "n_out": NUM_LABELS, "activation": ACTIVATIONS[input_type]}
    net_dict = decoder(choice=options, unit={"p": p}, max_seq_len=max_len, include_eos=include_eos)
    net = SearchNet(net_dict, fetch=("output", "scores"), scale=1.5, search_depends_on_batch=depends_on_batch)
    data, lengths = inputs(max_len=4, seed=seed)
    targets = [[0, 2, 3][: random.randint(1, 4)] for _ in lengths]
    labels = numpy.array([x + [0] * (3 - len(x)) for x in targets], "int32")[:, : max(map(len, targets))]
    found = net.hypotheses(beam_size, data=(data, lengths), classes=(labels, [len(x) for x in targets]))
    search = Search(
        options, max_len=max_len, include_eos=include_eos, depends_on_batch=depends_on_batch, targets=targets
    )
    wanted = search.run(list(enumerate(models(net, data, lengths))))
    for entry, want in zip(found, wanted, strict=True):
        for (a, score), (b, wanted_score) in zip(entry, want, strict=True):
            if wanted_score < IMPOSSIBLE:  # there are fewer hypotheses than the beam is large
                assert score < IMPOSSIBLE
                continue
            assert a == b
            assert score == pytest.approx(wanted_score, rel=1e-4, abs=1e-4)
