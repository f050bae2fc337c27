"""Searches of other kinds of nets: with losses, in subnetworks, over other loops."""

from __future__ import annotations

import numpy
import pytest

from returnn.tf.util.data import FeatureDim, SpatialDim, batch_dim
from tests.tf.layers.search.search_net import NUM_LABELS, SearchNet, decoder, inputs, labels
from tests.tf.layers.search.test_choice import OTHERS, two_sources
from tests.tf.layers.search.test_search import FETCH, assert_same

CE = {"class": "softmax", "from": "s", "n_out": NUM_LABELS, "loss": "ce", "target": "classes"}


def losses(net_dict, **options):
    net = SearchNet(net_dict, **options)
    return net.run({name: loss for name, loss in net.losses.items() if loss is not None}, data=inputs())


def test_losses_of_forced_hypotheses_are_those_of_training():
    net_dict = decoder(choice={"search": False}, unit={"p": CE})
    searched, trained = (losses(net_dict, search=search)["output/p"] for search in (True, False))
    assert searched == pytest.approx(3 * trained, rel=1e-5)  # for each of 3 hypotheses


def test_frames_of_free_hypotheses_are_not_compared_with_the_target():
    unit = {"p": CE, "norm": {"class": "eval", "from": "s", "eval": "source(0) ** 2", "loss": "as_is"}}
    assert set(losses(decoder(unit=unit))) == {"output/norm"}
    assert set(losses(decoder(unit=unit), search=False)) == {"output/norm", "output/p"}


def test_loss_of_each_hypothesis_over_known_frames():
    time = SpatialDim("time")
    extern_data = {
        "data": {"dim_tags": (batch_dim, time, FeatureDim("in", 3))},
        "classes": {"dim_tags": (batch_dim, time), "sparse_dim": FeatureDim("labels", NUM_LABELS)},
    }
    unit = {
        "emb": {"class": "linear", "from": "prev:output", "n_out": 3, "activation": None},
        "p": {**CE, "from": ["data:source", "emb"], "is_output_layer": True},
        "output": {"class": "choice", "from": "p", "target": "classes", "beam_size": 2, "initial_output": 0},
    }
    net = SearchNet(
        {"output": {"class": "rec", "from": "data", "unit": unit}}, extern_data=extern_data, fetch=["output/p"]
    )
    data, lengths = inputs(n_batch=2, max_len=4)
    target = numpy.array([[0, 1, 2, 3], [3, 1, 0, 0]], "int32")
    fetches = (net.fetches["output/p"][0], net.losses["output/p"])
    found, loss = net.run(fetches, data=(data, lengths), classes=(target, lengths))
    picked = [
        numpy.log(found[2 * b + k, t, target[b, t]]) for b in range(2) for k in range(2) for t in range(lengths[b])
    ]
    assert loss == pytest.approx(-sum(picked), rel=1e-4)


def test_expected_errors_are_trained():
    net_dict = decoder(choice={"search": True, "beam_size": 4})
    options = {"loss": {"class": "edit_distance"}, "loss_kind": "error"}
    net_dict["loss"] = {
        "class": "copy", "from": "output", "loss": "expected_loss", "target": "classes", "loss_opts": options,
        "is_output_layer": True,
    }  # fmt: skip
    net = SearchNet(net_dict, search=False, train=True, with_grads=True, scale=1.0)
    grads = net.run(net.grads, data=inputs())
    assert "output/rec/p/W" in grads
    assert all(numpy.isfinite(grad).all() for grad in grads.values())


@pytest.mark.parametrize("search", [True, False])
def test_choice_in_a_subnetwork_of_the_step(search):
    choice = decoder()["output"]["unit"]["output"]
    inner = {"choice": {**choice, "from": "data"}, "output": {"class": "copy", "from": "choice"}}
    unit = {
        "sub": {"class": "subnetwork", "from": "p", "subnetwork": inner},
        "output": {"class": "copy", "from": "sub", "initial_output": 0},
    }
    wanted, found = (
        SearchNet(d, search=search, fetch=FETCH if search else ["output"]) for d in (decoder(), decoder(unit=unit))
    )
    data = inputs()
    if search:
        for entry, want in zip(found.hypotheses(3, data=data), wanted.hypotheses(3, data=data), strict=True):
            assert_same(entry, want)
    else:
        numpy.testing.assert_array_equal(found.run(data=data)["output"][0], labels()[0])


@pytest.mark.parametrize("search", [True, False])
def test_target_of_a_layer_outside(search):
    net_dict = decoder(choice={"target": "layer:base:reference"})
    net_dict["reference"] = {"class": "copy", "from": "data:classes"}
    wanted, found = (SearchNet(d, search=search, fetch=["output"]) for d in (decoder(), net_dict))
    numpy.testing.assert_array_equal(found.run(data=inputs())["output"][0], wanted.run(data=inputs())["output"][0])


@pytest.mark.parametrize("target", ["layer:base:output", "layer:data:source", "layer:labels"])
def test_hypotheses_are_labels_of_a_second_pass(target):
    choice = {"class": "choice", "beam_size": 3, "target": target, "search": False, "from": "p", "initial_output": 0}
    unit = {
        "labels": {"class": "copy", "from": "data:source"},
        "emb": {"class": "linear", "n_out": 6, "activation": None, "from": "prev:output", "initial_output": 0},
        "p": {"class": "softmax", "from": "emb", "target": "classes", "loss": "ce"},
        "output": choice,
    }
    net_dict = decoder()
    net_dict["again"] = {"class": "rec", "from": "output", "unit": unit, "is_output_layer": True}
    found = SearchNet(net_dict, fetch=["output", "again"]).run(data=inputs())
    numpy.testing.assert_array_equal(found["again"][0], found["output"][0])


def test_labels_of_the_step_before_of_each_source():
    net_dict, via_copies = two_sources(beam_size=3), two_sources(beam_size=3)
    for d, first, second in (
        (net_dict, "prev:both/out_0", "prev:both/out_1"),
        (via_copies, "prev:output", "prev:other"),
    ):
        emb = {"class": "linear", "n_out": 3, "activation": None}
        d["output"]["unit"].update(emb={**emb, "from": first}, emb2={**emb, "from": second})
        d["output"]["unit"]["s"]["from"] = ["emb", "emb2", "prev:s", "base:ctx"]
        d["output"]["unit"]["other"]["initial_output"] = 0
    found, wanted = (SearchNet(d, fetch=("output", "scores"), extern_data=OTHERS) for d in (net_dict, via_copies))
    for entry, want in zip(found.hypotheses(3, data=inputs()), wanted.hypotheses(3, data=inputs()), strict=True):
        assert_same(entry, want)


def test_scores_of_the_step_before():
    unit = {"before": {"class": "choice_get_beam_scores", "from": "prev:output", "is_output_layer": True}}
    unit["now"] = {"class": "choice_get_beam_scores", "from": "output", "is_output_layer": True}
    choice = {"beam_size": 1}
    net = SearchNet(decoder(unit=unit, choice=choice), fetch=("output/before", "output/now"))
    found = net.run(data=inputs())
    (before, _), (now, _) = found["output/before"], found["output/now"]
    numpy.testing.assert_allclose(before[:, 0], 0)
    numpy.testing.assert_allclose(before[:, 1:], now[:, :-1])


def test_a_loop_inside_of_the_search():
    unit = {
        "inner": {"class": "rec", "from": "base:encoder", "unit": {
            "output": {"class": "linear", "from": ["data:source", "base:s", "prev:output"], "n_out": 3}}},
        "inner_mean": {"class": "reduce", "mode": "mean", "axis": "T", "from": "inner"},
        "p": {"class": "softmax", "from": ["s", "inner_mean"], "n_out": NUM_LABELS},
    }  # fmt: skip
    net_dict = {**decoder(unit=unit), "encoder": {"class": "linear", "from": "data", "n_out": 3}}
    net = SearchNet(net_dict, fetch=FETCH)
    data, lengths = inputs(n_batch=4)
    found = net.hypotheses(3, data=(data, lengths))
    for b, n in enumerate(lengths):
        assert_same(found[b], net.hypotheses(3, data=(data[b : b + 1, :n], [n]))[0])


# Layers that do not depend on the hypothesis, next to others which do.

LSTM = {"class": "rec", "unit": "nativelstm2", "n_out": 3}
LINEAR = {"class": "linear", "activation": "tanh", "n_out": 3}
SEES_NO_LABEL = {
    "state": {"more": {**LSTM, "from": "base:ctx"}},
    "past": {"same": {**LINEAR, "from": "base:ctx"}, "more": {**LINEAR, "from": ["prev:same", "same"]}},
    "sum": {"same": {**LINEAR, "from": "base:ctx"}, "more": {"class": "cumsum", "from": "same", "initial_output": 1}},
}


@pytest.mark.parametrize("kind", SEES_NO_LABEL)
def test_what_changes_from_step_to_step_although_it_sees_no_label(kind):
    unit = {**SEES_NO_LABEL[kind], "p": {"class": "softmax", "from": ["s", "more"], "n_out": NUM_LABELS}}
    sees_label = {**unit, "zero": {"class": "eval", "from": "emb", "eval": "source(0) * 0"}}
    for name in {"same", "more"} & set(unit):
        if unit[name].get("from") == "base:ctx":
            sees_label[name] = {**unit[name], "from": "ctx_here"}
    sees_label["ctx_here"] = {"class": "combine", "kind": "add", "from": ["base:ctx", "zero"]}
    found, wanted = (SearchNet(decoder(unit=u), fetch=FETCH) for u in (unit, sees_label))
    for entry, want in zip(found.hypotheses(3, data=inputs()), wanted.hypotheses(3, data=inputs()), strict=True):
        assert_same(entry, want)


@pytest.mark.parametrize("inner", [LSTM, LINEAR], ids=["state", "output"])
def test_masks_differ_between_hypotheses_but_the_source_does_not(inner):
    unit = {
        "mask": {"class": "compare", "kind": "not_equal", "value": 0, "from": "prev:output"},
        "more": {"class": "masked_computation", "mask": "mask", "from": "base:ctx", "unit": {**inner, "from": "data"}},
        "all": {"class": "unmask", "from": "more", "mask": "mask"},
        "p": {"class": "softmax", "from": ["s", "all"], "n_out": NUM_LABELS},
    }
    zero = {"class": "eval", "from": "emb", "eval": "source(0) * 0"}
    here = {"class": "combine", "kind": "add", "from": ["base:ctx", "zero"]}
    sees_label = {**unit, "zero": zero, "here": here, "more": {**unit["more"], "from": "here"}}
    found, wanted = (SearchNet(decoder(unit=u), fetch=FETCH) for u in (unit, sees_label))
    for entry, want in zip(found.hypotheses(3, data=inputs()), wanted.hypotheses(3, data=inputs()), strict=True):
        assert_same(entry, want)


def test_masked_frames_of_hypotheses_after_the_search():
    unit = {
        "mask": {"class": "compare", "kind": "not_equal", "value": 0, "from": "output"},
        "more": {"class": "masked_computation", "mask": "mask", "from": "base:ctx", "unit": {**LSTM, "from": "data"}},
        "all": {"class": "unmask", "from": "more", "mask": "mask", "is_output_layer": True},
    }
    data = inputs()
    moved, inside = (
        SearchNet(decoder(unit=unit, optimize_move_layers_out=move), fetch=("output/all",)).run(data=data)["output/all"]
        for move in (True, False)
    )
    assert moved[0].shape == inside[0].shape
    for one, other, length in zip(moved[0], inside[0], inside[1][0], strict=True):
        numpy.testing.assert_allclose(one[:length], other[:length], atol=1e-6)


def test_subnetwork_joins_sources_of_two_choices():
    choice = {"class": "choice", "from": "q", "target": "others", "beam_size": 2, "initial_output": 0}
    block = {"class": "linear", "activation": "tanh", "n_out": 3, "name_scope": "/block"}
    unit = {
        "q": {"class": "softmax", "from": "s", "n_out": 3},
        "tag": {**choice, "length_normalization": False},
        "tag_emb": {**LINEAR, "from": "tag"},
        "block": {
            "class": "subnetwork", "from": ["emb", "tag_emb"], "subnetwork": {"output": {**block, "from": "data"}},
        },
        "p": {"class": "softmax", "from": ["s", "block"], "n_out": NUM_LABELS},
    }  # fmt: skip
    flat = {**unit, "block": {**block, "from": ["emb", "tag_emb"]}}
    found, wanted = (SearchNet(decoder(unit=u), fetch=FETCH, extern_data=OTHERS) for u in (unit, flat))
    for entry, want in zip(found.hypotheses(3, data=inputs()), wanted.hypotheses(3, data=inputs()), strict=True):
        assert_same(entry, want)


def test_unit_over_the_frames_of_hypotheses_that_sees_no_label():
    unit = {"more": {**LSTM, "from": "base:ctx", "is_output_layer": True}}
    net = SearchNet(decoder(unit=unit), fetch=("output/more",))
    found, (lengths,) = net.run(data=inputs())["output/more"]
    for b in range(3):
        frames = [x[:n] for x, n in zip(found[3 * b : 3 * b + 3], lengths[3 * b : 3 * b + 3], strict=True)]
        longest = max(frames, key=len)
        for x in frames:
            numpy.testing.assert_allclose(x, longest[: len(x)], atol=1e-6)


def test_history_of_the_first_of_two_choices():
    past = SpatialDim("past")
    choice = {"class": "choice", "from": "q", "target": "others", "beam_size": 2, "initial_output": 0}
    unit = {
        "q": {"class": "softmax", "from": "s", "n_out": 3},
        "tag": {**choice, "length_normalization": False},
        "tag_emb": {**LINEAR, "from": "tag"},
        "past": {"class": "cum_concat", "from": "tag_emb", "out_spatial_dim": past},
        "more": {"class": "reduce", "mode": "sum", "axis": past, "from": "past"},
        "p": {"class": "softmax", "from": ["s", "more"], "n_out": NUM_LABELS},
    }
    as_sum = {**unit, "more": {"class": "cumsum", "from": "tag_emb"}}
    del as_sum["past"]
    found, wanted = (SearchNet(decoder(unit=u), fetch=FETCH, extern_data=OTHERS) for u in (unit, as_sum))
    for entry, want in zip(found.hypotheses(3, data=inputs()), wanted.hypotheses(3, data=inputs()), strict=True):
        assert_same(entry, want)


@pytest.mark.parametrize("choice", [{}, {"length_normalization": True, "keep_beams": True}, {"cheating": True}])
@pytest.mark.parametrize("depends_on_batch", [True, False])
def test_scores_are_as_exact_as_the_floats_of_the_network(choice, depends_on_batch):
    data, lengths = inputs()
    found = []
    for dtype in ("float32", "float64"):
        options = {"default_float_dtype": dtype, "search_depends_on_batch": depends_on_batch}
        net = SearchNet(decoder(choice=choice), fetch=("output", "scores", "best"), **options)
        found.append(net.run(data=(data.astype(dtype), lengths)))
        assert found[-1]["scores"][0].dtype == dtype
    for name in ("output", "best"):
        numpy.testing.assert_array_equal(*(each[name][0] for each in found))
    numpy.testing.assert_allclose(*(each["scores"][0] for each in found), rtol=1e-5)
