"""Properties of the search: it finds what a model in numpy finds that tries all, whatever else is in the batch."""

from __future__ import annotations

import itertools

import numpy
import pytest
import tensorflow as tf

from tests.tf.layers.search.search_net import EOS, NUM_LABELS, SearchNet, construct, decoder, inputs, labels

BEAM = 3
FETCH = ("output", "scores", "best")


class Model:
    """The decoder of `search_net.decoder`, for one sequence."""

    def __init__(self, params: dict[str, numpy.ndarray], data: numpy.ndarray) -> None:
        self.params = {name.removeprefix("output/rec/"): value for name, value in params.items()}
        self.context = data.mean(axis=0)
        self.start = (numpy.zeros(4), 0)

    def step(self, state):
        """:return: log probabilities of the labels, and function from the label to the next state"""
        s, label = state
        p = self.params
        emb = p["emb/W"][label] + p["emb/b"]
        s = numpy.tanh(numpy.concatenate([emb, s, self.context]) @ p["s/W"] + p["s/b"])
        logits = s @ p["p/W"] + p["p/b"]
        return logits - numpy.log(numpy.exp(logits).sum()), lambda label: (s, label)

    def score(self, sequence):
        """:return: log probability"""
        state, total = self.start, 0.0
        for label in sequence:
            log_probs, follow = self.step(state)
            total, state = total + log_probs[label], follow(label)
        return total

    def greedy(self, max_len):
        """:return: the best label at each step, until EOS"""
        state, found = self.start, []
        for _ in range(max_len):
            log_probs, follow = self.step(state)
            found.append(int(log_probs.argmax()))
            state = follow(found[-1])
            if found[-1] == EOS:
                break
        return found

    def all(self, max_len):
        """:return: all sequences with their scores, the best first"""
        rest = [label for label in range(NUM_LABELS) if label != EOS]
        ended = [(*x, EOS) for n in range(max_len) for x in itertools.product(rest, repeat=n)]
        everything = [*ended, *itertools.product(rest, repeat=max_len)]
        return sorted(((x, self.score(x)) for x in everything), key=lambda entry: -entry[1])


def without_eos(sequence):
    return tuple(sequence[:-1] if sequence and sequence[-1] == EOS else sequence)


def models(net, data, lengths):
    params = net.params()
    return [Model(params, data[b, :n]) for b, n in enumerate(lengths)]


def assert_same(found, wanted):
    assert [x for x, _ in found] == [x for x, _ in wanted]
    numpy.testing.assert_allclose([s for _, s in found], [s for _, s in wanted], atol=2e-5)


@pytest.mark.parametrize("length_normalization", [False, True])
def test_other_sequences_in_the_batch_do_not_matter(length_normalization):
    choice = {"length_normalization": length_normalization}
    net = SearchNet(decoder(choice=choice), fetch=FETCH)
    data, lengths = inputs(n_batch=5, max_len=6)
    wanted = [net.hypotheses(BEAM, data=(data[b : b + 1, :n], [n]))[0] for b, n in enumerate(lengths)]
    for order in ([0, 1, 2, 3, 4], [4, 2, 0], [3, 3, 1]):
        longest = max(lengths[order])
        found = net.hypotheses(BEAM, data=(data[order, :longest], lengths[order]))
        for entry, b in zip(found, order, strict=True):
            if length_normalization:  # the scores are divided by the length of the longest one
                assert [x for x, _ in entry] == [x for x, _ in wanted[b]]
            else:
                assert_same(entry, wanted[b])


def test_beam_of_one_is_greedy():
    net = SearchNet(decoder(choice={"beam_size": 1}), fetch=FETCH)
    data, lengths = inputs(n_batch=4)
    found = net.hypotheses(1, data=(data, lengths))
    for ((labels_found, score),), model in zip(found, models(net, data, lengths), strict=True):
        wanted = model.greedy(5)
        assert labels_found == without_eos(wanted)
        assert score == pytest.approx(model.score(wanted), abs=1e-5)


@pytest.mark.parametrize("include_eos", [False, True])
def test_beam_of_all_sequences_is_exhaustive_search(include_eos):
    beam = 3 * 3 * 4 + 3 * 1 + 1  # no sequence of 3 labels is ever left out
    net = SearchNet(decoder(choice={"beam_size": beam}, max_seq_len=3, include_eos=include_eos), fetch=FETCH, scale=1.5)
    data, lengths = inputs()
    found = net.hypotheses(beam, data=(data, lengths))
    for entry, model in zip(found, models(net, data, lengths), strict=True):
        wanted = model.all(3)
        assert len(wanted) == beam
        assert_same(entry, [(x if include_eos else without_eos(x), score) for x, score in wanted])


def test_length_normalization_compares_means():
    beam = 40
    options = {"beam_size": beam, "length_normalization": True}
    net = SearchNet(decoder(choice=options, max_seq_len=3), fetch=FETCH, scale=1.5)
    data, lengths = inputs()
    found = net.hypotheses(beam, data=(data, lengths))
    for entry, model in zip(found, models(net, data, lengths), strict=True):
        wanted = sorted(((x, score / len(x)) for x, score in model.all(3)), key=lambda entry: -entry[1])
        assert_same(entry, [(without_eos(x), score * 3 / 4) for x, score in wanted])


def test_scores_are_those_of_forced_decoding():
    data, lengths = inputs()
    search = SearchNet(decoder(include_eos=True, choice={"beam_size": 4}), fetch=FETCH)
    found = search.hypotheses(4, data=(data, lengths))
    net_dict = decoder(choice={"search": False})
    forced = SearchNet(net_dict, fetch=("scores",))
    for b, n in enumerate(lengths):
        for sequence, score in found[b]:
            values = {"data": (data[b : b + 1, :n], [n]), "classes": labels([sequence])}
            scores = forced.run(**values)["scores"][0]
            assert scores[0] == pytest.approx(score, abs=1e-5)


def test_decide_takes_the_first():
    net = SearchNet(decoder(), fetch=FETCH)
    data, lengths = inputs()
    found = net.run(data=(data, lengths))
    (output, (out_lens,)), (best, (best_lens,)) = found["output"], found["best"]
    numpy.testing.assert_array_equal(best_lens, out_lens[::BEAM])
    for b, n in enumerate(best_lens):
        numpy.testing.assert_array_equal(best[b, :n], output[b * BEAM, :n])


def test_moving_layers_out_of_the_loop_changes_nothing():
    data, lengths = inputs()
    unit = {"after": {"class": "linear", "from": "s", "n_out": 2, "is_output_layer": True}}
    results = []
    for move in (True, False):
        net_dict = decoder(unit=unit, optimize_move_layers_out=move)
        net = SearchNet(net_dict, fetch=(*FETCH, "output/after"))
        results.append((net.hypotheses(BEAM, data=(data, lengths)), net.run(data=(data, lengths))["output/after"][0]))
    for found, wanted in zip(results[0][0], results[1][0], strict=True):
        assert_same(found, wanted)
    numpy.testing.assert_allclose(results[0][1], results[1][1], atol=1e-5)


def attention_decoder() -> dict:
    unit = {
        "emb": {"class": "linear", "from": "prev:output", "n_out": 3, "activation": None},
        "s": {"class": "rnn_cell", "unit": "BasicLSTM", "from": ["emb", "prev:att"], "n_out": 7},
        "energy": {"class": "dot", "from": ["base:encoder", "s"], "red1": "F", "red2": "F", "var1": "T", "var2": None},
        "weights": {"class": "softmax_over_spatial", "from": "energy"},
        "att": {"class": "generic_attention", "weights": "weights", "base": "base:encoder"},
        "p": {"class": "softmax", "from": ["s", "att"], "n_out": NUM_LABELS},
    }
    encoder = {"class": "linear", "from": "data", "n_out": 7, "activation": "tanh"}
    return {**decoder(unit=unit, choice={"beam_size": 5}), "encoder": encoder}


def all_operations(graph):
    """:return: operations of the graph, and of the bodies of its loops"""
    todo = [graph]
    for current in todo:
        for op in current.get_operations():
            yield op
            if op.type in ("While", "StatelessWhile"):
                todo += [graph._get_function(op.get_attr(kind).name).graph for kind in ("cond", "body")]


def test_the_encoder_is_not_repeated_for_each_hypothesis():
    with tf.Graph().as_default() as graph:
        construct(attention_decoder())
    operations = list(all_operations(graph))
    shapes = {op.name: x.shape.as_list() for op in operations for x in op.outputs if x.shape.ndims is not None}
    assert any(5 in shape for shape in shapes.values())  # the hypotheses are seen
    repeated = [name for name, shape in shapes.items() if len(shape) > 3 and 5 in shape and 7 in shape]
    assert not repeated


def test_attention_of_a_batch_is_that_of_each_sequence():
    net = SearchNet(attention_decoder(), fetch=FETCH)
    data, lengths = inputs(n_batch=4, max_len=6)
    found = net.hypotheses(5, data=(data, lengths))
    for b, n in enumerate(lengths):
        assert_same(found[b], net.hypotheses(5, data=(data[b : b + 1, :n], [n]))[0])


def test_an_unrolled_search_is_the_looped_one():
    looped = SearchNet(decoder(), fetch=("output", "scores")).hypotheses(3, data=inputs())
    net = SearchNet(decoder(unroll=True), fetch=("output", "scores"))
    names = [op.name for op in net.graph.get_operations() if "While" in op.type]
    assert len(names) == 1, names  # back through the choices
    unrolled = net.hypotheses(3, data=inputs())
    for a, b in zip(looped, unrolled, strict=True):
        assert [labels for labels, _ in a] == [labels for labels, _ in b]
        numpy.testing.assert_allclose([score for _, score in a], [score for _, score in b], rtol=1e-5)


def test_a_choice_that_only_the_next_step_sees():
    unit = {
        "emb_now": {"class": "linear", "from": "output", "n_out": 3, "activation": None},
        "p2": {"class": "softmax", "from": ["s", "emb_now"], "n_out": NUM_LABELS},
        "second": {"class": "choice", "from": "p2", "target": "classes", "beam_size": 4},
        "emb_second": {"class": "linear", "from": "prev:second", "n_out": 3, "activation": None},
        "s": {"class": "linear", "from": ["emb", "emb_second", "prev:s", "base:ctx"], "n_out": 4, "activation": "tanh"},
    }
    found = []
    for is_output_layer in (False, True):
        unit["second"]["is_output_layer"] = is_output_layer
        found.append(SearchNet(decoder(unit=unit), fetch=FETCH).hypotheses(4, data=inputs()))
    for a, b in zip(*found, strict=True):
        assert_same(a, b)
