"""Searches in a condition, and hypotheses of one: they are what they are without the condition."""

import numpy
import pytest

from returnn.util.errors import ConfigError
from tests.tf.layers.search.search_net import SearchNet, decoder, inputs

CTX = decoder()["ctx"]
SEARCH = decoder(choice={"length_normalization": True})["output"]
OTHER = decoder(unit={"s": {"class": "linear", "from": ["emb", "prev:s"], "n_out": 4}})["output"]
BEHIND = {
    "best": {"class": "decide", "from": "output"},
    "scores": {"class": "choice_get_beam_scores", "from": "output"},
    "hot": {"class": "linear", "from": "output", "n_out": 3, "activation": "tanh"},
    "with_context": {"class": "combine", "kind": "add", "from": ["hot", "context"]},
    "context": {"class": "linear", "from": "ctx", "n_out": 3},
}


def subnetwork(source="data", **layers):
    return {"class": "subnetwork", "from": source, "subnetwork": layers}


def found(layer, *, around=None, condition=None, fetch=("output", *BEHIND)):
    """
    :return: what comes out; with the layer as "output", or in a condition as the one that is computed, with the other
        one as what it could have been
    """
    net_dict = {"ctx": CTX, **(around or {}), "output": layer, **BEHIND}
    if condition is not None:
        yes, no = (layer, condition[1]) if condition[0] else (condition[1], layer)
        net_dict["output"] = {"class": "cond", "from": [], "condition": "flag", "true_layer": yes, "false_layer": no}
        net_dict["largest"] = {"class": "reduce", "mode": "max", "axes": ["B", "T", "F"], "from": "data"}
        net_dict["flag"] = {
            "class": "compare", "from": "largest", "kind": "greater", "value": -100.0 if condition[0] else 100.0
        }  # fmt: skip
    net_dict = {name: {**desc, "is_output_layer": name in fetch} for name, desc in net_dict.items()}
    return SearchNet(net_dict, fetch=fetch).run(data=inputs())


def check_same(wanted, result):
    assert wanted.keys() == result.keys()
    for name, (value, lengths) in wanted.items():
        for x, y in zip((value, *lengths), (result[name][0], *result[name][1]), strict=True):
            numpy.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("which", [True, False])
@pytest.mark.parametrize("names", [("output", "output"), ("a", "b")])
def test_hypotheses_of_a_search_inside(which, names):
    def inside(name, search):
        search = {**search, "unit": {**search["unit"]}}
        search["unit"]["s"] = {**search["unit"]["s"]}
        search["unit"]["s"]["from"] = [x.replace("base:ctx", "base:base:ctx") for x in search["unit"]["s"]["from"]]
        more = {} if name == "output" else {"output": {"class": "copy", "from": name}}
        return subnetwork(**{name: search}, **more)

    layer, other = inside(names[0], SEARCH), inside(names[1], OTHER)
    if names[0] == names[1]:
        other = layer
    check_same(found(layer), found(layer, condition=(which, other)))


@pytest.mark.parametrize("which", [True, False])
def test_the_layer_itself_searches(which):
    check_same(found(SEARCH), found(SEARCH, condition=(which, SEARCH)))


@pytest.mark.parametrize("which", [True, False])
def test_a_search_that_is_decided_inside(which):
    layer = subnetwork(
        s={**SEARCH, "unit": {**SEARCH["unit"], "s": OTHER["unit"]["s"]}},
        best={"class": "decide", "from": "s"},
        output={"class": "linear", "from": "best", "n_out": 3},
    )
    other = {"class": "linear", "from": "data", "n_out": 3, "name_scope": "other"}
    check_same(found(layer, fetch=("output",)), found(layer, condition=(which, other), fetch=("output",)))


@pytest.mark.parametrize("which", [True, False])
def test_a_network_over_hypotheses(which):
    around = {"s": SEARCH, "emb": {"class": "linear", "from": "s", "n_out": 3}}
    layer = subnetwork("emb", a={"class": "linear", "from": "data", "n_out": 3}, output={"class": "copy", "from": "a"})
    other = {"class": "copy", "from": "emb"}
    fetch = ("output", "best", "scores")
    check_same(
        found(layer, around=around, fetch=fetch), found(layer, around=around, condition=(which, other), fetch=fetch)
    )


def test_one_layer_has_hypotheses_and_the_other_has_none():
    plain = {"class": "reduce", "mode": "argmax", "axis": "F", "from": "data"}
    message = "'output'.*as many hypotheses: 'true_layer' has .*beam.*, 'false_layer' has none.\n.*class 'decide'"
    with pytest.raises(ConfigError, match=message):
        found(SEARCH, condition=(True, plain))


def test_a_choice_of_a_loop():
    """Two choices in a condition are one choice from what the condition says."""
    first = {"class": "compare", "from": ":i", "kind": "less", "value": 2}
    q = {"class": "softmax", "from": "emb", "n_out": 4}
    choice = decoder()["output"]["unit"]["output"]
    cond = {"class": "cond", "from": [], "condition": "first"}
    units = (
        {"output": {**choice, "from": "r"}, "r": {**cond, "true_layer": "p", "false_layer": "q"}},
        {"output": {**cond, "true_layer": choice, "false_layer": {**choice, "from": "q"}}},
    )
    results = []
    for unit in units:
        net_dict = decoder(unit={"first": first, "q": q, **unit})
        results.append(SearchNet(net_dict, fetch=("output", "scores", "best")).run(data=inputs()))
    check_same(*results)


def test_a_search_in_each_frame_of_a_loop():
    inner = {"class": "rec", "from": "data", "max_seq_len": 5, "unit": OTHER["unit"]}
    steps = {"class": "subnetwork", "from": "base:data", "subnetwork": {"output": inner}}
    units = (
        {"in": steps},
        {"in": {"class": "cond", "from": [], "condition": "f", "true_layer": steps, "false_layer": steps}},
    )
    results = []
    for unit in units:
        more = {
            "f": {"class": "compare", "from": ":i", "kind": "less", "value": 2},
            "decided": {"class": "decide", "from": "in"},
            "dense": {"class": "linear", "from": "decided", "n_out": 3},
            "mean": {"class": "reduce", "mode": "sum", "axis": "T", "from": "dense"},
            "p": {"class": "softmax", "from": ["s", "mean"], "n_out": 4},
        }
        net_dict = decoder(unit={**more, **unit})
        results.append(SearchNet(net_dict, fetch=("output", "scores", "best")).run(data=inputs()))
    check_same(*results)
