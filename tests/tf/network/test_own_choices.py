"""Choices of users' own classes: they change the beam of a search as `choice` does."""

from __future__ import annotations

import numpy
import pytest
import tensorflow as tf

from returnn.tf.layers.basic import SearchChoices
from returnn.tf.layers.rec import BaseChoiceLayer, ChoiceLayer
from returnn.tf.util.data import Data, SearchBeam
from returnn.util.basic import NotSpecified
from returnn.util.errors import ConfigError
from tests.tf.layers.search.search_net import EOS, NUM_LABELS, SearchNet, construct, decoder, inputs

FETCH = ("output", "scores", "best")


class OwnChoice(BaseChoiceLayer):
    """The best of all continuations, by code on raw tensors."""

    def __init__(self, beam_size, search=NotSpecified, **kwargs):
        super().__init__(beam_size=beam_size, search=search, **kwargs)
        if not self.search:
            self.output.placeholder = self.get_target_value(self.target).placeholder
            return
        base = self.network.get_search_choices(base_search_choice=self)
        source = self.sources[0].output.copy_as_batch_major()
        before, num = base.beam_size, source.dim
        scores = tf.reshape(tf.math.log(source.placeholder), [-1, before, num])
        ended = self.network.get_rec_step_info().get_prev_end_flag(target_search_choices=base)
        fixed = tf.where(tf.equal(tf.range(num), 0), 0.0, -1e30)[None, None]
        scores = tf.where(tf.reshape(ended, [-1, before, 1]), fixed, scores)
        total = tf.reshape(base.beam_scores[:, :, None] + scores, [-1, before * num])
        best, index = tf.nn.top_k(total, k=beam_size)
        self.finish(best, index // num, index % num)

    def finish(self, scores, src_beams, labels):
        """Says what was found."""
        self.search_choices = SearchChoices(owner=self, beam_size=self.beam_size)
        self.search_choices.set_beam_scores(scores)
        self.search_choices.set_src_beams(src_beams)
        self.output.placeholder = tf.reshape(labels, [-1])

    @classmethod
    def get_out_data_from_opts(cls, name, network, target, beam_size, search=NotSpecified, **kwargs):
        beam = SearchBeam(beam_size=beam_size, name=network.get_absolute_name_prefix() + name)
        dim = network.get_extern_data(target).dim
        out = Data(name=name, shape=(), dim=dim, sparse=True, dtype="int32", batch_dim_axis=0)
        return out.copy_extend_with_beam(beam) if (network.search_flag if search is NotSpecified else search) else out


class Counting(OwnChoice):
    """With a state, which follows the hypotheses: how many labels they have."""

    def finish(self, scores, src_beams, labels):
        super().finish(scores, src_beams, labels)
        before = tf.reshape(self._rec_previous_layer.rec_vars_outputs["num"], [-1, scores.shape[1]])
        num = tf.gather(before, src_beams, batch_dims=1) + tf.cast(tf.not_equal(labels, EOS), tf.int32)
        self.rec_vars_outputs["num"] = tf.reshape(num, [-1])

    @classmethod
    def get_rec_initial_extra_outputs(cls, batch_dim, **kwargs):
        return {"num": tf.zeros([batch_dim], tf.int32)}


class Silent(OwnChoice):
    """Does not say what it has chosen."""

    def finish(self, scores, src_beams, labels):
        self.output.placeholder = tf.reshape(labels, [-1])


class Smaller(OwnChoice):
    """Finds fewer hypotheses than it said."""

    def finish(self, scores, src_beams, labels):
        self.beam_size -= 1
        super().finish(scores[:, :-1], src_beams[:, :-1], labels[:, :-1])


def net_dict_of(layer_class, *, beam_size=3, unit=None):
    net_dict = decoder(unit=unit)
    choice = {"class": layer_class, "from": "p", "target": "classes", "beam_size": beam_size, "initial_output": 0}
    if layer_class == "choice":
        choice["length_normalization"] = False
    net_dict["output"]["unit"]["output"] = {**choice, **(unit or {}).get("output", {})}
    return net_dict


def found_by(*args, fetch=FETCH, **kwargs):
    return SearchNet(net_dict_of(*args, **kwargs), fetch=fetch).run(data=inputs())


def assert_same(found, wanted):
    for name, (value, lengths) in wanted.items():
        numpy.testing.assert_allclose(found[name][0], value, atol=1e-5)
        numpy.testing.assert_array_equal(found[name][1], lengths)


@pytest.mark.parametrize("beam_size", [1, 3, 6])
def test_finds_what_choice_finds(beam_size):
    assert_same(found_by(OwnChoice, beam_size=beam_size), found_by("choice", beam_size=beam_size))


def test_other_layers_follow_its_hypotheses():
    unit = {
        "first": {"class": "choice", "from": "p", "target": "classes", "beam_size": 2, "length_normalization": False},
        "first_emb": {"class": "linear", "from": "first", "n_out": 3, "activation": None},
        "q": {"class": "softmax", "from": ["s", "first_emb"], "n_out": NUM_LABELS},
        "output": {"from": "q"},
    }
    results = [found_by(layer_class, beam_size=4, unit=unit) for layer_class in (OwnChoice, "choice")]
    assert_same(*results)


def test_of_two_choices_the_first_one():
    def unit(layer_class):
        first = net_dict_of(layer_class, beam_size=2)["output"]["unit"]["output"]
        return {
            "first": first,
            "first_emb": {"class": "linear", "from": "first", "n_out": 3, "activation": None},
            "q": {"class": "softmax", "from": ["s", "first_emb"], "n_out": NUM_LABELS},
            "output": {"from": "q"},
        }

    assert_same(*[found_by("choice", beam_size=4, unit=unit(layer_class)) for layer_class in (OwnChoice, "choice")])


def test_state_follows_the_hypotheses():
    def number(source, self, **_):
        return self.network.layers["output"].rec_vars_outputs.get("num", source(0))

    unit = {"num": {"class": "eval", "from": "output", "eval": number, "is_output_layer": True}}
    net_dict = net_dict_of(Counting, unit=unit)
    net_dict["output"]["optimize_move_layers_out"] = False
    found = SearchNet(net_dict, fetch=("output", "output/num")).run(data=inputs())
    labels, numbers = found["output"][0], found["output/num"][0]
    numpy.testing.assert_array_equal(numbers, numpy.cumsum(labels != EOS, axis=1))


def test_derived_from_choice_by_name_is_a_choice():
    class Renamed(ChoiceLayer):
        layer_class = "renamed_choice"

    net_dict = net_dict_of("choice")
    net_dict["output"]["unit"]["output"]["class"] = Renamed
    assert_same(SearchNet(net_dict, fetch=FETCH).run(data=inputs()), found_by("choice"))


def test_without_search_it_is_the_target():
    net_dict = net_dict_of(OwnChoice)
    net_dict["output"]["unit"]["p"].update(loss="ce", target="classes")
    found, wanted = (
        SearchNet(net, fetch=("output",), search=False, train=True)
        for net in (net_dict, {**net_dict, "output": _with_choice(net_dict["output"])})
    )
    for net in (found, wanted):
        net.result = net.run(fetches=[net.fetches, net.losses], data=inputs())
    numpy.testing.assert_array_equal(found.result[0]["output"][0], wanted.result[0]["output"][0])
    numpy.testing.assert_allclose(*[list(net.result[1].values()) for net in (found, wanted)], rtol=1e-5)


def _with_choice(loop):
    return {**loop, "unit": {**loop["unit"], "output": {**loop["unit"]["output"], "class": "choice"}}}


@pytest.mark.parametrize(
    ("layer_class", "message"),
    [
        (Silent, "it searches, so `__init__` has to set `self.search_choices`"),
        (Smaller, "`self.search_choices` has beam_size=2, but `cls_get_search_beam_size` says 3"),
    ],
)
def test_errors(layer_class, message):
    with tf.Graph().as_default(), pytest.raises(ConfigError, match=message) as info:
        construct(net_dict_of(layer_class))
    assert str(info.value).startswith("layer 'output/output'")
