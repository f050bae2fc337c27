"""Scripts that make layers about the hypotheses of a search by their class."""

from __future__ import annotations

import numpy
import pytest

from returnn.tensor import Dim
from returnn.tf.layers.rec import (
    ChoiceGetBeamScoresLayer,
    ChoiceGetSrcBeamsLayer,
    DecideKeepBeamLayer,
    DecideLayer,
    SplitBatchBeamLayer,
)
from returnn.util.errors import ConfigError
from tests.tf.by_hand.scripts import make_network, make_scope, run_network

BEAM = 3


def searched(**more):
    unit = {
        "emb": {"class": "linear", "from": "prev:output", "n_out": 4},
        "prob": {"class": "softmax", "from": ["data:source", "emb"], "n_out": 5},
        "output": {"class": "choice", "beam_size": BEAM, "from": "prob", "target": "classes", "initial_output": 0},
        **more,
    }
    net_dict = {"s": {"class": "rec", "from": "data", "target": "classes", "unit": unit, "is_output_layer": True}}
    return make_network(net_dict, train_flag=False, eval_flag=True, search_flag=True)


def made(layer_class, network, **options):
    options = {"name": "x", "network": network, "sources": [network.layers["s"]], **options}
    return layer_class(output=layer_class.get_out_data_from_opts(**options), **options)


def as_hypotheses(x):
    """:return: (B, beam, T) of (T, B * beam)"""
    return x.T.reshape(-1, BEAM, len(x))


def test_scores_are_those_of_the_choices_and_the_best_is_decided():
    with make_scope() as session:
        network = searched()
        scores = made(ChoiceGetBeamScoresLayer, network)
        best = made(DecideLayer, network, name="best")
        choices = network.layers["s"].get_search_choices()
        fetch = [
            network.layers["s"].output.copy_as_time_major().placeholder,
            scores.output.placeholder,
            choices.beam_scores,
            best.output.copy_as_batch_major().placeholder,
        ]
        (labels, found, wanted, decided), _ = run_network(session, network, fetch, same_time=True)
    numpy.testing.assert_array_equal(found.reshape(-1, BEAM), wanted)
    rows = as_hypotheses(labels)
    numpy.testing.assert_array_equal(decided, rows[numpy.arange(len(rows)), wanted.argmax(axis=1)])


def test_hypotheses_as_an_axis_of_their_own():
    beam = Dim(BEAM, name="hypotheses")
    with make_scope() as session:
        network = searched()
        split = made(SplitBatchBeamLayer, network, beam_dim=beam)
        assert beam in split.output.dims
        labels = network.layers["s"].output.copy_as_time_major().placeholder
        batch, time = (split.output.get_batch_dim_tag(), split.output.get_time_dim_tag())
        fetch = [labels, split.output.copy_transpose([batch, beam, time]).placeholder]
        (labels, found), _ = run_network(session, network, fetch, same_time=True)
    numpy.testing.assert_array_equal(found, as_hypotheses(labels))


def test_which_hypothesis_is_continued_is_known_in_the_loop_alone():
    with make_scope() as session:
        network = searched(sources={"class": "choice_get_src_beams", "from": "output", "is_output_layer": True})
        with pytest.raises(ConfigError, match=r"'x'.*continue none"):
            made(ChoiceGetSrcBeamsLayer, network)
        found = network.layers["s"].get_sub_layer("sources").output.copy_as_time_major()
        values, _ = run_network(session, network, found.placeholder, same_time=True)
    assert values.shape[1] % BEAM == 0
    assert (values[0] == 0).all()  # there is one before the first frame
    assert set(values.ravel()) <= set(range(BEAM))


def test_hypotheses_of_each_step_as_they_were():
    """Of the last step, they are the hypotheses; before, they need not be continued."""
    with make_scope() as session:
        network = searched(kept={"class": "decide_keep_beam", "from": "output", "is_output_layer": True})
        kept = network.layers["s"].get_sub_layer("kept").output.copy_as_time_major()
        again = made(DecideKeepBeamLayer, network)
        labels = network.layers["s"].output.copy_as_time_major()
        fetch = [labels.placeholder, kept.placeholder, again.output.copy_as_time_major().placeholder]
        (labels, kept, again), _ = run_network(session, network, fetch, same_time=True)
    numpy.testing.assert_array_equal(again, labels)
    assert kept.shape == labels.shape
    assert (kept[:-1] != labels[:-1]).any()


@pytest.mark.parametrize(("include_eos", "more"), [(False, 1), (True, 0)])
def test_scores_behind_a_loop_of_known_length(include_eos, more):
    choice = {"class": "choice", "beam_size": 1, "from": "data:source", "target": None, "initial_output": 0}
    net_dict = {
        "post": {"class": "softmax", "from": "data", "n_out": 5},
        "s": {"class": "rec", "from": "post", "include_eos": include_eos, "unit": {"output": choice}},
        "score": {"class": "choice_get_beam_scores", "from": "s", "is_output_layer": True},
    }
    with make_scope() as session:
        network = make_network(net_dict, train_flag=False, eval_flag=True, search_flag=True)
        fetch = [
            network.layers["score"].output.placeholder,
            network.layers["post"].output.copy_as_batch_major().placeholder,
        ]
        (scores, probs), _ = run_network(session, network, fetch, same_time=True)
    longest = numpy.log(probs[0].max(axis=-1))
    numpy.testing.assert_allclose(scores.ravel()[0], longest.sum() / (len(longest) + more), rtol=1e-5)
