"""A search that goes on from the hypotheses of another one, which are not decided: of a loop before, or around it."""

from __future__ import annotations

import numpy
import pytest

from returnn.util.errors import ConfigError
from tests.tf.layers.search.search_net import EOS, NUM_LABELS, SearchNet, decoder, inputs

NUM_FRAMES = 3


def time_step(context, **choice):
    """:return: layers of a frame: labels by a recurrence over them and a context"""
    return {
        "emb": {"class": "linear", "from": "prev:output", "n_out": 3, "activation": None},
        "s": {"class": "linear", "from": ["emb", "prev:s", context], "n_out": 4, "activation": "tanh"},
        "p": {"class": "softmax", "from": "s", "n_out": NUM_LABELS},
        "output": {
            "class": "choice", "from": "p", "target": "classes", "initial_output": 0, "length_normalization": False,
            **choice,
        },
        "end": {"class": "compare", "from": "output", "value": EOS},
    }  # fmt: skip


def two_loops(beam_size, **second):
    net = decoder(choice={"beam_size": 3})
    net["emb1"] = {"class": "linear", "from": "output", "n_out": 3, "activation": None}
    net["ctx1"] = {"class": "reduce", "mode": "mean", "axis": "T", "from": "emb1"}
    unit = time_step("base:ctx1", beam_size=beam_size)
    unit["s"]["initial_output"] = "base:first"
    unit["late"] = {"class": "linear", "from": ["prev:s", "prev:kept"], "n_out": 2, "is_output_layer": True}
    unit["kept"] = {"class": "combine", "kind": "add", "from": ["base:ctx1", "prev:kept"], "n_out": 3}
    net["first"] = {"class": "linear", "from": "ctx1", "n_out": 4, "activation": "tanh"}
    net["second"] = {"class": "rec", "from": [], "max_seq_len": NUM_FRAMES, "unit": unit, **second}
    net["scores2"] = {"class": "choice_get_beam_scores", "from": "second"}
    net["both"] = {"class": "copy", "from": ["first", "scores_as_feature"]}
    net["scores_as_feature"] = {"class": "expand_dims", "from": "scores2", "axis": "F"}
    net["late"] = {"class": "copy", "from": "second/late"}
    for name in ("second", "scores2", "both", "late"):
        net[name]["is_output_layer"] = True
    return net


def linear(params, name, *parts):
    return numpy.concatenate(parts) @ params[f"{name}/W"] + params[f"{name}/b"]


def search(params, prefix, hypotheses, beam_size, num_frames, states, ended=()):
    """
    :param hypotheses: (score, anything) before the first frame
    :param states: state and context of what came with a hypothesis
    :param ended: what came with hypotheses that have ended
    :return: (score, labels, what it came from, state), the best first
    """
    hyps = [(score, (), origin, states[origin][0]) for score, origin in hypotheses]
    hyps = sorted(hyps, key=lambda hyp: -hyp[0])[:beam_size]
    for _ in range(num_frames):
        found = []
        for score, labels, origin, state in hyps:
            if EOS in labels or origin in ended:
                found.append((score, (*labels, 0), origin, state))
                continue
            emb = params[f"{prefix}/emb/W"][labels[-1] if labels else 0] + params[f"{prefix}/emb/b"]
            new_state = numpy.tanh(linear(params, f"{prefix}/s", emb, state, states[origin][1]))
            logits = linear(params, f"{prefix}/p", new_state)
            log_probs = logits - numpy.log(numpy.sum(numpy.exp(logits)))
            found += [(score + log_probs[x], (*labels, x), origin, new_state) for x in range(NUM_LABELS)]
        hyps = sorted(found, key=lambda hyp: -hyp[0])[:beam_size]
    return hyps


def cut(labels):
    return labels[: labels.index(EOS)] if EOS in labels else labels


@pytest.mark.parametrize("beam_size", [2, 5])
def test_a_search_goes_on_from_the_hypotheses_of_the_one_before(beam_size):
    names = ("output", "scores", "ctx1", "second", "scores2", "both", "late")
    net = SearchNet(two_loops(beam_size), fetch=names, scale=1.0)
    params = net.params()
    data = inputs()
    found = {key: values for key, (values, _) in net.run(data=data).items()}
    lengths = net.run(data=data)["second"][1][0]
    for b in range(3):
        rows = range(3 * b, 3 * b + 3)
        first = {i: numpy.tanh(linear(params, "first", found["ctx1"][i])) for i in rows}
        origins = [(found["scores"][i], i) for i in rows]
        expected = search(
            params, "second/rec", origins, beam_size, NUM_FRAMES, {i: (first[i], found["ctx1"][i]) for i in rows}
        )
        for k, (score, labels, origin, _) in enumerate(expected):
            row = b * beam_size + k
            numpy.testing.assert_allclose(found["scores2"][row], score, rtol=1e-5)
            assert tuple(found["second"][row][: lengths[row]]) == cut(labels)
            numpy.testing.assert_allclose(found["both"][row], [*first[origin], score], rtol=1e-5)
            kept = [numpy.zeros(3), found["ctx1"][origin], 2 * found["ctx1"][origin]]
            numpy.testing.assert_allclose(
                found["late"][row][0], linear(params, "second/rec/late", first[origin], kept[0]), rtol=1e-4, atol=1e-6
            )


def loop_in_loop(beam_size, inner_beam_size):
    inner = time_step("base:s", beam_size=inner_beam_size)
    del inner["output"]["target"]
    outer = {
        "inner": {"class": "rec", "from": [], "max_seq_len": 2, "unit": inner},
        "emb_inner": {"class": "linear", "from": "inner", "n_out": 3, "activation": None},
        "ctx_inner": {"class": "reduce", "mode": "sum", "axis": "T", "from": "emb_inner"},
        "p": {"class": "softmax", "from": ["s", "ctx_inner"], "n_out": NUM_LABELS},
    }
    return decoder(choice={"beam_size": beam_size}, unit=outer)


@pytest.mark.parametrize(("beam_size", "inner_beam_size"), [(3, 2), (2, 4)])
def test_a_search_in_each_step_of_another_one(beam_size, inner_beam_size):
    net = SearchNet(loop_in_loop(beam_size, inner_beam_size), fetch=("output", "scores", "ctx"), scale=0.7)
    params, data = net.params(), inputs()
    contexts = net.run(data=data)["ctx"][0]
    hypotheses = net.hypotheses(beam_size, data=data)
    for context, found in zip(contexts, hypotheses, strict=True):
        hyps = [(0.0, (), numpy.zeros(4))]  # score, labels, state
        for _ in range(5):
            hyps = step_of_outer(params, hyps, context, beam_size, inner_beam_size)
        for (labels, score), (expected_score, expected, _) in zip(found, hyps, strict=True):
            if expected_score > -1e20:  # others do not exist
                numpy.testing.assert_allclose(score, expected_score, rtol=1e-4)
                assert labels == cut(expected)


def step_of_outer(params, hyps, context, beam_size, inner_beam_size):
    states = []
    for _, labels, state in hyps:
        emb = params["output/rec/emb/W"][labels[-1] if labels else 0] + params["output/rec/emb/b"]
        states.append(numpy.tanh(linear(params, "output/rec/s", emb, state, context)))
    going_on = [(score, i) for i, (score, labels, _) in enumerate(hyps)]
    ended = {i for i, (_, labels, _) in enumerate(hyps) if EOS in labels}
    inner = search(
        params,
        "output/rec/inner/rec",
        going_on,
        inner_beam_size,
        2,
        {i: (numpy.zeros(4), state) for i, state in enumerate(states)},
        ended,
    )
    found = []
    for score, inner_labels, i, _ in inner:
        labels = hyps[i][1]
        if i in ended:
            found.append((score, (*labels, 0), states[i]))
            continue
        frames = cut(inner_labels)
        embs = [params["output/rec/emb_inner/W"][x] + params["output/rec/emb_inner/b"] for x in frames]
        logits = linear(params, "output/rec/p", states[i], numpy.sum([numpy.zeros(3), *embs], axis=0))
        log_probs = logits - numpy.log(numpy.sum(numpy.exp(logits)))
        found += [(score + log_probs[x], (*labels, x), states[i]) for x in range(NUM_LABELS)]
    return sorted(found, key=lambda hyp: -hyp[0])[:beam_size]


def test_hypotheses_need_scores_to_go_on_from():
    net = two_loops(2)
    net["second"]["unit"]["s"]["from"][-1] = "base:kept"
    net["kept"] = {"class": "decide_keep_beam", "from": "ctx1"}
    with pytest.raises(ConfigError, match="do not continue each other"):
        SearchNet(net)


def test_hypotheses_of_two_searches_that_do_not_depend_on_each_other():
    net = decoder()
    net["other"] = {**net["output"], "max_seq_len": 2}
    for name in ("output", "other"):
        net[f"{name}_emb"] = {"class": "linear", "from": name, "n_out": 3}
        net[f"{name}_sum"] = {"class": "reduce", "mode": "sum", "axis": "T", "from": f"{name}_emb"}
    net["both"] = {"class": "copy", "from": ["output_sum", "other_sum"], "is_output_layer": True}
    with pytest.raises(ConfigError, match=r"'both'.*do not continue each other"):
        SearchNet(net)
    unit = time_step("base:output_sum", beam_size=2)
    unit["s"]["from"].append("base:other_sum")
    net["both"] = {"class": "rec", "from": [], "max_seq_len": 2, "unit": unit, "is_output_layer": True}
    with pytest.raises(ConfigError, match="do not continue each other"):
        SearchNet(net)
