"""The end of a search: decisions, and what can be known of the hypotheses."""

from __future__ import annotations

import numpy
import pytest
import tensorflow as tf

from returnn.tensor import Dim
from returnn.tf.layers.rec import ChoiceLayer, DecideLayer
from returnn.util.errors import ConfigError
from tests.tf.layers.search.search_net import EOS, SearchNet, construct, decoder, inputs

BEAM = 4


def searched(*fetch, choice=None, unit=None, more=None, **options):
    net_dict = {**decoder(choice={"beam_size": BEAM, **(choice or {})}, unit=unit, **options), **(more or {})}
    net = SearchNet(net_dict, fetch=("output", "scores", *fetch), scale=1.5)
    data = inputs()
    return net.run(data=data), net.hypotheses(BEAM, data=data)


def test_decision_by_the_mean_score():
    more = {
        "shorter": {"class": "decide", "from": "output", "length_normalization": True, "is_output_layer": True},
    }
    found, hypotheses = searched("best", "shorter", more=more, include_eos=True)
    for b, entry in enumerate(hypotheses):
        means = [score / len(x) for x, score in entry]
        for name, index in (("best", 0), ("shorter", int(numpy.argmax(means)))):
            out, (lengths,) = found[name]
            assert tuple(out[b, : lengths[b]]) == entry[index][0]


def test_decide_as_a_function():
    net_dict = decoder(choice={"beam_size": BEAM})
    net_dict["best"]["class"] = "eval"
    net_dict["best"]["eval"] = lambda source, self, **_: seen.append(DecideLayer.decide(self.sources[0])) or source(0)
    seen = []
    for search in (True, False):
        net_dict["best"]["only_on_search"] = False
        with tf.Graph().as_default():
            net = construct(net_dict, search=search)
        data, choices = seen[-1]
        assert not any(dim.is_beam_dim() for dim in data.dims)
        assert (choices is None) == (not search)
        if search:
            assert data.name == "output_decided"
            assert choices.is_decided
            assert choices.get_beam_info() is None
            assert net.layers["output"].get_search_choices() is not None


def test_number_of_hypotheses_before_the_layer_is_made():
    with tf.Graph().as_default():
        net = construct(decoder(), search=True)
        other = construct(decoder(), search=False)
    size = ChoiceLayer.cls_get_search_beam_size
    assert size(network=net, beam_size=3) == 3
    assert size(network=net, beam_size=3, search=False) is None  # there is no search before it
    assert size(network=net, beam_size=3, search=False, add_to_beam_scores=False) is None
    assert size(network=other, beam_size=3) is None
    assert size(network=other, beam_size=3, search=True) == 3


def test_hypotheses_as_an_axis():
    dim = Dim(None, name="hypotheses")
    more = {"split": {"class": "split_batch_beam", "from": "scores", "beam_dim": dim, "is_output_layer": True}}
    found, hypotheses = searched("split", more=more)
    assert found["split"][0].shape == (3, BEAM)
    numpy.testing.assert_allclose(found["split"][0], [[score for _, score in entry] for entry in hypotheses])
    assert dim.dimension == BEAM


def test_each_hypothesis_on_an_axis_of_its_own_has_its_length():
    more = {
        "split": {"class": "split_batch_beam", "from": "output"},
        "ones": {"class": "eval", "from": "split", "eval": "tf.ones_like(source(0))"},
        "count": {"class": "reduce", "mode": "sum", "axis": "T", "from": "ones", "is_output_layer": True},
    }
    found, _ = searched("count", more=more)
    lengths = found["output"][1][0]
    numpy.testing.assert_array_equal(found["count"][0], lengths.reshape(3, BEAM))


def test_end_flags_of_the_frame_before():
    flags = {}

    def look(source, self, **_):
        info = self.network.get_rec_step_info()
        choices = self.network.layers["output"].search_choices
        raw = info.get_prev_end_flag(target_search_choices=choices)
        flags["shape"] = raw.shape.as_list()
        return source(0) * 0 + tf.cast(raw, source(0).dtype)

    unit = {"ended": {"class": "eval", "from": "output", "eval": look, "is_output_layer": True}}
    found, _ = searched("output/ended", unit=unit, optimize_move_layers_out=False, include_eos=True)
    out, (lengths,) = found["output"]
    ended = found["output/ended"][0]
    for row, flag, n in zip(out, ended, lengths, strict=True):
        assert not flag[:n].any()
        assert row[n - 1] == EOS or n == 5
        assert flag[n:].all()
    assert len(flags["shape"]) == 1


@pytest.mark.parametrize("layer_class", ["choice_get_beam_scores", "choice_get_src_beams"])
def test_without_search_there_is_nothing_to_get(layer_class):
    net_dict = {"output": {"class": layer_class, "from": "data"}}
    with tf.Graph().as_default(), pytest.raises(ConfigError, match=r"layer 'output' .*: the source .* from no search"):
        construct(net_dict)


def test_source_beams_and_scores_of_the_step_before():
    unit = {}
    for name, layer_class in {"src": "choice_get_src_beams", "score": "choice_get_beam_scores"}.items():
        for prev, key in {"": "now", "prev:": "before"}.items():
            unit[f"{name}_{key}"] = {"class": layer_class, "from": f"{prev}output"}
            kept = {"class": "decide_keep_beam", "from": f"{name}_{key}", "is_output_layer": True}
            unit[f"{name}_{key}_kept"] = kept
    unit["src_now"]["initial_output"] = 0
    net_dict = decoder(unit=unit)
    names = [f"output/{name}_{key}_kept" for name in ("src", "score") for key in ("now", "before")]
    found = SearchNet(net_dict, fetch=names).run(data=inputs())
    src, src_before, score, score_before = (found[name][0] for name in names)
    assert not src_before[:, 0].any()
    assert src.any()
    numpy.testing.assert_array_equal(src_before[:, 1:], src[:, :-1])
    numpy.testing.assert_allclose(score_before[:, 1:], score[:, :-1])


def test_source_beams_of_the_whole_search_are_an_error():
    net_dict = {**decoder(), "src": {"class": "choice_get_src_beams", "from": "output", "is_output_layer": True}}
    with (
        tf.Graph().as_default(),
        pytest.raises(ConfigError, match=r"layer 'src' .*: the hypotheses of .* continue none"),
    ):
        construct(net_dict)


def test_choices_that_do_not_continue_each_other():
    other = {"class": "choice", "from": "p", "target": "classes", "beam_size": 2, "length_normalization": False}
    unit = {"other": other, "both": {"class": "combine", "kind": "add", "from": ["output", "other"]}}
    unit["both"]["is_output_layer"] = True
    with tf.Graph().as_default(), pytest.raises(ConfigError, match=r"do not continue each other") as info:
        construct(decoder(unit=unit))
    assert "layer 'output/both'" in str(info.value)


def test_choices_of_a_step_have_to_continue_each_other():
    choice = {"class": "choice", "target": "classes", "beam_size": 2, "initial_output": 0}
    unit = {
        "emb2": {"class": "linear", "from": "prev:other", "n_out": 3, "activation": None},
        "s": {"class": "linear", "from": ["emb", "emb2", "prev:s", "base:ctx"], "n_out": 4, "activation": "tanh"},
        "other": {**choice, "from": "p"},
    }
    with tf.Graph().as_default(), pytest.raises(ConfigError, match=r"loop 'output': the beams .* do not continue each"):
        construct(decoder(unit=unit))
