"""Layers that are made when a network is complete are what they are as a part of its net dict."""

import threading

import numpy
import pytest

from returnn.tf.layers.base import LayerBase
from returnn.tf.layers.basic import LinearLayer, get_layer_class, register_layer_class
from returnn.tf.layers.user_code.outside_view import making_layers
from tests.tf.layers.search.search_net import SearchNet, decoder, inputs

SEARCH = {name: desc for name, desc in decoder(choice={"beam_size": 3}).items() if name in ("ctx", "output")}


class Doubled(LayerBase):
    """Twice the source, by code on raw tensors, which sees batch and beam as one axis."""

    layer_class = "doubled_outside_view"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        source = self.sources[0].output
        assert source.batch_ndim == len(source.placeholder.shape) == 2
        self.output.placeholder = 2.0 * source.placeholder

    @classmethod
    def get_out_data_from_opts(cls, name, sources, **kwargs):
        return sources[0].output.copy_template(name=name)


class Shifted(LinearLayer):
    """A linear layer, and code on raw tensors behind it."""

    layer_class = "shifted_outside_view"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        assert len(self.output.placeholder.shape) == 3
        self.output.placeholder = self.output.placeholder + 1.0


MORE = {
    "a class on raw tensors": {"class": "doubled_outside_view", "from": "with_beam"},
    "a class that is derived": {"class": "shifted_outside_view", "from": "output", "n_out": 3},
    "decide": {"class": "decide", "from": "output"},
    "scores": {"class": "choice_get_beam_scores", "from": "output"},
    "hypotheses": {"class": "split_batch_beam", "from": "output"},
    "a layer": {"class": "linear", "from": "output", "n_out": 3},
    "with a layer that has none": {"class": "combine", "kind": "add", "from": ["scores", "mean"]},
    "in a subnetwork": {
        "class": "subnetwork",
        "from": "output",
        "subnetwork": {
            "a": {"class": "linear", "from": "data", "n_out": 3},
            "output": {"class": "decide", "from": "a"},
        },
    },
    "a sub layer": {"class": "copy", "from": "output/s"},
    "another search": {**SEARCH["output"], "max_seq_len": "max_len_from('base:output')"},
}
NEEDED = {
    "with_beam": {"class": "linear", "from": "scored", "n_out": 2},
    "scored": {"class": "combine", "kind": "add", "from": ["scores", "ctx"]},
    "mean": {"class": "reduce", "mode": "mean", "axis": "F", "from": "ctx"},
    "scores": MORE["scores"],
}
IN_LOOP = {"s": {**SEARCH["output"]["unit"]["s"], "is_output_layer": True}}
SEARCH["output"] = {**SEARCH["output"], "unit": {**SEARCH["output"]["unit"], **IN_LOOP}}


@pytest.fixture(autouse=True)
def own_classes():
    for layer_class in (Doubled, Shifted):
        register_layer_class(layer_class)


def called(net, options, name):
    layer_class = get_layer_class(options["class"])
    given = {key: value for key, value in options.items() if key != "class"} | {"_name": name, "_network": net}
    layer_class.transform_config_dict(given, network=net, get_layer=net.get_layer)
    return layer_class, {key: value for key, value in given.items() if key not in ("_name", "_network")}


def call_class(net, options, name):
    layer_class, given = called(net, options, name)
    given.update(name=name, network=net)
    if layer_class is not Shifted:  # which wants to know its output in `__init__`
        given["output"] = layer_class.get_out_data_from_opts(**given)
    net.layers[name] = layer_class(**given)


def add_layer(net, options, name):
    layer_class, given = called(net, options, name)
    net.add_layer(name, layer_class, **given)


def construct_layer(net, options, name):
    net.construct_layer({name: options}, name)


def construct_from_dict(net, options, name):
    net.construct_from_dict({name: {**options, "is_output_layer": True}})


def values(net_dict, make=None, name="more", options=None):
    """:return: values and lengths of a layer, which is made when all others are complete"""
    net_dict = {key: {**desc, "is_output_layer": True} for key, desc in net_dict.items()}
    if make is None:
        return SearchNet({**net_dict, name: {**options, "is_output_layer": True}}, fetch=(name,)).run(data=inputs())
    return SearchNet(net_dict, fetch=(name,), later=lambda net: make(net, options, name)).run(data=inputs())


def check_same(wanted, found):
    (wanted, lengths), (found, found_lengths) = wanted["more"], found["more"]
    for x, y in zip((wanted, *lengths), (found, *found_lengths), strict=True):
        numpy.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [call_class, add_layer, construct_layer, construct_from_dict])
@pytest.mark.parametrize("kind", MORE)
def test_a_layer_that_is_made_later(kind, make):
    net_dict = {**SEARCH, **NEEDED}
    check_same(values(net_dict, options=MORE[kind]), values(net_dict, make, options=MORE[kind]))


@pytest.mark.parametrize("make", [call_class, add_layer, construct_layer, construct_from_dict])
def test_a_search_that_is_made_later(make):
    net_dict = {"ctx": SEARCH["ctx"]}
    check_same(values(net_dict, options=SEARCH["output"]), values(net_dict, make, options=SEARCH["output"]))


@pytest.mark.parametrize("make", [call_class, add_layer, construct_layer])
def test_a_decision_on_a_search_that_is_made_later(make):
    def make_both(net, options, name):
        make(net, SEARCH["output"], "output")
        make(net, options, name)

    check_same(
        values(SEARCH, options=MORE["decide"]), values({"ctx": SEARCH["ctx"]}, make_both, options=MORE["decide"])
    )


@pytest.mark.parametrize("kind", ["a class on raw tensors", "a class that is derived"])
@pytest.mark.parametrize("make", [call_class, add_layer, construct_layer])
def test_a_decision_on_a_class_of_a_user_that_is_made_later(make, kind):
    net_dict, decision = {**SEARCH, **NEEDED}, {"class": "decide", "from": "own"}

    def make_both(net, options, name):
        make(net, MORE[kind], "own")
        make(net, options, name)

    check_same(values({**net_dict, "own": MORE[kind]}, options=decision), values(net_dict, make_both, options=decision))


def test_a_thread_that_makes_layers_changes_no_view_of_another_one():
    net = SearchNet(SEARCH).net
    layer = net.get_layer("output")
    found = []
    with making_layers():
        thread = threading.Thread(target=lambda: found.append(layer.output.batch_ndim))
        thread.start()
        thread.join()
        found.append(layer.output.batch_ndim)
    assert found == [2, 3]
    assert layer.output.batch_ndim == 2
