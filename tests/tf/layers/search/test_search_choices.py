"""What layers and code of users know of a search."""

from __future__ import annotations

import numpy
import pytest
import tensorflow as tf

from returnn.tf.layers.base import SearchChoices
from returnn.tf.layers.basic import SelectSearchSourcesLayer
from returnn.util.errors import ConfigError
from tests.tf.layers.search.search_net import NUM_LABELS, SearchNet, construct, decoder, inputs


def two_choices(**unit):
    layers = {
        "first": {"class": "choice", "from": "p", "target": "classes", "beam_size": 2, "length_normalization": False},
        "q": {"class": "softmax", "from": ["s", "first_emb"], "n_out": NUM_LABELS},
        "first_emb": {"class": "linear", "from": "first", "n_out": 3, "activation": None},
        "output": {
            "class": "choice", "from": "q", "target": "classes", "beam_size": 3, "initial_output": 0,
            "length_normalization": False,
        },
        **unit,
    }  # fmt: skip
    return decoder(unit=layers, optimize_move_layers_out=False)


class Step:
    """Calls a function in the step of the loop, by a layer in there."""

    def __init__(self, function):
        self.function = function
        self.result = None

    def net_dict(self):
        def evaluate(source, self, **_):
            layers = {name: self.network.layers[name] for name in ("s", "first", "output")}
            if layers["output"].output.raw_tensor is not None:
                outer.result = outer.function(**layers)
            return source(0)

        outer = self
        look = {"class": "eval", "from": "output", "eval": evaluate, "is_output_layer": True}
        return two_choices(look=look)

    def run(self):
        with tf.Graph().as_default():
            construct(self.net_dict())
        return self.result


def test_choices_are_ordered():
    def compare(s, first, output):
        a, b = first.search_choices, output.search_choices
        assert isinstance(a, SearchChoices)
        assert b.get_src_choices_seq()[:2] == [b, a]
        assert b.src_layer is first
        return [a < b, b > a, a == a, a != b, SearchChoices.compare(None, a), SearchChoices.compare(a, None)]

    assert Step(compare).run() == [True, True, True, True, -1, 1]


def test_a_layer_that_depends_on_the_frame_before_has_the_choices_of_that():
    def compare(s, first, output):
        before = s.get_search_choices()
        assert before.owner.name.startswith("prev:")
        assert before.beam_size == 3
        assert before.beam_scores.shape.as_list() == [None, 3]
        assert SearchChoices.compare(before, s.network.get_layer("prev:output").search_choices) == 0
        assert SelectSearchSourcesLayer.select_if_needed(s, before) is s
        assert s.network.get_search_choices(sources=[s, first]) is first.search_choices
        assert s.network.get_search_choices(sources=[first, output]) is output.search_choices
        assert first.search_choices.get_src_choices_seq() == [first.search_choices, before]
        return [before < first.search_choices, output.search_choices > before]

    assert Step(compare).run() == [True, True]


def test_choices_know_scores_and_sources():
    def shapes(s, first, output):
        choices = output.search_choices
        assert repr(choices) == "<SearchChoices 'output/output' beam_size=3>"
        assert choices.get_beam_info().beam_size == 3
        return choices.beam_scores.shape.as_list(), choices.src_beams.shape.as_list(), choices.src_beams.dtype

    assert Step(shapes).run() == ([None, 3], [None, 3], tf.int32)


def test_layers_are_brought_to_a_later_beam():
    def translate(s, first, output):
        beams = output.network.beams
        choices = output.search_choices
        nested = choices.translate_to_this_search_beam({"from": [first, output], "n": 3})
        assert nested["from"][1] is output
        assert nested["n"] == 3
        assert beams.of(nested["from"][0].output) == beams.of(output.output)
        common = SearchChoices.translate_to_common_search_beam({"sources": [first, output]})
        assert beams.of(common["sources"][0].output) == beams.of(output.output)
        assert SearchChoices.translate_to_common_search_beam({"n": 3}) == {"n": 3}
        selected = SelectSearchSourcesLayer.select_if_needed(first, choices)
        assert beams.of(selected.output) == beams.of(output.output)
        assert SelectSearchSourcesLayer.select_if_needed(first, None) is first
        layer = SelectSearchSourcesLayer(output, [first], name="selected", network=output.network)
        return beams.of(layer.output) == beams.of(output.output)

    assert Step(translate).run()


def test_users_can_set_scores_and_sources():
    def set_beam(s, first, output):
        choices = SearchChoices(owner=s, beam_size=5)
        scores, sources = tf.zeros([3, 5]), tf.zeros([3, 5], tf.int32)
        choices.set_beam_from_rec({"choice_scores": scores, "choice_src_beams": sources})
        assert choices.beam_scores is scores
        assert choices.src_beams is sources
        s.rec_vars_outputs = {"choice_scores": scores + 1}
        with pytest.raises(ConfigError, match=r"there is no 'choice_src_beams' among \['choice_scores'\]"):
            choices.set_beam_from_own_rec()
        s.rec_vars_outputs["choice_src_beams"] = sources
        choices.set_beam_from_own_rec()
        return choices.beam_scores is s.rec_vars_outputs["choice_scores"]

    assert Step(set_beam).run()


def test_unrelated_choices_cannot_be_compared():
    def compare(s, first, output):
        with pytest.raises(ConfigError, match="do not continue each other"):
            SearchChoices.compare(SearchChoices(owner=s, beam_size=5), output.search_choices)
        return True

    assert Step(compare).run()


def test_select_search_sources_by_class_in_a_net_dict():
    unit = {
        "picked": {
            "class": SelectSearchSourcesLayer,
            "from": "first",
            "search_choices": "output",
            "is_output_layer": True,
        }
    }
    unit["same"] = {"class": "copy", "from": "first", "is_output_layer": True}
    net = SearchNet(two_choices(**unit), fetch=("output/picked", "output/same"))
    found = net.run(data=inputs())
    numpy.testing.assert_array_equal(found["output/picked"][0], found["output/same"][0])


@pytest.mark.parametrize("move", [True, False])
def test_kept_beams_stay_as_they_were(move):
    unit = {
        "kept": {"class": "decide_keep_beam", "from": "output", "is_output_layer": True},
        "src": {"class": "choice_get_src_beams", "from": "output"},
        "kept_src": {"class": "decide_keep_beam", "from": "src", "is_output_layer": True},
    }
    net_dict = decoder(unit=unit, optimize_move_layers_out=move)
    net = SearchNet(net_dict, fetch=("output", "output/kept", "output/kept_src"), scale=1.0)
    found = {name: value[0] for name, value in net.run(data=inputs()).items()}
    assert (found["output"] != found["output/kept"]).any()
    for b in range(3):
        rows = slice(3 * b, 3 * b + 3)
        kept, src = found["output/kept"][rows], found["output/kept_src"][rows]
        index = numpy.arange(3)
        for t in reversed(range(kept.shape[1])):  # the way back from the last step
            numpy.testing.assert_array_equal(found["output"][rows][:, t], kept[index, t])
            index = src[index, t]


def test_without_search_nothing_is_decided():
    unit = {"kept": {"class": "decide_keep_beam", "from": "output", "is_output_layer": True}}
    net = SearchNet(decoder(unit=unit), search=False, fetch=("output", "output/kept"))
    found = net.run(data=inputs())
    numpy.testing.assert_array_equal(found["output"][0], found["output/kept"][0])
