"""States of hypotheses, inside of a search and behind it."""

import numpy
import pytest
import tensorflow as tf

from returnn.util.errors import ConfigError
from tests.tf.layers.search.search_net import NUM_LABELS, SearchNet, decoder, inputs, labels

LSTM = {"class": "rec", "unit": "nativelstm2", "from": ["emb", "base:ctx"], "n_out": 4}


def found_with(unit, *names, top=None, **options):
    """:return: by layer, (value, lengths)"""
    return SearchNet({**decoder(unit=unit, **options), **(top or {})}, fetch=names, scale=1.0).run(data=inputs())


def test_last_state_of_each_hypothesis_is_known_behind_the_search():
    top = {
        "h": {"class": "get_last_hidden_state", "from": "output/s", "key": "h", "n_out": 4, "is_output_layer": True},
        "last": {"class": "rec_last_output", "rec_layer": "output", "sub_layer_name": "s", "is_output_layer": True},
    }
    found = found_with({"s": {**LSTM, "need_last": True}}, "h", "last", top=top, include_eos=True)
    assert found["h"][0].shape == (9, 4)
    numpy.testing.assert_allclose(found["h"][0], found["last"][0], atol=1e-6)


def test_what_only_the_outside_needs_of_the_frame_before_is_the_same_behind_the_loop():
    target = {"target": "layer:base:data:classes"}
    unit = {
        "table": {"class": "edit_distance_table", "from": "output", **target},
        "best": {"class": "optimal_completions", "from": "prev:table", **target, "is_output_layer": True},
    }
    found = (found_with(unit, "output/best", optimize_move_layers_out=move)["output/best"][0] for move in (True, False))
    moved, inside = (numpy.moveaxis(x, x.shape.index(NUM_LABELS), -1) for x in found)
    assert len(numpy.unique(moved)) > 2
    numpy.testing.assert_array_equal(moved, inside)


def test_a_text_is_put_together_along_each_hypothesis():
    def joined(source, **_other):
        return tf.strings.join([source(0), tf.strings.as_string(source(1))])

    text = {
        "class": "eval", "from": ["prev:text", "output"], "eval": joined, "is_output_layer": True,
        "out_type": {"shape": (), "dtype": "string", "sparse": False, "dim": None}, "initial_output": None,
    }  # fmt: skip
    found = found_with({"text": text}, "output", "output/text")
    for row, texts, length in zip(found["output"][0], found["output/text"][0], found["output"][1][0], strict=True):
        assert [text.decode() for text in texts[:length]] == ["".join(map(str, row[: t + 1])) for t in range(length)]


def test_a_state_that_is_given_in_parts_of_the_state_before():
    """It is the unit without the option, if nothing is changed."""
    cell = {"class": "rnn_cell", "unit": "standardlstm", "from": ["emb", "base:ctx"], "n_out": 4}
    before = {key: {"class": "get_last_hidden_state", "from": "prev:s", "key": key, "n_out": 4} for key in "ch"}
    given, own = (
        found_with(unit, "output", "scores")
        for unit in ({**before, "s": {**cell, "state": {"c": "c", "h": "h"}}}, {"s": cell})
    )
    for name in ("output", "scores"):
        numpy.testing.assert_allclose(given[name][0], own[name][0], atol=1e-5)


def test_what_is_masked_counts_along_each_hypothesis():
    """The state is one of a layer in a subnetwork in the masked unit, for which the choice of the step decides."""
    count = {"class": "eval", "from": "prev:count", "eval": "source(0) + 1", "initial_output": 0,
             "out_type": {"dtype": "int32", "shape": ()}}  # fmt: skip
    inner = {"class": "subnetwork", "from": "data", "subnetwork": {"count": count, "output": {"class": "copy"}}}
    inner["subnetwork"]["output"]["from"] = "count"
    unit = {
        "is_two": {"class": "compare", "from": "output", "value": 2},
        "twos": {"class": "masked_computation", "mask": "is_two", "from": "output", "unit": inner, "initial_output": 0,
                 "is_output_layer": True},
    }  # fmt: skip
    found = found_with(unit, "output", "output/twos")
    assert found["output/twos"][0].max() > 1
    for row, twos, length in zip(found["output"][0], found["output/twos"][0], found["output"][1][0], strict=True):
        numpy.testing.assert_array_equal(twos[:length], numpy.cumsum(row[:length] == 2))


@pytest.mark.parametrize("search", [True, False])
def test_a_value_that_is_kept_by_a_switch_has_the_dims_of_the_other_value(search):
    unit = {
        "is_new": {"class": "compare", "kind": "not_equal", "from": "output", "value": 2},
        "new": {"class": "linear", "from": "output", "activation": None, "n_out": 3},
        "kept": {"class": "switch", "condition": "is_new", "true_from": "new", "false_from": "prev:kept"},
        "s": {"class": "linear", "from": ["emb", "base:ctx", "prev:kept"], "n_out": 4},
    }
    unit["kept"]["is_output_layer"] = unit["new"]["is_output_layer"] = True
    net = SearchNet(decoder(unit=unit), search=search, fetch=("output", "output/new", "output/kept"), scale=1.0)
    found = net.run(data=inputs(), classes=labels([(2, 0, 2, 2), (1, 2, 3), (2, 2)]))
    lengths = found["output"][1][0]
    for row, new, kept, length in zip(*(found[name][0] for name in net.fetches), lengths, strict=True):
        value = numpy.zeros(3)
        for t in range(length):
            value = value if row[t] == 2 else new[t]
            numpy.testing.assert_allclose(kept[t], value, atol=1e-6)


def test_a_switch_between_its_past_and_what_follows_from_it():
    """Only the options of one of the values say what it looks like."""
    out_type = {"dtype": "int32", "dim": None, "shape": ()}
    unit = {
        "is_two": {"class": "compare", "from": "output", "value": 2},
        "one_more": {"class": "eval", "from": "prev:twos", "eval": "source(0) + 1", "out_type": out_type},
        "twos": {"class": "switch", "condition": "is_two", "true_from": "one_more", "false_from": "prev:twos",
                 "initial_output": 0, "is_output_layer": True},
    }  # fmt: skip
    found = found_with(unit, "output", "output/twos")
    for row, twos, length in zip(found["output"][0], found["output/twos"][0], found["output"][1][0], strict=True):
        numpy.testing.assert_array_equal(twos[:length], numpy.cumsum(row[:length] == 2))


def test_states_of_hypotheses_are_not_kept_for_the_next_batch():
    with pytest.raises(ConfigError) as info:
        found_with({"s": {**LSTM, "initial_state": "keep_over_epoch"}}, "output")
    assert str(info.value) == (
        "layer 'output/s' (class 'rec'): option 'initial_state': of the hypotheses of a search, no state can be kept.\n"
        "  Possible there: zeros, ones, var, or a layer."
    )
