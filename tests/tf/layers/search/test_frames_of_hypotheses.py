"""
A second search over what another one has found: it is that over each hypothesis, as if that were fed.

Beams are so large that nothing is pruned. So the hypotheses of the second search are those of all single ones, with the
scores of both.
"""

from __future__ import annotations

import functools
import operator

import numpy
import pytest

from returnn.config import Config
from returnn.tf.inspection.template_network import TemplateNetwork
from tests.tf.layers.search.search_net import EOS, NUM_LABELS, SearchNet, decoder, inputs

NUM_FIRST = 5
MAX_LEN = 2
EXTERN_DATA = {
    "data": {"dim": 3, "shape": (None, 3)},
    "classes": {"dim": NUM_LABELS, "sparse": True, "shape": (None,), "available_for_inference": True},
    "hyps": {"dim": NUM_LABELS, "sparse": True, "shape": (None,), "available_for_inference": True},
}


def unit(*sources, **choice):
    """:return: layers of a frame: labels by a recurrence over them and the sources"""
    return {
        "emb": {"class": "linear", "from": "prev:output", "n_out": 3, "activation": None},
        "s": {"class": "linear", "from": ["emb", "prev:s", *sources], "n_out": 4, "activation": "tanh"},
        "p": {"class": "softmax", "from": "s", "n_out": NUM_LABELS},
        "output": {
            "class": "choice", "from": "p", "initial_output": 0, "length_normalization": False, **choice,
        },
    }  # fmt: skip


def with_end(layers):
    return {**layers, "end": {"class": "compare", "from": "output", "value": EOS}}


def attention(base, query="prev:s"):
    """:return: layers of a frame: "att", what is attended to of all frames of `base`"""
    return {
        "q": {"class": "linear", "from": query, "n_out": 3, "activation": None},
        "energy": {
            "class": "dot", "from": [base, "q"], "red1": "F", "red2": "F", "var1": "T", "var2": None,
            "add_var2_if_empty": False,
        },
        "w": {"class": "softmax_over_spatial", "from": "energy", "axis": "T"},
        "att": {"class": "generic_attention", "weights": "w", "base": base},
    }  # fmt: skip


def over_frames(beam_size):
    return {"class": "rec", "from": "emb1", "unit": unit("data:source", beam_size=beam_size)}


def over_frames_with_layers_around(beam_size):
    layers = unit("before", "prev:lstm", beam_size=beam_size)
    layers["before"] = {"class": "linear", "from": "data:source", "n_out": 3, "activation": "tanh"}
    layers["lstm"] = {"class": "rec", "unit": "lstm", "from": "data:source", "n_out": 2}
    layers["after"] = {"class": "linear", "from": ["s", "before", "prev:before", "prev:emb"], "n_out": 2}
    layers["after"]["is_output_layer"] = True
    layers["sum"] = {"class": "combine", "kind": "add", "from": ["prev:sum", "after"], "is_output_layer": True}
    return {"class": "rec", "from": "emb1", "unit": layers}


def over_frames_backward(beam_size):
    return {**over_frames(beam_size), "direction": -1}


def over_frames_by_axis(beam_size):
    layers = unit("frame", beam_size=beam_size)
    layers["frame"] = {"class": "rec_unstack", "from": "base:emb1", "axis": "T", "declare_rec_time": True}
    return {"class": "rec", "from": [], "unit": layers}


def over_frames_of_target(beam_size):
    return {"class": "rec", "from": [], "target": "layer:first", "unit": unit("base:ctx", beam_size=beam_size)}


def over_frames_and_attention(beam_size):
    layers = {**unit("data:source", "att", beam_size=beam_size), **attention("base:emb1")}
    return {"class": "rec", "from": "emb1", "unit": layers}


def attending(beam_size):
    layers = {**with_end(unit("att", beam_size=beam_size)), **attention("base:emb1")}
    return {"class": "rec", "from": [], "max_seq_len": MAX_LEN, "unit": layers}


def attending_with_feedback(beam_size):
    layers = {**with_end(unit("att", beam_size=beam_size)), **attention("base:emb1")}
    layers["energy0"] = layers.pop("energy")
    layers["positions"] = {"class": "range_in_axis", "from": "base:emb1", "axis": "T", "dtype": "float32"}
    layers["energy"] = {"class": "combine", "kind": "add", "from": ["energy0", "prev:sum", "positions"]}
    layers["sum"] = {"class": "combine", "kind": "add", "from": ["prev:sum", "w"], "is_output_layer": True}
    return {"class": "rec", "from": [], "max_seq_len": MAX_LEN, "unit": layers}


def attending_to_some_frames(beam_size):
    """Their dim is computed from that of the hypotheses, outside and inside of the loop."""
    layers = {**with_end(unit("att", "others", beam_size=beam_size)), **attention("base:behind")}
    layers["energy0"] = layers.pop("energy")
    layers["energy"] = {"class": "combine", "kind": "add", "from": ["energy0", "prev:sum"]}
    layers["sum"] = {"class": "combine", "kind": "add", "from": ["prev:sum", "w"]}
    layers["w2"] = {"class": "slice", "from": "w", "axis": "T", "slice_start": 1}
    layers["mass"] = {"class": "reduce", "mode": "sum", "axis": "T", "from": "w2"}
    layers["others"] = {"class": "expand_dims", "axis": "F", "from": "prev:mass"}
    return {"class": "rec", "from": [], "max_seq_len": MAX_LEN, "unit": layers}


def as_long_as_the_first(beam_size):
    layers = with_end(unit("base:ctx1", beam_size=beam_size))
    return {"class": "rec", "from": [], "max_seq_len": "max_len_from('base:first')", "unit": layers}


def shorter_than_both(beam_size):
    layers = with_end(unit("base:ctx1", beam_size=beam_size))
    limit = "tf.minimum(max_len_from('base:first'), max_len_from('base:data') - 1)"
    return {"class": "rec", "from": [], "max_seq_len": limit, "unit": layers}


def as_long_as_a_layer_says(beam_size):
    layers = with_end(unit("base:ctx1", beam_size=beam_size))
    return {"class": "rec", "from": [], "max_seq_len_via": "len1", "unit": layers}


def scored_again(beam_size):
    """The hypotheses stay as they are: there is one for each."""
    layers = unit("base:ctx", beam_size=NUM_FIRST if beam_size > 16 else 1, search=False, target="layer:base:first")
    return {"class": "rec", "from": [], "target": "layer:first", "unit": layers}


SECOND = [
    over_frames,
    over_frames_with_layers_around,
    over_frames_backward,
    over_frames_by_axis,
    over_frames_of_target,
    over_frames_and_attention,
    attending,
    attending_with_feedback,
    attending_to_some_frames,
    as_long_as_the_first,
    shorter_than_both,
    as_long_as_a_layer_says,
    scored_again,
]


def around(first, second):
    net = {
        "ctx": {"class": "reduce", "mode": "mean", "axis": "T", "from": "data"},
        "first": first,
        "emb1": {"class": "linear", "from": "first", "n_out": 3, "activation": None},
        "behind": {"class": "slice", "axis": "T", "slice_start": 1, "from": "emb1"},
        "ctx1": {"class": "reduce", "mode": "sum", "axis": "T", "from": "emb1"},
        "len1": {"class": "length", "from": "first"},
        "second": second,
        "scores2": {"class": "choice_get_beam_scores", "from": "second"},
        "origin": {"class": "copy", "from": ["ctx1", "score_as_feature"]},
        "score_as_feature": {"class": "expand_dims", "from": "scores2", "axis": "F"},
        "output": {"class": "copy", "from": "second"},
    }
    for name in list(net):
        if name not in ("first", "score_as_feature"):
            net[name]["is_output_layer"] = True
    for name in ("after", "sum"):
        if second["unit"].get(name, {}).get("is_output_layer") and "after" in second["unit"]:
            net[f"get_{name}"] = {"class": "copy", "from": f"second/{name}", "is_output_layer": True}
    return net


def first_search():
    loop = decoder(choice={"beam_size": NUM_FIRST})["output"]
    return {**loop, "max_seq_len": MAX_LEN}


def joint(make_second):
    """:return: network with both searches"""
    net = around(first_search(), make_second(16 * NUM_FIRST))
    net["scores1"] = {"class": "choice_get_beam_scores", "from": "first", "is_output_layer": True}
    return make(net)


def single(make_second):
    """:return: network with the second search alone, over "hyps" """
    return make(around({"class": "copy", "from": "data:hyps"}, make_second(16)))


def make(net):
    names = [name for name in net if name.startswith("get_")]
    fetch = ["second", "scores2", "origin", *names, *(["first", "scores1"] if "scores1" in net else [])]
    return SearchNet(net, fetch=fetch, scale=1.0, extern_data=EXTERN_DATA, search_depends_on_batch=False)


NO_HYPS = (numpy.zeros((3, 2), "int32"), numpy.array([2, 2, 2], "int32"))


def hypotheses_of(found, first_row, num):
    """:return: of one sequence (score, labels, others), the best first, those that there are"""
    result = []
    (labels, lengths), (scores, _) = found["second"], found["scores2"]
    for row in range(first_row, first_row + num):
        if not numpy.isfinite(scores[row]):
            continue
        others = [found["origin"][0][row][:3]]
        for name in found:
            if name.startswith("get_"):
                others.append(found[name][0][row][: lengths[0][row]])
        result.append((float(scores[row]), tuple(labels[row][: lengths[0][row]].tolist()), others))
    return sorted(result, key=operator.itemgetter(0), reverse=True)


@functools.cache
def nets(make_second):
    return joint(make_second), single(make_second)


def alone(net, data, b, hyps, lengths):
    """:return: what a network finds for one sequence, without padding, and labels to begin with"""
    data, data_lengths = data
    given = (hyps[None, :lengths], numpy.array([lengths], "int32"))
    return net.run(data=(data[b : b + 1, : data_lengths[b]], data_lengths[b : b + 1]), hyps=given, classes=given)


def assert_same(found, expected):
    assert len(found) == len(expected) > 1
    for (score, labels, others), (expected_score, expected_labels, expected_others) in zip(
        found, expected, strict=True
    ):
        numpy.testing.assert_allclose(score, expected_score, rtol=1e-5)
        assert labels == expected_labels
        for x, y in zip(others, expected_others, strict=True):
            numpy.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make_second", SECOND, ids=lambda f: f.__name__)
def test_the_second_search_is_that_over_each_hypothesis(make_second):
    both, one = nets(make_second)
    data = inputs()
    found = both.run(data=data, hyps=NO_HYPS)
    num = len(found["second"][0]) // 3
    (first, (lengths,)), (scores, _) = found["first"], found["scores1"]
    assert {0, 1, 2} == set(lengths.tolist())
    for b in range(3):
        expected = []
        for row in range(b * NUM_FIRST, (b + 1) * NUM_FIRST):
            fed = alone(one, data, b, first[row], lengths[row])
            hypotheses = hypotheses_of(fed, 0, len(fed["second"][0]))
            expected += [(score + scores[row], *rest) for score, *rest in hypotheses]
        expected.sort(key=operator.itemgetter(0), reverse=True)
        assert_same(hypotheses_of(found, b * num, num), expected)


@pytest.mark.parametrize("make_second", SECOND, ids=lambda f: f.__name__)
def test_what_is_found_depends_on_no_other_sequence(make_second):
    both, _ = nets(make_second)
    data, lengths = inputs()
    for b, length in enumerate(lengths):
        data[b, length:] = 1e6
    found = both.run(data=(data, lengths), hyps=NO_HYPS)
    num = len(found["second"][0]) // 3
    for b in range(3):
        single_found = alone(both, (data, lengths), b, NO_HYPS[0][b], 2)
        assert_same(hypotheses_of(found, b * num, num), hypotheses_of(single_found, 0, num))


@pytest.mark.parametrize("make_second", [attending, as_long_as_the_first])
def test_sequences_that_have_ended_leave_a_second_search(make_second, capsys):
    joint(make_second)
    assert "stay in the batch" not in capsys.readouterr().out


@pytest.mark.parametrize("make_second", [over_frames_with_layers_around, attending_with_feedback, scored_again])
def test_two_searches_in_each_frame_of_a_loop(make_second):
    loop = first_search()
    del loop["unit"]["output"]["target"]
    unit = around(loop, make_second(16 * NUM_FIRST))
    for desc in unit.values():
        desc.pop("is_output_layer", None)
    unit["ctx"] = {"class": "linear", "from": "data:source", "n_out": 3}
    unit["output"] = {"class": "decide", "from": "origin"}
    net = {"output": {"class": "rec", "from": "data", "unit": unit}}
    both = SearchNet(net, scale=1.0, extern_data=EXTERN_DATA, search_depends_on_batch=False)
    data, lengths = inputs()
    found = both.run(data=(data, lengths))["output"][0]
    frames = data.reshape(-1, 1, 3)
    nothing = (numpy.zeros((len(frames), 1), "int32"), numpy.ones(len(frames), "int32"))
    of_frames = both.run(data=(frames, nothing[1]), classes=nothing)["output"][0].reshape(found.shape)
    for b, length in enumerate(lengths):
        numpy.testing.assert_allclose(found[b, :length], of_frames[b, :length], rtol=1e-5)


def test_a_search_in_a_search_may_depend_on_it_through_the_past():
    """It is seen in the third round of the inference alone that the inner one continues the outer one."""
    inner = with_end(unit("base:ctx2", beam_size=4))
    layers = {
        "s": {"class": "linear", "from": ["prev:s", "data:source", "prev:emb"], "n_out": 3, "activation": "tanh"},
        "ctx2": {"class": "linear", "from": "prev:s", "n_out": 3},
        "inner": {"class": "rec", "from": [], "max_seq_len": 2, "unit": inner},
        "inner_emb": {"class": "linear", "from": "inner", "n_out": 3},
        "sum": {"class": "reduce", "mode": "sum", "axis": "T", "from": "inner_emb"},
        "p": {"class": "softmax", "from": ["sum", "s"], "n_out": NUM_LABELS},
        "output": {"class": "choice", "from": "p", "beam_size": 3, "length_normalization": False, "initial_output": 0},
        "emb": {"class": "linear", "from": "output", "n_out": 3},
    }  # fmt: skip
    net = {
        "output": {"class": "rec", "from": "data", "unit": layers},
        "scores": {"class": "choice_get_beam_scores", "from": "output", "is_output_layer": True},
    }
    search = SearchNet(net, fetch=["output", "scores"], scale=1.0, search_depends_on_batch=False)
    scores = search.run(data=inputs())["scores"][0].reshape(3, 3)
    assert (numpy.diff(scores, axis=1) < 0).all()


def test_normalized_scores_of_hypotheses_that_are_scored_again():
    """Those that have ended grow with the others; at the end, all are divided by the number of labels."""
    plain, normalized = (joint(functools.partial(_scored_again, length_normalization=x)) for x in (False, True))
    data = inputs()
    found, expected = (net.run(data=data, hyps=NO_HYPS) for net in (normalized, plain))
    rows = zip(found["scores2"][0], expected["scores2"][0], expected["second"][1][0], strict=True)
    for i, (score, sum_of_both, length) in enumerate(rows):
        longest = expected["second"][1][0][i // NUM_FIRST * NUM_FIRST :][:NUM_FIRST].max()
        grown = sum_of_both * numpy.prod([(t + 1) / max(t, 1) for t in range(length, longest)])
        numpy.testing.assert_allclose(score, grown / (longest + 1), rtol=1e-5)


def _scored_again(num, **choice):
    net = scored_again(num)
    net["unit"]["output"].update(choice)
    return net


def test_all_hypotheses_are_scored_again_whatever_the_beam_size():
    """It is about what a search chooses."""
    found, expected = (
        joint(functools.partial(_scored_again, beam_size=size)).run(data=inputs(), hyps=NO_HYPS) for size in (2, 7)
    )
    numpy.testing.assert_array_equal(found["scores2"][0], expected["scores2"][0])
    assert len(found["scores2"][0]) == 3 * NUM_FIRST


@pytest.mark.parametrize("make_second", SECOND, ids=lambda f: f.__name__)
def test_templates_have_the_dims_of_the_outputs(make_second):
    both, _ = nets(make_second)
    net_dict = both.net.layers_desc
    config = Config({"extern_data": EXTERN_DATA, "network": net_dict, "behavior_version": 21})
    template = TemplateNetwork.of_net_dict(net_dict, config, train_flag=False, search_flag=True)
    assert not template.notes.errors
    for name in both.fetches:
        dims = [dim.name for dim in template.layers[name].output.dims if not (dim.is_batch_dim() or dim.is_beam_dim())]
        with both.graph.as_default():
            found = both.net.layers[name].output.dims
        names = [dim.name for dim in found if not dim.is_batch_dim()]
        assert sorted(names) == sorted(dims)


@pytest.mark.parametrize("cheating", [True, "exclusive"])
def test_the_target_can_be_the_best_of_another_search(cheating):
    def make_second(_):
        net = over_frames_of_target(4)
        net["unit"]["output"].update(cheating=cheating, target="layer:base:first")
        return net

    found = joint(make_second).run(data=inputs(), hyps=NO_HYPS)
    (first, (first_lengths,)), (second, (lengths,)) = found["first"], found["second"]
    for b in range(3):
        best = b * NUM_FIRST + numpy.argmax(found["scores1"][0][b * NUM_FIRST :][:NUM_FIRST])
        last = 4 * b + 3
        assert second[last][: lengths[last]].tolist() == first[best][: first_lengths[best]].tolist()
        assert numpy.isfinite(found["scores2"][0][4 * b :][:4]).all()
