"""What is found for a sequence does not depend on the batch that it is in, with `search_depends_on_batch = False`."""

from __future__ import annotations

import numpy
import pytest

from tests.tf.layers.search.search_net import SearchNet, decoder, inputs
from tests.tf.layers.search.search_net import labels as target_labels

NUM_SEQS, NUM_BATCHINGS = 14, 100
NORMALIZED = {"length_normalization": True}
RECURRENT = {"s": {"class": "rnn_cell", "unit": "lstm", "from": ["emb", "base:ctx"], "n_out": 4}}
ATTENTION = {
    "energy": {"class": "dot", "from": ["base:keys", "prev:s"], "reduce": "F"},
    "weights": {"class": "softmax_over_spatial", "from": "energy"},
    "att": {"class": "generic_attention", "weights": "weights", "base": "base:keys", "auto_squeeze": True},
    "s": {"class": "linear", "from": ["emb", "att", "prev:s"], "n_out": 4, "activation": "tanh"},
}
KEYS = {"keys": {"class": "linear", "from": "data", "n_out": 4, "activation": None}}
NEVER = {"end": {"class": "compare", "from": "output", "value": -1}}
LIMIT = "max_len_from('base:data')"
MODELS = {
    "limit": decoder(max_seq_len=LIMIT),
    "limit, normalized": decoder(max_seq_len=f"{LIMIT} + 1", choice=NORMALIZED),
    "limit, exponent": decoder(max_seq_len=LIMIT, choice={**NORMALIZED, "length_normalization_exponent": 0.6}),
    "expression": decoder(max_seq_len=f"tf.minimum({LIMIT} * 2, 9)", choice=NORMALIZED),
    "include_eos": decoder(max_seq_len=LIMIT, include_eos=True, choice=NORMALIZED),
    "number": decoder(max_seq_len=6, choice=NORMALIZED),
    "never ends": decoder(max_seq_len=LIMIT, unit=NEVER, choice=NORMALIZED),
    "large beam": decoder(max_seq_len=LIMIT, choice={**NORMALIZED, "beam_size": 7}),
    "lstm": decoder(max_seq_len=LIMIT, unit=RECURRENT, choice=NORMALIZED),
    "attention": {**KEYS, **decoder(max_seq_len=f"{LIMIT} * 2", unit=ATTENTION, choice=NORMALIZED)},
    "discounted past": decoder(max_seq_len=LIMIT, choice={**NORMALIZED, "base_beam_score_scale": 0.5}),
    "by the last label": decoder(max_seq_len=LIMIT, choice={"base_beam_score_scale": 0.0, "prob_scale": 0.3}),
    "each goes on": decoder(max_seq_len=LIMIT, choice={**NORMALIZED, "keep_beams": True}),
    "known length": decoder(max_seq_len=None, target="classes", choice=NORMALIZED, unit={"end": None}),
}
MODELS["known length"]["output"]["unit"].pop("end")
MODELS["known length"]["output"].update({"from": "data", "target": None})


def batch_of(seqs):
    """:return: padded with numbers that would be seen, and lengths"""
    lengths = numpy.array([len(seq) for seq in seqs], "int32")
    data = numpy.full((len(seqs), max(lengths), 3), 7.0, "float32")
    for row, seq in zip(data, seqs, strict=True):
        row[: len(seq)] = seq
    return data, lengths


def batchings(rng):
    """:yield: orders of all sequences, cut into batches"""
    for _ in range(NUM_BATCHINGS):
        order = rng.permutation(NUM_SEQS)
        cuts = numpy.sort(rng.choice(numpy.arange(1, NUM_SEQS), size=rng.integers(0, 5), replace=False))
        yield numpy.split(order, cuts)


def differences(net, beam, *, num_batchings=NUM_BATCHINGS):
    """:return: number of hypotheses that differ, of all compared ones; largest relative difference of scores"""
    rng = numpy.random.default_rng(1)
    seqs = [rng.normal(0.0, 1.5, (rng.integers(1, 7), 3)).astype("float32") for _ in range(NUM_SEQS)]
    alone = [net.hypotheses(beam, data=batch_of([seq]))[0] for seq in seqs]
    num_different, num_compared, largest = 0, 0, 0.0
    for batches, _ in zip(batchings(rng), range(num_batchings), strict=False):
        for indices in batches:
            found = net.hypotheses(beam, data=batch_of([seqs[i] for i in indices]))
            for index, hypotheses in zip(indices, found, strict=True):
                for (labels, score), (labels_alone, score_alone) in zip(hypotheses, alone[index], strict=True):
                    if not numpy.isfinite(score_alone) and not numpy.isfinite(score):
                        continue  # there are fewer hypotheses than the beam is large
                    num_compared += 1
                    num_different += labels != labels_alone
                    largest = max(largest, abs(score - score_alone) / max(abs(score_alone), 1.0))
    return num_different, num_compared, largest


@pytest.mark.parametrize("name", MODELS)
def test_nothing_differs_over_a_hundred_batchings(name):
    beam = MODELS[name]["output"]["unit"]["output"]["beam_size"]
    for scale in (1.0, 3.0):
        net = SearchNet(MODELS[name], fetch=("output", "scores"), scale=scale, search_depends_on_batch=False)
        num_different, num_compared, largest = differences(net, beam)
        assert num_compared > 1000
        assert num_different == 0
        assert largest < 3e-6  # rounding: products of fewer sequences are summed in another order


@pytest.mark.parametrize("name", ["limit, normalized", "known length"])
def test_the_original_meaning_depends_on_the_batch(name):
    net = SearchNet(MODELS[name], fetch=("output", "scores"), scale=1.0, search_depends_on_batch=True)
    num_different, _, largest = differences(net, 3, num_batchings=10)
    assert num_different > 0 or largest > 1e-3


@pytest.mark.parametrize("options", [{"cheating": True}, {"cheating": "exclusive"}, {"search": False}])
@pytest.mark.parametrize("normalized", [False, True])
def test_padded_labels_of_the_target_do_not_matter(options, normalized):
    choice = {**options, "length_normalization": normalized, "base_beam_score_scale": 0.7}
    net = SearchNet(decoder(choice=choice), fetch=("output", "scores"), search_depends_on_batch=False)
    (target, lengths), data = target_labels(), inputs()
    beam = 3
    alone = [
        net.hypotheses(beam, data=(data[0][b : b + 1, :n], [n]), classes=(target[b : b + 1, :m], [m]))[0]
        for b, (n, m) in enumerate(zip(data[1], lengths, strict=True))
    ]
    for padding in (0, 2):
        for row, length in zip(target, lengths, strict=True):
            row[length:] = padding
        found = net.hypotheses(beam, data=data, classes=(target, lengths))
        for a, b in zip(found, alone, strict=True):
            assert [x for x, _ in a] == [x for x, _ in b]
            numpy.testing.assert_allclose([x for _, x in a], [x for _, x in b], rtol=1e-5)
